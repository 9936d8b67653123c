package ingest_test

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk/disktest"
)

var cutPath = filepath.FromSlash("/journal")

// said is what a process said of its journal before the power was cut.
type said struct {
	begun bool
	// may is what the journal may know of a key: what was said to be saved last, and what was tried since.
	may  map[ingest.Key][]ingest.Entry
	done bool // what else it did
}

// scribe writes to a journal until the power is cut.
type scribe struct {
	t       *testing.T
	machine disktest.Machine
	*ingest.FileJournal
	said
}

func newScribe(t *testing.T, m disktest.Machine, known ...ingest.Entry) *scribe {
	t.Helper()
	s := &scribe{t: t, machine: m, said: said{may: map[ingest.Key][]ingest.Entry{}}}
	for _, e := range known {
		s.begun, s.may[e.Key] = true, []ingest.Entry{e}
	}
	j, err := openOrBegin(disk.With(t.Context(), m), service, cutPath)
	if err != nil {
		return s
	}
	s.FileJournal, s.begun = j, s.begun || m.Alive()
	ingest.CompactAbove(j, 0)
	return s
}

// save is what an upload, or a person's word, writes.
func (s *scribe) save(entries ...ingest.Entry) {
	if s.FileJournal == nil {
		return
	}
	for _, e := range entries {
		claim, err := s.Claim(s.t.Context(), e.Key)
		if err != nil {
			return
		}
		if s.may[e.Key] == nil {
			s.may[e.Key] = []ingest.Entry{{}}
		}
		s.may[e.Key] = append(s.may[e.Key], e)
		if claim.Save(s.t.Context(), e) == nil && s.machine.Alive() {
			s.may[e.Key] = []ingest.Entry{e}
		}
		claim.Release()
	}
}

func (s *scribe) bind() bool {
	if s.FileJournal == nil {
		return false
	}
	_, err := s.Bind(s.t.Context(), ingest.Owner{Service: service})
	return err == nil
}

// end closes the journal.
func (s *scribe) end() said {
	if s.FileJournal != nil {
		_ = s.Close()
	}
	return s.said
}

// know is what a journal's file says of each key, as far as it counts.
func know(t *testing.T, d *disktest.Disk) map[ingest.Key]ingest.Entry {
	t.Helper()
	content, _ := d.Content(cutPath)
	entries, err := ingest.Entries(content)
	require.NoError(t, err)
	maps.DeleteFunc(entries, func(_ ingest.Key, e ingest.Entry) bool { return e.State == ingest.StateClaimed })
	return entries
}

