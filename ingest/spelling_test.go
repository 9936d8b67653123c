package ingest_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// spelledName is a name in two spellings. macOS and some file servers decompose the names of files.
type spelledName struct{ composed, decomposed string }

// The names have letters that earlier versions did not compose.
var spelledNames = map[string]spelledName{
	"Japanese":   {"カルテ ガ", "カルテ カ\u3099"},
	"Vietnamese": {"Nguy\u1ec5n", "Nguye\u0302\u0303n"},
	"Cyrillic":   {"Ино\u0439", "Ино\u0438\u0306"},
	"Korean":     {"\ud55c\uae00", "\u1112\u1161\u11ab\u1100\u1173\u11af"},
}

// earlierForms are what earlier versions hashed for the decomposed names: they composed some Latin letters.
var earlierForms = map[string]string{
	"Japanese":   "カルテ カ\u3099",
	"Vietnamese": "Nguy\u00ea\u0303n",
	"Cyrillic":   "Ино\u0438\u0306",
	"Korean":     "\u1112\u1161\u11ab\u1100\u1173\u11af",
}

// hashOfParts is how keys are hashed.
func hashOfParts(parts ...string) []byte {
	h := sha256.New()
	for _, part := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return h.Sum(nil)
}

// earlierFileKey returns the key that an earlier version made of a file with the content and a name in that form.
func earlierFileKey(content []byte, patient int64, form string) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(hashOfParts("file", string(sum[:]), strconv.FormatInt(patient, 10), form))
}

// earlierEntry is an entry of an earlier version in a journal.
type earlierEntry struct {
	key  string // as it was hashed
	name string // likewise
}

// begin makes a journal with the entry that the recording has in another one after a run, under the earlier key.
func (e earlierEntry) begin(t *testing.T, srv *clinicaldoctest.Server, from ingest.Journal, r ingest.Result) string {
	t.Helper()
	claim, err := from.Claim(t.Context(), r.JournalKey)
	require.NoError(t, err)
	entry := claim.Entry()
	claim.Release()
	origin := ingest.ServiceName(srv.URL)
	copy(entry.Key[:], hashOfParts("key", origin, e.key))
	patient := strconv.FormatInt(r.Recording.Params.PatientID, 10)
	entry.Name = binary.BigEndian.Uint32(hashOfParts("name", origin, patient, e.name))
	path := journalPath(t)
	journal := openJournal(t, srv.URL, path)
	owner, err := ingest.OwnerOf(t.Context(), srv.Client())
	require.NoError(t, err)
	_, err = journal.Bind(t.Context(), owner)
	require.NoError(t, err)
	claim, err = journal.Claim(t.Context(), entry.Key)
	require.NoError(t, err)
	require.NoError(t, claim.Save(t.Context(), entry))
	claim.Release()
	require.NoError(t, journal.Close())
	return path
}

// keysWithNotes returns the keys of the entries of a journal that may have a note.
func keysWithNotes(t *testing.T, path string) (keys []string) {
	t.Helper()
	for _, e := range readEntries(t, path) {
		if e.State == ingest.StateCreated || e.State == ingest.StateInDoubt || e.State == ingest.StateCommitting {
			keys = append(keys, e.Key.String())
		}
	}
	return keys
}

// spelledFiles writes the same recording under both spellings of a name, each in a folder of its own.
func spelledFiles(t *testing.T, name spelledName) (composed, decomposed ingest.Recording) {
	t.Helper()
	var both []ingest.Recording
	for _, spelled := range []string{name.composed, name.decomposed} {
		path := filepath.Join(t.TempDir(), spelled+".wav")
		require.NoError(t, os.WriteFile(path, sound(1), 0o600))
		both = append(both, ingest.Recording{File: path, Params: paramsOf(path)})
	}
	return both[0], both[1]
}

func TestFileKey_NameInTwoSpellings_IsTheSame(t *testing.T) {
	t.Parallel()
	for language, name := range spelledNames {
		composed, decomposed := spelledFiles(t, name)
		key := func(r ingest.Recording, name string) string {
			r.Params.Name = name
			key, err := ingest.FileKey(r.File, r.Params)
			require.NoError(t, err)
			return key
		}
		assert.Equal(t, key(composed, ""), key(decomposed, ""), "the file's name: %s", language)
		named := key(composed, name.composed)
		assert.Equal(t, named, key(composed, name.decomposed), "the note's name: %s", language)
		assert.NotEqual(t, named, key(composed, name.composed+"n"), "another name: %s", language)
	}
}

