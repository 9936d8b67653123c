package journaltest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// memory is a journal that keeps the contract, except for its flaw.
type memory struct {
	flaw string

	mu      sync.Mutex
	owner   ingest.Owner
	entries map[ingest.Key]ingest.Entry
	taken   map[ingest.Key]*claim
}

type claim struct {
	journal *memory
	key     ingest.Key
}

func (m *memory) has(flaw string) bool { return m.flaw == flaw }

func (m *memory) Bind(_ context.Context, o ingest.Owner) (ingest.Binding, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o.Service = strings.TrimSuffix(strings.ToLower(o.Service), "/")
	if m.owner == (ingest.Owner{}) || m.has("takes any owner") {
		m.owner = o
	}
	binding := ingest.Binding{Origin: m.owner.Service}
	switch {
	case m.has("has no origin"):
		return ingest.Binding{}, nil
	case o.Service != m.owner.Service, o.Headers != m.owner.Headers && !m.has("takes any headers"):
		return binding, ingest.ErrOtherService
	case o.UserID != m.owner.UserID && !m.has("takes any user"):
		return binding, ingest.ErrOtherUser
	}
	return binding, nil
}

func (m *memory) Claim(_ context.Context, key ingest.Key) (ingest.Claim, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	committed := m.entries[key].State == ingest.StateCommitting
	twoMayBegin := m.has("lets two begin") || m.has("lets two commit") || m.has("undoes decisions")
	if m.taken[key] != nil && !m.has("lets all claim") && (committed || !twoMayBegin) {
		return nil, ingest.ErrTaken
	}
	c := &claim{m, key}
	m.taken[key] = c
	return c, nil
}

func (c *claim) Entry() ingest.Entry {
	m := c.journal
	m.mu.Lock()
	defer m.mu.Unlock()
	e, known := m.entries[c.key]
	refused := e.State == ingest.StateRefused && !m.has("shows refusals")
	if !known || refused {
		return m.claimed(c.key, e)
	}
	return e
}

// claimed is the entry of a recording without a note.
func (m *memory) claimed(key ingest.Key, e ingest.Entry) ingest.Entry {
	claimed := ingest.Entry{Key: key, State: ingest.StateClaimed, By: e.By, Replaced: e.Replaced, Excluded: e.Excluded}
	if m.has("forgets decisions") {
		claimed.By = ""
	}
	if m.has("forgets earlier notes") {
		claimed.Replaced = nil
	}
	if m.has("forgets excluded notes") {
		claimed.Excluded = nil
	}
	return claimed
}

func (c *claim) Save(_ context.Context, e ingest.Entry) error {
	m := c.journal
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.taken[c.key] == nil && !m.has("saves after release") {
		return errors.New("released")
	}
	committed := m.entries[c.key].State == ingest.StateCommitting
	if committed && m.taken[c.key] != c && m.has("lets two begin") {
		return ingest.ErrTaken
	}
	known := m.entries[c.key]
	replaced := known.State == ingest.StateRefused && len(known.Replaced) > 0
	if replaced && e.Stage != 0 && m.taken[c.key] != c && !m.has("undoes decisions") {
		return ingest.ErrTaken
	}
	if m.taken[c.key] != nil {
		m.taken[c.key] = c
	}
	if !m.has("trusts the entry's key") {
		e.Key = c.key
	}
	var kept ingest.Entry
	text, _ := json.Marshal(e)
	_ = json.Unmarshal(text, &kept)
	if m.has("forgets the hash") {
		kept.SHA256 = ""
	}
	if m.has("keeps the first stage") && known.Stage != 0 {
		kept.Stage = known.Stage
	}
	m.entries[kept.Key] = kept
	return nil
}

func (c *claim) Release() {
	c.journal.mu.Lock()
	defer c.journal.mu.Unlock()
	delete(c.journal.taken, c.key)
}