// The power is cut at every write, sync and rename of what a journal does. The journal opens again, or was never
// begun. It contains everything that was reported as saved, and for each key only what was saved or attempted. It
// can be continued.
func TestFileJournal_PowerCut_LosesNothingSaved(t *testing.T) {
	t.Parallel()
	states := []ingest.State{ingest.StateCommitting, ingest.StateInDoubt, ingest.StateRefused, ingest.StateCreated}
	var outdated, latest []ingest.Entry // a journal of which little is of use
	for n := range 8 {
		for _, state := range states[:1+n%4] {
			outdated = append(outdated, entry(n, state))
		}
		outdated = append(outdated, entry(n, states[n%4]))
		latest = append(latest, outdated[len(outdated)-1])
	}
	var old bytes.Buffer
	require.NoError(t, ingest.WriteJournal(&old, service, slices.Values(outdated)))
	damaged := bytes.Clone(old.Bytes())
	damaged[bytes.IndexByte(damaged, '\n')+20] ^= 1 // in the first of two lines of the first key
	word := entry(1, ingest.StateCreated)
	word.By = "a person"

	for name, c := range map[string]struct {
		before []byte
		run    func(*testing.T, disktest.Machine) said
		least  int
	}{
		"begin and save": {nil, func(t *testing.T, m disktest.Machine) said {
			t.Helper()
			s := newScribe(t, m)
			s.bind()
			s.save(entry(1, states[0]), entry(1, states[3]), entry(2, states[0]), entry(2, states[1]),
				entry(2, states[2]))
			return s.end()
		}, 50},
		"a person's word": {old.Bytes(), func(t *testing.T, m disktest.Machine) said {
			t.Helper()
			s := newScribe(t, m, latest...)
			if s.FileJournal != nil {
				ingest.CompactAbove(s.FileJournal, math.MaxUint32)
			}
			s.bind()
			s.save(word)
			return s.end()
		}, 10},
		"a last line without its end": {bytes.TrimRight(old.Bytes(), "\n"), func(t *testing.T, m disktest.Machine) said {
			t.Helper()
			s := newScribe(t, m, latest...)
			s.bind()
			s.save(word)
			return s.end()
		}, 10},
		"compaction": {old.Bytes(), func(t *testing.T, m disktest.Machine) said {
			t.Helper()
			s := newScribe(t, m, latest...)
			s.done = s.bind()
			s.save(entry(1, states[3]), entry(9, states[0]))
			return s.end()
		}, 40},
		"forgetting": {old.Bytes(), func(t *testing.T, m disktest.Machine) said {
			t.Helper()
			s := newScribe(t, m, latest...)
			for _, e := range latest {
				if e.State == ingest.StateCreated {
					s.may[e.Key] = append(s.may[e.Key], ingest.Entry{})
				}
			}
			if s.bind() {
				_, _ = s.Forget(t.Context(), time.Now())
			}
			return s.end()
		}, 50},
		"salvage": {damaged, func(t *testing.T, m disktest.Machine) said {
			t.Helper()
			_, _ = ingest.SalvageJournal(disk.With(t.Context(), m), cutPath, ingest.Owner{Service: service})
			s := newScribe(t, m, latest...)
			s.bind()
			return s.end()
		}, 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := disktest.New()
			if c.before != nil {
				before.Put(cutPath, c.before)
			}
			compacted := 0
			run := func(m disktest.Machine) said { return c.run(t, m) }
			count := disktest.Cuts(before, run, func(d *disktest.Disk, said said, place string) {
				ctx := disk.With(t.Context(), d.Mount(nil))
				if name == "salvage" {
					requireKept(t, d, damaged, place)
				}
				j, err := ingest.OpenJournal(ctx, cutPath)
				if name == "salvage" && errors.Is(err, ingest.ErrJournalDamaged) {
					_, err = ingest.SalvageJournal(ctx, cutPath, ingest.Owner{Service: service})
					require.NoError(t, err, place)
					j, err = ingest.OpenJournal(ctx, cutPath)
				}
				if !said.begun && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, ingest.ErrJournalDamaged)) {
					return
				}
				require.NoError(t, err, place)
				if after, _ := d.Content(cutPath); len(after) < len(c.before) {
					compacted++
				}
				known := know(t, d)
				forgot := name == "forgetting" && len(known) < len(latest)
				for key, may := range said.may {
					is := func(e ingest.Entry) bool { return same(e, known[key]) }
					require.True(t, slices.ContainsFunc(may, is), "%s: %v is known, not one of %v", place, known[key],
						may)
					delete(known, key)
				}
				require.Empty(t, known, place)

				binding, err := j.Bind(t.Context(), ingest.Owner{Service: service})
				require.NoError(t, err, place)
				require.True(t, binding.Gaps || !forgot, "%s: what is forgotten is said to be", place)
				put(t, j, 99, ingest.StateCreated)
				require.NoError(t, j.Close(), place)
				j, err = ingest.OpenJournal(ctx, cutPath)
				require.NoError(t, err, place)
				bind(t, j, service)
				require.Equal(t, int64(100), load(t, j, 99).NoteID, place)
				require.NoError(t, j.Close(), place)
				for _, left := range d.Names() {
					assert.NotEqual(t, ingest.CompactedPath(cutPath), left, place)
				}
			})
			assert.GreaterOrEqual(t, count, c.least)
			if name == "compaction" || name == "forgetting" {
				assert.Positive(t, compacted)
			}
			t.Log(count, "disks,", compacted, "of them with a shorter journal")
		})
	}
}

// requireKept wants the damaged file as it was: in its place, or as a copy.
func requireKept(t *testing.T, d *disktest.Disk, damaged []byte, place string) {
	t.Helper()
	require.True(t, slices.ContainsFunc(d.Names(), func(name string) bool {
		content, _ := d.Content(name)
		return (name == cutPath || strings.HasPrefix(name, cutPath+".damaged-")) && bytes.Equal(content, damaged)
	}), place)
}

// same compares what tells one entry from another.
func same(a, b ingest.Entry) bool {
	return a.State == b.State && a.Patient == b.Patient && a.NoteID == b.NoteID && a.Size == b.Size && a.By == b.By && (a.State == 0 || a.Key == b.Key)
}