func TestRun_FileNameInTwoSpellings_MakesOneNote(t *testing.T) {
	t.Parallel()
	for language, name := range spelledNames {
		t.Run(language+", in one run", func(t *testing.T) {
			t.Parallel()
			srv, u := newUploader(t)
			composed, decomposed := spelledFiles(t, name)
			results := upload(t, u, ingest.Recordings(composed, decomposed))
			assert.Equal(t, counts{ingest.Created: 1, ingest.AlreadyThere: 1}, statuses(results))
			assert.Len(t, srv.Notes(), 1)
		})
		t.Run(language+", in two runs", func(t *testing.T) {
			t.Parallel()
			srv, u := newUploader(t)
			composed, decomposed := spelledFiles(t, name)
			assert.Equal(t, ingest.Created, uploadOne(t, u, decomposed).Status)
			assert.Equal(t, ingest.AlreadyThere, uploadOne(t, u, composed).Status)
			assert.Len(t, srv.Notes(), 1)
		})
	}
}

func TestRun_KeyInTwoSpellings_MakesOneNote(t *testing.T) {
	t.Parallel()
	for language, name := range spelledNames {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			srv, u := newUploader(t)
			for _, spelled := range []string{name.decomposed, name.composed} {
				r := recording(0)
				r.Key = spelled
				r.Params.Name = spelled
				uploadOne(t, u, r)
			}
			assert.Len(t, srv.Notes(), 1)
		})
	}
}

// A journal of an earlier version has the hash of a decomposed name. A run continues with that entry, whatever spelling
// the name has now.
func TestRun_JournalWithEarlierKey_MakesNoSecondNote(t *testing.T) {
	t.Parallel()
	for language, name := range spelledNames {
		form := earlierForms[language]
		for _, isFileKey := range []bool{true, false} {
			t.Run(language+", FileKey "+strconv.FormatBool(isFileKey), func(t *testing.T) {
				t.Parallel()
				srv, u := newUploader(t)
				composed, decomposed := spelledFiles(t, name)
				earlier := earlierEntry{earlierFileKey(sound(1), 7, form+".wav"), form + ".wav"}
				if !isFileKey {
					composed.Key = name.composed
					decomposed.Key = name.decomposed
					earlier.key = form
				}
				path := earlier.begin(t, srv, u.Journal, uploadOne(t, u, decomposed))
				u.Journal = openJournal(t, srv.URL, path)
				u.AllNew = true // otherwise a run would also find the note by its content
				results := upload(t, u, ingest.Recordings(composed, decomposed))
				results = append(results, uploadOne(t, u, composed), uploadOne(t, u, decomposed))
				assert.Equal(t, counts{ingest.AlreadyThere: 4}, statuses(results))
				assert.Len(t, srv.Notes(), 1)
				assert.Equal(t, []string{results[0].JournalKey.String()}, keysWithNotes(t, path))
			})
		}
	}
}

// The recording of an earlier version is unresolved, under the hash of its decomposed name.
func TestRun_UnresolvedUnderEarlierKeyAndName_IsDecided(t *testing.T) {
	t.Parallel()
	for language, name := range spelledNames {
		for _, isLost := range []bool{true, false} {
			t.Run(language+", lost "+strconv.FormatBool(isLost), func(t *testing.T) {
				t.Parallel()
				srv, u := newUploader(t)
				u.Find.Settle = time.Nanosecond
				r := recording(1)
				r.Key = name.decomposed
				r.Params.Name = name.decomposed
				response := clinicaldoctest.ResetAfterRequest()
				if !isLost {
					response = clinicaldoctest.Answer(http.StatusBadGateway, "")
				}
				srv.Inject(clinicaldoctest.RouteCreateNote, response)
				form := earlierForms[language]
				path := earlierEntry{form, form}.begin(t, srv, u.Journal, uploadUntilUnresolved(t, u, r))
				require.Len(t, keysWithNotes(t, path), 1)
				before := keysWithNotes(t, path)

				u = &ingest.Uploader{Client: srv.Client(quick()), Journal: openJournal(t, srv.URL, path)}
				u.Find.Settle = time.Nanosecond
				u.AllNew = true
				r = recording(1)
				r.Key = name.composed
				r.Params.Name = name.composed
				assert.Equal(t, ingest.Created, uploadOne(t, u, r).Status)
				assert.Len(t, srv.Notes(), 1)
				assert.Equal(t, before, keysWithNotes(t, path))
			})
		}
	}
}