func (m *memory) EntriesForPatient(_ context.Context, patient uint32, since time.Time) ([]ingest.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []ingest.Entry
	for _, e := range m.entries {
		sent := e.State == ingest.StateCommitting || e.State == ingest.StateCreated || e.State == ingest.StateInDoubt
		young := !e.SentAt.Before(since) || !e.NoteCreatedAt.Before(since)
		for _, note := range e.Replaced {
			young = young || !note.CreatedAt.Before(since)
		}
		replaced := len(e.Replaced) > 0 && !m.has("lists no earlier notes")
		switch {
		case !sent && !replaced && !m.has("lists refusals"):
		case e.Patient != patient && !m.has("lists all patients"):
		case !young && !m.has("lists all times"):
		default:
			list = append(list, e)
		}
	}
	if m.has("lists twice") {
		list = append(list, list...)
	}
	return list, nil
}

func (m *memory) Processing(context.Context) ([]ingest.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []ingest.Entry
	for _, e := range m.entries {
		isOver := e.Stage.AtLeast(clinicaldoc.StageComplete) && !m.has("lists complete notes")
		isFailed := e.Stage == clinicaldoc.StageFailed && !m.has("lists failed notes")
		if e.State == ingest.StateCreated && e.Stage != 0 && !isOver && !isFailed {
			list = append(list, e)
		}
	}
	return list, nil
}

func (m *memory) Close() error {
	if m.has("forgets all") {
		m.entries = map[ingest.Key]ingest.Entry{}
	}
	return nil
}

func newMemory(flaw string) *memory {
	return &memory{flaw: flaw, entries: map[ingest.Key]ingest.Entry{}, taken: map[ingest.Key]*claim{}}
}

func TestRun_AcceptsAJournalThatKeepsTheContract(t *testing.T) {
	t.Parallel()
	for _, variant := range []string{"", "lets two begin"} {
		journal := newMemory(variant)
		for _, result := range check(t.Context(), func() ingest.Journal { return journal }) {
			if variant != "" && result.name == "Save keeps the first note" {
				continue // it keeps the last one
			}
			require.NoError(t, result.err, result.name)
		}
	}
}

func TestRun_FindsTheFlawOfAJournal(t *testing.T) {
	t.Parallel()
	for flaw, want := range map[string]string{
		"has no origin":          "Claim of a new key",
		"takes any owner":        "Bind rejects other owners",
		"takes any headers":      "Bind rejects other owners",
		"takes any user":         "Bind rejects other owners",
		"lets all claim":         "Claim of a key that is taken",
		"lets two begin":         "Save keeps the first note",
		"lets two commit":        "Save lets one of two commit",
		"saves after release":    "Claim after Release",
		"shows refusals":         "Claim of a refused recording",
		"forgets decisions":      "Claim of a refused recording",
		"trusts the entry's key": "Claim decides whose entry it is",
		"forgets the hash":       "Save keeps every field",
		"forgets all":            "Save by many at a time",
		"lists refusals":         "EntriesForPatient lists what was sent",
		"lists all patients":     "EntriesForPatient lists what was sent",
		"lists all times":        "EntriesForPatient goes by time",
		"lists twice":            "EntriesForPatient follows changes",
		"lists no earlier notes": "EntriesForPatient lists earlier notes",
		"forgets earlier notes":  "Claim of a recording that is sent again",
		"forgets excluded notes": "Claim of a recording that is sent again",
		"keeps the first stage":  "Save changes the stage",
		"undoes decisions":       "Save of a stage leaves a decision alone",
		"lists complete notes":   "Processing lists notes that are not complete",
		"lists failed notes":     "Processing lists notes that are not complete",
	} {
		journal := newMemory(flaw)
		failed := map[string]bool{}
		for _, result := range check(t.Context(), func() ingest.Journal { return journal }) {
			failed[result.name] = result.err != nil
		}
		assert.True(t, failed[want], "%s: %s", flaw, want)
	}
}