// A queue still has a recording with the key that an earlier version made of the file.
func TestRun_EarlierFileKeyFromAQueue_MakesNoSecondNote(t *testing.T) {
	t.Parallel()
	name := spelledNames["Japanese"]
	for _, comesFirst := range []string{"the earlier key", "the new key"} {
		t.Run(comesFirst+" first", func(t *testing.T) {
			t.Parallel()
			srv, u := newUploader(t)
			u.AllNew = true
			_, decomposed := spelledFiles(t, name)
			published, err := decomposed.WithKey()
			require.NoError(t, err)
			queued := published
			queued.Key = earlierFileKey(sound(1), 7, earlierForms["Japanese"]+".wav")
			require.NotEqual(t, published.Key, queued.Key)
			order := []ingest.Recording{queued, published}
			if comesFirst == "the new key" {
				order = []ingest.Recording{published, queued}
			}
			assert.Equal(t, ingest.Created, uploadOne(t, u, order[0]).Status)
			second := uploadOne(t, u, order[1])
			assert.Equal(t, ingest.AlreadyThere, second.Status)
			assert.Equal(t, order[1].Key, second.Recording.Key, "a result has the key as it came")
			assert.Len(t, srv.Notes(), 1)
		})
	}
}

// If a record of the patient is damaged, it may be the one with the earlier key.
func TestRun_DamagedRecordAndEarlierKey_UploadsNothing(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	u.AllNew = true
	u.Journal = unreadable(u.Journal, ingest.ErrJournalDamaged)
	r := recording(1)
	r.Key = spelledNames["Korean"].decomposed
	result := uploadOne(t, u, r)
	assert.Equal(t, ingest.InDoubt, result.Status)
	require.ErrorIs(t, result.Err, ingest.ErrJournalDamaged)
	assert.Empty(t, srv.Notes())
	r.Key = "synthetic encounter"
	assert.Equal(t, ingest.Created, uploadOne(t, u, r).Status, "its key has one hash")
}

func TestRetention_JournalWithEarlierKey_KnowsTheRecording(t *testing.T) {
	t.Parallel()
	for language, name := range spelledNames {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			srv, u := newUploader(t)
			composed, decomposed := spelledFiles(t, name)
			form := earlierForms[language] + ".wav"
			earlier := earlierEntry{earlierFileKey(sound(1), 7, form), form}
			path := earlier.begin(t, srv, u.Journal, uploadOne(t, u, decomposed))
			srv.Advance(time.Minute)
			q := &ingest.Retention{Client: u.Client, Journal: openJournal(t, srv.URL, path)}
			statuses, err := q.Check(t.Context(), []ingest.Recording{composed, decomposed})
			require.NoError(t, err)
			for _, s := range statuses {
				require.NoError(t, s.Err)
				assert.True(t, s.Deletable)
				assert.Equal(t, []string{s.JournalKey.String()}, keysWithNotes(t, path))
			}
		})
	}
}

func TestBinding_Keys_HasEarlierHashesOfFewRecordings(t *testing.T) {
	t.Parallel()
	binding := ingest.Binding{Origin: "https://api.clinic.test"}
	for _, key := range []string{"ENC-2026-0001", "Z\u00fcrich", "Zu\u0308rich", "\u8a3a\u5bdf"} {
		assert.Equal(t, []ingest.Key{binding.Key(key)}, binding.Keys(ingest.Recording{Key: key}), key)
	}
	for language, name := range spelledNames {
		want := []ingest.Key{binding.Key(name.composed), {}}
		copy(want[1][:], hashOfParts("key", binding.Origin, earlierForms[language]))
		assert.Equal(t, want, binding.Keys(ingest.Recording{Key: name.composed}), language)
		assert.Equal(t, want, binding.Keys(ingest.Recording{Key: name.decomposed}), language)
	}
}
