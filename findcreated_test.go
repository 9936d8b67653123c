package clinicaldoc_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jarcoal/httpmock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

const (
	// soundSHA256 is that of what visit sends.
	soundSHA256 = "dd29442deca69f52c50006b831cb216edf78a7da33748f0a80ff19f2ebe57ecd"
	// remade is another recording of the same length as the one that visit sends.
	remade = "noise"
	// otherToken is not the token that the clients of these tests have.
	otherToken = "synthetic-token-of-a-clinician"
)

// What a caller may state about a service.
var (
	recordingsUnchanged = clinicaldoc.WithAssumptions(clinicaldoc.Assumptions{RecordingsUnchanged: true})
	namesUnchanged      = clinicaldoc.WithAssumptions(clinicaldoc.Assumptions{NamesUnchanged: true})
)

// constructed is a create of visit whose response was lost now, as a caller constructs it.
func constructed() *lostCreate {
	return &lostCreate{
		Params: visit(), SentAt: time.Now(), LostAt: time.Now(), Service: testBase, UserID: fakeUser, AudioSHA256: soundSHA256,
	}
}

// restored is a lost create as another process reads it, from JSON that may have been changed.
func restored(t *testing.T, lost *lostCreate, change func(map[string]any)) *lostCreate {
	t.Helper()
	stored, err := json.Marshal(lost)
	require.NoError(t, err)
	var members map[string]any
	require.NoError(t, json.Unmarshal(stored, &members))
	if change != nil {
		change(members)
	}
	stored, err = json.Marshal(members)
	require.NoError(t, err)
	again := new(lostCreate)
	require.NoError(t, json.Unmarshal(stored, again))
	return again
}

// sentByAClock returns a change of stored JSON: the clock of the machine that sent the create was off by that much.
func sentByAClock(t *testing.T, off time.Duration) func(map[string]any) {
	t.Helper()
	return func(members map[string]any) {
		for _, key := range []string{"sent_at", "lost_at", "clock_read_at"} {
			text, kept := members[key].(string)
			if !kept {
				continue
			}
			at, err := time.Parse(time.RFC3339Nano, text)
			require.NoError(t, err)
			members[key] = at.Add(off).Format(time.RFC3339Nano)
		}
	}
}

// committing keeps every note that is sent, and gives its response.
func (s *fakeService) committing(r *http.Request, sent fakeNote) (*http.Response, error) {
	return s.commit(r, sent), nil
}

// losing keeps every note that is sent, and loses its response.
func (s *fakeService) losing(r *http.Request, sent fakeNote) (*http.Response, error) {
	s.commit(r, sent) //nolint:bodyclose // it has none
	return nil, io.ErrUnexpectedEOF
}

// timingOut loses the note, and responds, which shows the service's clock.
func (s *fakeService) timingOut(r *http.Request, _ fakeNote) (*http.Response, error) {
	return s.respond(r, http.StatusGatewayTimeout, ""), nil
}

// returned makes a note of another patient that this client's Create returns.
func (s *fakeService) returned(client *clinicaldoc.Client) *clinicaldoc.ProgressNote {
	s.t.Helper()
	before := s.post
	defer func() { s.post = before }()
	s.post = s.committing
	audio := clinicaldoc.AudioBytes("b.wav", []byte("control"))
	note, err := client.Notes.Create(s.t.Context(), clinicaldoc.CreateNoteParams{Name: "Control", PatientID: 8, Audio: audio})
	require.NoError(s.t, err)
	return note
}

// twoVisits are two notes that look the same. The second one's recording is what was sent.
func twoVisits(s *fakeService) (other, own int64) {
	other = s.keep(visited().of(remade))
	return other, s.keep(visited())
}

// earlier is a note from long before the create was sent.
func earlier() fakeNote { return visited().named("Earlier").of(remade).by(5) }

// The recording proves the note, whatever else the service or a person has changed.
func TestFindCreated_ByRecording(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]func(*fakeService) int64{
		"as it was sent": func(s *fakeService) int64 { return s.keep(visited()) },
		"among others": func(s *fakeService) int64 {
			s.keep(visited().ago(time.Hour), visited().of(remade), visited().of("longer").named("Other"))
			return s.keep(visited())
		},
		"renamed":             func(s *fakeService) int64 { return s.keep(visited().named("Other")) },
		"without its size":    func(s *fakeService) int64 { return s.keep(visited().sized(0)) },
		"with another size":   func(s *fakeService) int64 { return s.keep(visited().sized(3)) },
		"of another user":     func(s *fakeService) int64 { return s.keep(visited().by(5)) },
		"of nobody":           func(s *fakeService) int64 { return s.keep(visited().by(-1)) },
		"of a second later":   func(s *fakeService) int64 { return s.keep(visited().ago(-time.Second)) },
		"times without a Z":   func(s *fakeService) int64 { s.zone = 14 * time.Hour; return s.keep(visited()) },
		"service ahead":       func(s *fakeService) int64 { s.ahead = 3 * time.Hour; return s.keep(visited()) },
		"service behind":      func(s *fakeService) int64 { s.ahead = -3 * time.Hour; return s.keep(visited()) },
		"no Date":             func(s *fakeService) int64 { s.noDate = true; return s.keep(visited()) },
		"no user":             func(s *fakeService) int64 { s.noUser = true; return s.keep(visited()) },
		"a list without ends": func(s *fakeService) int64 { s.list = deaf(15); return s.keep(visited()) },
		"without a time": func(s *fakeService) int64 {
			n := visited()
			n.made = time.Time{}
			return s.keep(n)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				lost := lose(t, client, visit())
				id := made(s)
				begin := time.Now()
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
				require.NoError(t, err)
				assert.Equal(t, id, note.ID)
				assert.Zero(t, time.Since(begin))

				// The same recording, uploaded again by somebody, changes nothing.
				s.keep(visited())
				note, err = client.Notes.FindCreated(t.Context(), lost, findParams{})
				require.NoError(t, err)
				assert.Equal(t, id, note.ID)
			})
		})
	}
}

// Another process has only the JSON, or what somebody constructed.
func TestFindCreated_ByRecording_InAnotherProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		lost := lose(t, s.client(), visit())
		_, own := twoVisits(s)
		upper := restored(t, lost, func(members map[string]any) { members["audio_sha256"] = strings.ToUpper(soundSHA256) })
		unhashed := constructed()
		unhashed.AudioSHA256 = ""
		for i, lost := range []*lostCreate{restored(t, lost, nil), upper, constructed(), unhashed} {
			note, err := s.client().Notes.FindCreated(t.Context(), lost, findParams{})
			require.NoError(t, err, i)
			assert.Equal(t, own, note.ID, i)
		}
	})
}

// A stream cannot be read again, so it is hashed while it is sent.
func TestFindCreated_ByRecordingOfAStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		params := visit()
		params.Audio = clinicaldoc.AudioReader("a.wav", strings.NewReader("sound"))
		lost := lose(t, client, params)
		assert.Equal(t, soundSHA256, lost.AudioSHA256)
		assert.EqualValues(t, len("sound"), lost.AudioSize)
		_, own := twoVisits(s)
		note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
		require.NoError(t, err)
		assert.Equal(t, own, note.ID)
	})
}

// A file that was replaced since is not what was sent, whatever its size and time.
func TestFindCreated_ChangedFileIsNotCompared(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.wav")
	require.NoError(t, os.WriteFile(path, []byte("sound"), 0o600))
	s := newFakeService(t)
	params := visit()
	var err error
	params.Audio, err = clinicaldoc.AudioFile(path)
	require.NoError(t, err)
	lost := lose(t, s.client(), params)
	assert.Equal(t, soundSHA256, restored(t, lost, nil).AudioSHA256)
	info, err := os.Stat(path)
	require.NoError(t, err)
	again := path + ".new"
	require.NoError(t, os.WriteFile(again, []byte("other"), 0o600))
	require.NoError(t, os.Chtimes(again, time.Time{}, info.ModTime()))
	require.NoError(t, os.Rename(again, path))
	assert.Empty(t, restored(t, lost, nil).AudioSHA256)
}

// Settle has to pass before the absence of a note means anything.
func TestFindCreated_NotCreated(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		params findParams
		change func(*lostCreate)
		want   time.Duration
	}{
		"default":          {findParams{}, nil, defaultSettle},
		"other Settle":     {findParams{Settle: time.Minute}, nil, time.Minute},
		"unique name":      {findParams{UniqueName: true}, nil, defaultSettle},
		"without audio":    {findParams{WithoutAudio: true}, nil, defaultSettle},
		"lost a while ago": {findParams{}, func(e *lostCreate) { ago(e, 4*time.Minute) }, 6 * time.Minute},
		"lost long ago":    {findParams{}, func(e *lostCreate) { ago(e, time.Hour) }, 0},
		"long upload": {
			findParams{}, func(e *lostCreate) { e.SentAt = e.SentAt.Add(-25 * time.Minute) }, 25 * time.Minute,
		},
		"LostAt is not known": {
			findParams{}, func(e *lostCreate) { ago(e, time.Hour); e.LostAt = time.Time{} }, defaultSettle,
		},
		"LostAt is before SentAt": {
			findParams{}, func(e *lostCreate) { e.LostAt = e.LostAt.Add(-time.Hour) }, defaultSettle,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				lost := lose(t, client, visit())
				s.keep(visited().named("Older").ago(50*time.Hour), earlier().ago(2*time.Hour))
				if tt.change != nil {
					tt.change(lost)
				}
				begin := time.Now()
				note, err := client.Notes.FindCreated(t.Context(), lost, tt.params)
				require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
				require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
				require.EqualError(t, err, "clinicaldoc: Notes.FindCreated (GET /v1/progress-notes): "+
					"the note was not created; creating it again is safe")
				assert.Nil(t, note)
				assert.Equal(t, tt.want, time.Since(begin))
				assert.Less(t, s.lists, 60, "in growing pauses")
				assert.Equal(t, tt.want > 0, s.lists > 1)
				assert.Zero(t, s.urls, "no note was made since, so no recording is read")
			})
		})
	}
}

// A note made since that nothing explains may be it, changed by the service or by a person.
func TestFindCreated_UnexplainedNote(t *testing.T) {
	t.Parallel()
	none := func(*fakeService) {}
	for name, tt := range map[string]struct {
		made   fakeNote
		before time.Duration // the create was sent
		also   func(*fakeService)
		params findParams
		reason string
	}{
		"another recording":           {visited().of(remade), 0, none, findParams{}, "at least one note may be it"},
		"another recording and name":  {visited().of(remade).named("Other"), 0, none, findParams{}, "may be it"},
		"a colleague's recording":     {visited().of(remade).by(5), 0, none, findParams{}, "may be it"},
		"another length":              {visited().of("longer than that"), 0, none, findParams{}, "may be it"},
		"recordings must not be read": {visited(), 0, none, findParams{WithoutAudio: true}, "may be it"},
		"made a little before":        {visited().of(remade), 14 * time.Minute, none, findParams{}, "may be it"},
		"expired recording": {visited(), 0, func(s *fakeService) {
			s.audio = fails(1, http.StatusGone) //nolint:bodyclose // it is the server's
		}, findParams{}, "may be it"},
		"sent in the future": {
			visited().of(remade), 0, func(s *fakeService) { s.ahead = -time.Hour }, findParams{}, "check the clocks",
		},
		"a local time": {
			visited().of(remade), 0, func(s *fakeService) { s.zone = 14 * time.Hour }, findParams{}, "may be it",
		},
		"deleted meanwhile": {visited().of(remade), 0, func(s *fakeService) {
			s.onList = func() {
				if s.lists == 2 {
					s.change(1, func(n *fakeNote) { n.id = 0 })
				}
			}
		}, findParams{}, "may be it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				lost := lose(t, client, visit())
				tt.made.made = time.Now().Add(-tt.before)
				s.keep(tt.made)
				tt.also(s)
				note, err := client.Notes.FindCreated(t.Context(), lost, tt.params)
				requireUndecided(t, note, err, tt.reason)
			})
		})
	}
}

// Other bytes rule a note out only if the caller states that the service keeps recordings as they were sent. That one
// recording was read back unchanged proves nothing about another one.
func TestFindCreated_OtherBytes(t *testing.T) {
	t.Parallel()
	assembled := func(e *lostCreate) { // by a caller who may have another recording
		*e = lostCreate{Params: visit(), SentAt: e.SentAt, LostAt: e.LostAt, AudioSize: 5, Service: testBase, UserID: fakeUser}
		e.Params.Audio = clinicaldoc.AudioBytes("a.wav", []byte("other"))
	}
	readAnywhere := func(e *lostCreate) {
		e.Params.Audio = clinicaldoc.AudioReaderAt("a.wav", strings.NewReader("other"), 5)
	}
	for name, tt := range map[string]struct {
		options    []clinicaldoc.Option
		rival      fakeNote
		change     func(*lostCreate)
		notCreated bool
	}{
		"nothing is known":          {nil, visited().of(remade), nil, false},
		"another length":            {nil, visited().of("longer than that").sized(3), nil, false},
		"names are kept":            {[]clinicaldoc.Option{namesUnchanged}, visited().of(remade), nil, false},
		"kept, other bytes":         {[]clinicaldoc.Option{recordingsUnchanged}, visited().of(remade), nil, true},
		"kept, another length":      {[]clinicaldoc.Option{recordingsUnchanged}, visited().of("longer").sized(5), nil, true},
		"kept, another's recording": {[]clinicaldoc.Option{recordingsUnchanged}, visited(), assembled, false},
		"kept, a hash of something": {[]clinicaldoc.Option{recordingsUnchanged}, visited(), readAnywhere, false},
		"kept, and stated by hand": {[]clinicaldoc.Option{recordingsUnchanged}, visited().of(remade), func(e *lostCreate) {
			*e = *constructed()
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client(tt.options...)
				_, err := client.Users.Me(t.Context())
				require.NoError(t, err)
				// A first create is found by its recording, so the service was seen to keep one.
				first := lose(t, client, visit())
				s.keep(visited())
				seen, err := client.Notes.FindCreated(t.Context(), first, findParams{})
				require.NoError(t, err)

				time.Sleep(time.Hour)
				lost := lose(t, client, visit())
				if tt.change != nil {
					tt.change(lost)
				}
				tt.rival.made = time.Now()
				s.keep(tt.rival)
				params := findParams{Exclude: []*clinicaldoc.ProgressNote{seen}}
				note, err := client.Notes.FindCreated(t.Context(), lost, params)
				if tt.notCreated {
					require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
					return
				}
				requireUndecided(t, note, err, "may be it")
			})
		})
	}
}

// Another name rules a note out only if the caller states that names are kept.
func TestFindCreated_OtherNames(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		option     clinicaldoc.Option
		made       string
		notCreated bool
	}{
		"nothing is known":        {clinicaldoc.WithAssumptions(clinicaldoc.Assumptions{}), "Other", false},
		"recordings are kept":     {recordingsUnchanged, "Other", false},
		"names are kept":          {namesUnchanged, "Other", true},
		"another case":            {namesUnchanged, "VISIT", true},
		"longer":                  {namesUnchanged, "Visit 2", true},
		"the same":                {namesUnchanged, "Visit", false},
		"the same, without space": {namesUnchanged, " Visit ", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client(tt.option)
				lost := lose(t, client, visit())
				s.keep(visited().named(tt.made).of(remade))
				s.audio = fails(1, http.StatusGone) //nolint:bodyclose // it is the server's
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
				if tt.notCreated {
					require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
					return
				}
				requireUndecided(t, note, err, "may be it")
			})
		})
	}
}

// Two machines upload other recordings of one patient under one name, at the same time. Only the second arrives.
func TestFindCreated_NeverReturnsAnotherUploadsNote(t *testing.T) {
	t.Parallel()
	other := visit()
	other.Audio = clinicaldoc.AudioBytes("a.wav", []byte(remade))
	t.Run("which succeeded", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newFakeService(t)
			client := s.client()
			lost := lose(t, client, visit())
			s.post = s.committing
			_, err := s.client().Notes.Create(t.Context(), other)
			require.NoError(t, err)
			note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
			requireUndecided(t, note, err, "may be it")
			assert.Positive(t, s.reads)
		})
	})
	t.Run("which was lost too", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newFakeService(t)
			one := s.client()
			two := s.client()
			first := lose(t, one, visit())
			s.post = s.losing
			second := lose(t, two, other)
			note, err := one.Notes.FindCreated(t.Context(), first, findParams{})
			requireUndecided(t, note, err, "may be it")
			note, err = two.Notes.FindCreated(t.Context(), second, findParams{})
			require.NoError(t, err)
			assert.EqualValues(t, 1, note.ID)
			// Told of each other, both are decided.
			_, err = one.Notes.FindCreated(t.Context(), first, findParams{Unresolved: []*lostCreate{second}})
			require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		})
	})
}

// The recording alone is not always proof.
func TestFindCreated_AmbiguousRecording(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		made   func(*fakeService)
		reason string
	}{
		"two notes have it": {func(s *fakeService) { s.keep(visited(), visited()) }, "several notes match"},
		"two notes have it, one renamed": {
			func(s *fakeService) { s.keep(visited().named("Other"), visited().by(5)) }, "several notes match",
		},
		"a note of minutes before has it": {func(s *fakeService) { s.keep(visited().ago(5 * time.Minute)) }, "was created before"},
		"another note cannot be read": {func(s *fakeService) {
			s.keep(visited(), visited().of(remade))
			s.audio = fails(2, http.StatusServiceUnavailable) //nolint:bodyclose // it is the server's
		}, "recording of another note could not be read"},
		"another note can never be read": {func(s *fakeService) {
			s.keep(visited(), visited().of(remade))
			s.audio = fails(2, http.StatusForbidden) //nolint:bodyclose // it is the server's
		}, "recording of another note could not be read"},
		"it is compressed": {func(s *fakeService) { twoVisits(s); s.audio = compressed }, "may be it"},
		"a page of a proxy": {func(s *fakeService) {
			twoVisits(s)
			s.audio = func(_ int64, r *http.Request) *http.Response {
				return madeResponse(r, http.StatusOK, "<html>welcome</html>")
			}
		}, "may be it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				lost := lose(t, client, visit())
				tt.made(s)
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
				requireUndecided(t, note, err, tt.reason)
				assert.NotContains(t, err.Error(), canary)
				assert.Positive(t, s.urls)
				assert.LessOrEqual(t, s.reads, 30)
			})
		})
	}
}

func fails(id int64, status int) func(int64, *http.Request) *http.Response {
	return func(asked int64, _ *http.Request) *http.Response {
		if asked != id {
			return nil
		}
		return httpmock.NewStringResponse(status, "")
	}
}

func compressed(_ int64, r *http.Request) *http.Response {
	resp := (*fakeService)(nil).stored(r, "sound")
	resp.Header.Set("Content-Encoding", "gzip")
	return resp
}

// Two lost creates of one patient in one process.
func TestFindCreated_TwoLostCreates(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		second string            // its recording
		made   []string          // recordings of the notes
		want   map[string]string // reason by recording; "": found; "not created"
	}{
		"one recording, no note":   {"sound", nil, map[string]string{"sound": "not created"}},
		"one recording, one note":  {"sound", []string{"sound"}, map[string]string{"sound": "another create"}},
		"one recording, two notes": {"sound", []string{"sound", "sound"}, map[string]string{"sound": "another create"}},
		"two recordings, no note":  {remade, nil, map[string]string{"sound": "not created", remade: "not created"}},
		"two recordings, the first note": {
			remade, []string{"sound"}, map[string]string{"sound": "", remade: "not created"},
		},
		"two recordings, the second note": {
			remade, []string{remade}, map[string]string{"sound": "not created", remade: ""},
		},
		"two recordings, both notes": {remade, []string{"sound", remade}, map[string]string{"sound": "", remade: ""}},
		"two sizes, both notes":      {"longer", []string{"sound", "longer"}, map[string]string{"sound": "", "longer": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				lost := map[string][]*lostCreate{}
				var all []*lostCreate
				for _, recording := range []string{"sound", tt.second} {
					params := visit()
					params.Audio = clinicaldoc.AudioBytes("a.wav", []byte(recording))
					all = append(all, lose(t, client, params))
					lost[recording] = append(lost[recording], all[len(all)-1])
				}
				ids := map[string]int64{}
				for _, recording := range tt.made {
					ids[recording] = s.keep(visited().of(recording))
				}
				for range 2 { // whoever is asked about first
					for recording, want := range tt.want {
						for _, lost := range lost[recording] {
							note, err := client.Notes.FindCreated(t.Context(), lost, findParams{Unresolved: all})
							switch want {
							case "":
								require.NoError(t, err)
								assert.Equal(t, ids[recording], note.ID)
							case "not created":
								require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
							default:
								requireUndecided(t, note, err, want)
							}
						}
					}
				}
			})
		})
	}
}

// Lost creates of another process count if the caller passes them.
func TestFindCreated_Unresolved(t *testing.T) {
	t.Parallel()
	const second = time.Second
	other := func(change func(*lostCreate)) *lostCreate {
		e := constructed()
		e.SentAt = e.SentAt.Add(time.Millisecond)
		change(e)
		return e
	}
	for name, tt := range map[string]struct {
		other  func(*lostCreate)
		params findParams
		made   string // its recording
		want   string // reason; "": found; "not created"
	}{
		"the same recording": {func(*lostCreate) {}, findParams{}, "sound", "another create"},
		"the same recording, other name": {
			func(e *lostCreate) { e.Params.Name = "Other" }, findParams{}, "sound", "another create",
		},
		"another recording": {func(e *lostCreate) { e.AudioSHA256 = sumOf(remade) }, findParams{}, "sound", ""},
		"an unknown recording of the same size": {
			func(e *lostCreate) { e.AudioSHA256, e.Params.Audio, e.AudioSize = "", nil, 5 }, findParams{}, "sound", "another create",
		},
		"an unknown recording of another size": {
			func(e *lostCreate) { e.AudioSHA256, e.Params.Audio, e.AudioSize = "", nil, 6 }, findParams{}, "sound", "",
		},
		"another patient":     {func(e *lostCreate) { e.Params.PatientID = 5 }, findParams{}, "sound", ""},
		"of another day":      {func(e *lostCreate) { ago(e, 27*time.Hour) }, findParams{}, "sound", ""},
		"its very recording":  {func(e *lostCreate) { e.AudioSHA256 = sumOf(remade) }, findParams{}, remade, "not created"},
		"neither's recording": {func(e *lostCreate) { e.AudioSHA256 = sumOf(remade) }, findParams{}, "third", "may be it"},
		"the same unique name": {
			func(e *lostCreate) { e.AudioSHA256 = sumOf(remade) }, findParams{UniqueName: true}, "sound", "another create",
		},
		"another unique name": {func(e *lostCreate) { e.Params.Name = "Other" }, findParams{UniqueName: true}, "sound", ""},
		"itself":              {func(e *lostCreate) { e.SentAt = e.SentAt.Add(-time.Millisecond) }, findParams{}, "sound", ""},
		"itself, in whole seconds": {
			func(e *lostCreate) { e.SentAt = e.SentAt.Truncate(second) }, findParams{}, "sound", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				time.Sleep(345 * time.Millisecond)
				mine := constructed()
				tt.params.Unresolved = []*lostCreate{other(tt.other)}
				s.keep(visited().of(tt.made))
				note, err := s.client().Notes.FindCreated(t.Context(), mine, tt.params)
				switch tt.want {
				case "":
					require.NoError(t, err)
					assert.EqualValues(t, 1, note.ID)
				case "not created":
					require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
				default:
					requireUndecided(t, note, err, tt.want)
				}
			})
		})
	}
}

func sumOf(recording string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(recording))) }

// A create that the caller constructs with SentAt in whole seconds is the one that this process lost.
func TestFindCreated_SentAtInWholeSeconds(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*lostCreate) *lostCreate{
		"without its id": func(e *lostCreate) *lostCreate {
			return &lostCreate{
				Params: e.Params, SentAt: e.SentAt.Truncate(time.Second), LostAt: e.LostAt.Truncate(time.Second),
				AudioSize: e.AudioSize, AudioSHA256: soundSHA256,
			}
		},
		"with its id": func(e *lostCreate) *lostCreate {
			e.SentAt = e.SentAt.Truncate(time.Second)
			e.LostAt = e.LostAt.Truncate(time.Second)
			return e
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				time.Sleep(123456789)
				kept := change(lose(t, client, visit()))
				id := s.keep(visited())
				note, err := client.Notes.FindCreated(t.Context(), kept, findParams{})
				require.NoError(t, err)
				assert.Equal(t, id, note.ID)
			})
		})
	}
}

// One note is never given to two creates, also if this process has not sent them.
func TestFindCreated_OneNoteForOneCreate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		time.Sleep(345 * time.Millisecond)
		first := constructed()
		second := constructed()
		second.SentAt = second.SentAt.Add(time.Millisecond)
		s.keep(visited())
		_, err := client.Notes.FindCreated(t.Context(), first, findParams{})
		require.NoError(t, err)
		second.NoteID = 1
		note, err := client.Notes.FindCreated(t.Context(), second, findParams{})
		requireUndecided(t, note, err, "the ID of a note that does not match what was sent")
		second.NoteID = 0
		_, err = client.Notes.FindCreated(t.Context(), second, findParams{})
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated, "the first one explains it")

		// A create that was only asked about counts too.
		third := constructed()
		fourth := constructed()
		fourth.SentAt = fourth.SentAt.Add(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		note, err = client.Notes.FindCreated(ctx, third, findParams{})
		requireUndecided(t, note, err, "may still be processing")
		s.keep(visited())
		note, err = client.Notes.FindCreated(t.Context(), fourth, findParams{})
		requireUndecided(t, note, err, "another create whose outcome is unknown may have made it")
	})
}

// Each create was resolved before the next was sent, so each gets its own note.
func TestFindCreated_OneAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		s.post = s.losing
		for want := range int64(3) {
			note, err := client.Notes.FindCreated(t.Context(), lose(t, client, visit()), findParams{})
			require.NoError(t, err)
			assert.Equal(t, want+1, note.ID)
			time.Sleep(3 * time.Second)
		}
	})
}

// A create that was not carried out does not stand in the way of the next one, also while somebody still asks about it.
func TestFindCreated_NotCreatedIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		patient, cancel := context.WithCancel(t.Context())
		var other sync.WaitGroup
		other.Go(func() {
			_, err := client.Notes.FindCreated(patient, lost, findParams{Settle: time.Hour})
			assert.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		})
		_, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		time.Sleep(5 * time.Minute)
		cancel()
		other.Wait()
		second := lose(t, client, visit())
		id := s.keep(visited())
		note, err := client.Notes.FindCreated(t.Context(), second, findParams{})
		require.NoError(t, err)
		assert.Equal(t, id, note.ID)
	})
}

// Notes that this client's Create returned come from elsewhere. Another process has to exclude them.
func TestFindCreated_ReturnedNotesAreExplained(t *testing.T) {
	t.Parallel()
	for name, patient := range map[string]int64{"its patient": fakePatient, "another patient, as it was sent": 5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				s.post = s.timingOut
				client := s.client()
				lost := lose(t, client, visit())
				s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) {
					sent.patient = fakePatient
					return s.commit(r, sent), nil
				}
				params := visit()
				params.PatientID = patient
				note, err := client.Notes.Create(t.Context(), params)
				if conflict, ok := errors.AsType[*clinicaldoc.ConflictError](err); ok {
					note = conflict.Current
				}
				require.NotNil(t, note)
				_, err = client.Notes.FindCreated(t.Context(), lost, findParams{})
				require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)

				stored := restored(t, lost, nil)
				exclude := findParams{Exclude: []*clinicaldoc.ProgressNote{note}}
				_, err = s.client().Notes.FindCreated(t.Context(), stored, exclude)
				require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
				found, err := s.client().Notes.FindCreated(t.Context(), stored, findParams{})
				require.NoError(t, err)
				assert.Equal(t, note.ID, found.ID)
			})
		})
	}
}

// An excluded note is neither returned nor in the way, also if it was found before.
func TestFindCreated_Exclude(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		exclude func(*clinicaldoc.ProgressNote) // changes what is excluded
		own     bool                            // there is another note, which is it
		want    string                          // "found": the excluded id; "own"; "not created"
	}{
		"the note":                     {func(*clinicaldoc.ProgressNote) {}, false, "not created"},
		"the note, beside the own":     {func(*clinicaldoc.ProgressNote) {}, true, "own"},
		"its id":                       {func(n *clinicaldoc.ProgressNote) { n.CreatedAt = time.Time{} }, false, "not created"},
		"its id, beside the own":       {func(n *clinicaldoc.ProgressNote) { n.CreatedAt = time.Time{} }, true, "own"},
		"a rounded time":               {func(n *clinicaldoc.ProgressNote) { n.CreatedAt = n.CreatedAt.Add(time.Second) }, true, "own"},
		"an earlier note with that id": {func(n *clinicaldoc.ProgressNote) { n.CreatedAt = n.CreatedAt.Add(-time.Minute) }, false, "found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, before := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					s := newFakeService(t)
					client := s.client()
					lost := lose(t, client, visit())
					id := s.keep(visited())
					excluded, err := client.Notes.Get(t.Context(), id)
					require.NoError(t, err)
					if before {
						_, err = client.Notes.FindCreated(t.Context(), lost, findParams{})
						require.NoError(t, err)
					}
					tt.exclude(excluded)
					own := id
					if tt.own {
						own = s.keep(visited())
					}
					params := findParams{Exclude: []*clinicaldoc.ProgressNote{excluded}}
					note, err := client.Notes.FindCreated(t.Context(), lost, params)
					if tt.want == "not created" {
						require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
						return
					}
					require.NoError(t, err)
					assert.Equal(t, own, note.ID)
				})
			}
		})
	}
}

// A service may give the id of a deleted note to another one.
func TestFindCreated_IDUsedAgain(t *testing.T) {
	t.Parallel()
	again := func(s *fakeService, id int64, n fakeNote) {
		s.change(id, func(old *fakeNote) { n.id = id; *old = n })
	}
	for name, tt := range map[string]struct {
		after   time.Duration // the earlier note was returned, the create is sent
		younger time.Duration // the note in the list is younger than the earlier one
		made    fakeNote
		want    string // "": found; "not created"; or a reason
	}{
		"much later":                        {time.Minute, time.Minute, visited(), ""},
		"much later, another recording":     {time.Minute, time.Minute, visited().of(remade), "may be it"},
		"right after, a second younger":     {time.Millisecond, time.Second, visited(), ""},
		"right after, of the same second":   {time.Millisecond, 0, visited(), "not created"},
		"two seconds after, and rounded":    {2 * time.Second, time.Second, visited(), "not created"},
		"sent before the note was returned": {0, time.Second, visited(), "not created"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				returned := s.returned(client)
				time.Sleep(tt.after)
				lost := lose(t, client, visit())
				tt.made.made = returned.CreatedAt.Add(tt.younger)
				again(s, returned.ID, tt.made)
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
				switch tt.want {
				case "":
					require.NoError(t, err)
					assert.Equal(t, returned.ID, note.ID)
				case "not created":
					require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
				default:
					requireUndecided(t, note, err, tt.want)
				}
			})
		})
	}
	t.Run("of the note that was found", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newFakeService(t)
			client := s.client()
			lost := lose(t, client, visit())
			id := s.keep(visited())
			_, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
			require.NoError(t, err)
			time.Sleep(time.Minute)
			again(s, id, visited().of(remade))
			note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
			requireUndecided(t, note, err, "does not match what was sent")
		})
	})
}

// A note that this client deleted, or tried to, explains nothing, because its id may be another's.
func TestFindCreated_DeletedNoteExplainsNothing(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound, http.StatusBadGateway, http.StatusNoContent} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				lost := lose(t, client, visit())
				s.post = s.committing
				params := visit()
				params.Audio = clinicaldoc.AudioBytes("a.wav", []byte(remade))
				other, err := client.Notes.Create(t.Context(), params)
				require.NoError(t, err)
				s.deleting = status
				_, err = client.Notes.Delete(t.Context(), other.ID)
				require.Equal(t, status == http.StatusNoContent, err == nil)
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
				requireUndecided(t, note, err, "may be it")
				exclude := findParams{Exclude: []*clinicaldoc.ProgressNote{other}}
				_, err = client.Notes.FindCreated(t.Context(), lost, exclude)
				require.ErrorIs(t, err, clinicaldoc.ErrNotCreated, "somebody has checked it")
			})
		})
	}
}

// A client that remembers no more creates does not return a note that a forgotten one may have made.
func TestFindCreated_MoreLostCreatesThanRemembered(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		others int
		found  bool
	}{"as many as it remembers": {4095, true}, "one more": {4096, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				lost := lose(t, client, visit())
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				for i := range tt.others {
					other := constructed()
					other.Params.PatientID = int64(i + 1e6)
					_, err := client.Notes.FindCreated(ended, other, findParams{})
					require.ErrorIs(t, err, context.Canceled)
				}
				id := s.keep(visited())
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
				if !tt.found {
					requireUndecided(t, note, err, "another create whose outcome is unknown may have made it")
					return
				}
				require.NoError(t, err)
				assert.Equal(t, id, note.ID)
			})
		})
	}
}

// The note of a create that is under way is in the list before Create returns its id.
func TestFindCreated_CreateUnderWay(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		also    bool   // the lost create made a note too
		other   string // recording of the one under way
		refused bool   // it is refused, and the note is deleted meanwhile
		want    string // "": found; "not created"; or a reason
	}{
		"same recording, one note":            {false, "sound", false, "not created"},
		"same recording, both notes":          {true, "sound", false, ""},
		"other recording, one note":           {false, remade, false, "not created"},
		"other recording, both notes":         {true, remade, false, ""},
		"same recording, deleted and refused": {true, "sound", true, "may be it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				lost := lose(t, client, visit())
				if tt.also {
					s.keep(visited())
				}
				s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) {
					if tt.refused {
						time.Sleep(40 * time.Second)
						s.change(1, func(n *fakeNote) { n.id = 0 })
						return s.respond(r, http.StatusUnprocessableEntity, `{"message":"invalid"}`), nil
					}
					response := s.commit(r, sent)
					time.Sleep(40 * time.Second) // the response is on its way
					return response, nil
				}
				var workers sync.WaitGroup
				workers.Go(func() {
					params := visit()
					params.Audio = clinicaldoc.AudioBytes("a.wav", []byte(tt.other))
					_, err := client.Notes.Create(t.Context(), params)
					assert.Equal(t, tt.refused, err != nil)
				})
				synctest.Wait()
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
				workers.Wait()
				switch tt.want {
				case "":
					require.NoError(t, err)
					assert.EqualValues(t, 1, note.ID)
				case "not created":
					require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
				default:
					requireUndecided(t, note, err, tt.want)
				}
			})
		})
	}
}

func TestFindCreated_ByUniqueName(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		sent string // the name; "": Visit
		made func(*fakeService)
		want string // "": found; "not created"; or a reason
	}{
		"whatever else differs": {made: func(s *fakeService) { s.keep(visited().of(remade).by(5).ago(100 * time.Hour)) }},
		"no user":               {made: func(s *fakeService) { s.keep(visited().by(-1)); s.noUser = true }},
		"no Date":               {made: func(s *fakeService) { s.keep(visited()); s.noDate = true }},
		"local times":           {made: func(s *fakeService) { s.keep(visited()); s.zone = -12 * time.Hour }},
		"a list without ends":   {made: func(s *fakeService) { s.keep(visited()); s.list = deaf(15) }},
		"white space":           {made: func(s *fakeService) { s.keep(visited().named(" Visit ")) }},
		"composed letters":      {sent: "Größe", made: func(s *fakeService) { s.keep(visited().named("Gro\u0308ße")) }},
		"decomposed letters":    {sent: "Gro\u0308ße", made: func(s *fakeService) { s.keep(visited().named("Größe")) }},
		"twice":                 {made: func(s *fakeService) { s.keep(visited(), visited().ago(time.Hour)) }, want: "several notes"},
		"another name":          {made: func(s *fakeService) { s.keep(visited().named("Other")) }, want: "not created"},
		"a shorter name":        {made: func(s *fakeService) { s.keep(visited().named("Vis")) }, want: "not created"},
		"a longer name":         {made: func(s *fakeService) { s.keep(visited().named("Visit 10")) }, want: "not created"},
		"another case":          {made: func(s *fakeService) { s.keep(visited().named("VISIT")) }, want: "not created"},
		"perhaps another spelling": {
			sent: "10 \u212b", made: func(s *fakeService) { s.keep(visited().named("10 \u00c5")) }, want: "may be it",
		},
		"sent in the future": {made: func(s *fakeService) { s.ahead = -time.Hour }, want: "sent in the future"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				params := visit()
				params.Name = cmp.Or(tt.sent, params.Name)
				lost := lose(t, client, params)
				tt.made(s)
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{UniqueName: true})
				assert.Zero(t, s.urls, "the name decides")
				switch tt.want {
				case "":
					require.NoError(t, err)
					assert.EqualValues(t, 1, note.ID)
				case "not created":
					require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
				default:
					requireUndecided(t, note, err, tt.want)
				}
			})
		})
	}
}

// The id in a response is proof only if nothing that is known of the note differs.
func TestFindCreated_ByIDInTheResponse(t *testing.T) {
	t.Parallel()
	const otherNote = "the ID of a note that does not match what was sent"
	patient := func(id int64) func(*fakeNote) { return func(n *fakeNote) { n.patient = id } }
	for name, tt := range map[string]struct {
		change func(*fakeNote) // nil: the note is gone
		params findParams
		sentTo int64  // patient
		want   string // "": found; or a reason
	}{
		"as it was sent":        {func(*fakeNote) {}, findParams{}, fakePatient, ""},
		"without its patient":   {patient(0), findParams{}, fakePatient, ""},
		"without its size":      {func(n *fakeNote) { n.size = 0 }, findParams{}, fakePatient, ""},
		"without its user":      {func(n *fakeNote) { n.user = -1 }, findParams{}, fakePatient, ""},
		"without its time":      {func(n *fakeNote) { n.made = time.Time{} }, findParams{}, fakePatient, ""},
		"recordings unread":     {func(*fakeNote) {}, findParams{WithoutAudio: true}, fakePatient, ""},
		"another patient":       {func(*fakeNote) {}, findParams{WithoutAudio: true}, 5, otherNote},
		"a patient, none sent":  {func(*fakeNote) {}, findParams{WithoutAudio: true}, 0, otherNote},
		"somebody, none sent":   {patient(-1), findParams{WithoutAudio: true}, 0, otherNote},
		"two patients":          {patient(-2), findParams{WithoutAudio: true}, fakePatient, otherNote},
		"a minute older":        {func(n *fakeNote) { n.made = n.made.Add(-time.Minute) }, findParams{WithoutAudio: true}, fakePatient, otherNote},
		"20 hours older":        {func(n *fakeNote) { n.made = n.made.Add(-20 * time.Hour) }, findParams{WithoutAudio: true}, fakePatient, otherNote},
		"another name":          {func(n *fakeNote) { n.name = "Other" }, findParams{WithoutAudio: true}, fakePatient, otherNote},
		"another user":          {func(n *fakeNote) { n.user = 5 }, findParams{WithoutAudio: true}, fakePatient, otherNote},
		"another size":          {func(n *fakeNote) { n.size = 6 }, findParams{WithoutAudio: true}, fakePatient, otherNote},
		"gone":                  {nil, findParams{}, fakePatient, "the ID of a note that does not exist"},
		"another unique name":   {func(n *fakeNote) { n.name = "Other" }, findParams{UniqueName: true}, fakePatient, otherNote},
		"renamed, its very own": {func(n *fakeNote) { n.name = "Other" }, findParams{}, fakePatient, ""},
		"excluded": {
			func(*fakeNote) {}, findParams{Exclude: []*clinicaldoc.ProgressNote{{ID: 1}}}, fakePatient, otherNote,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				if tt.change != nil {
					made := visited()
					tt.change(&made)
					s.keep(made)
				}
				lost := constructed()
				lost.NoteID = 1
				lost.AudioSize = 5
				lost.Params.PatientID = tt.sentTo
				params := tt.params
				params.TrustPatientFilter = true
				note, err := s.client().Notes.FindCreated(t.Context(), lost, params)
				if tt.want == "" {
					require.NoError(t, err)
					assert.EqualValues(t, 1, note.ID)
					return
				}
				requireUndecided(t, note, err, tt.want)
			})
		})
	}
}

// By the service's clock, the note was made since. A replica may not have it yet.
func TestFindCreated_ByIDInTheResponse_LateAndAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		s.ahead = 48 * time.Hour
		lost := constructed()
		lost.NoteID = 1
		time.AfterFunc(5*time.Second, func() { s.keep(visited()) })
		note, err := s.client().Notes.FindCreated(t.Context(), lost, findParams{WithoutAudio: true})
		require.NoError(t, err)
		assert.EqualValues(t, 1, note.ID)
	})
}

// A job that was queued has an id too, and is not a note.
func TestCreate_ResponseWithoutANote(t *testing.T) {
	t.Parallel()
	for body, id := range map[string]int64{
		`{"id":55,"status":"queued"}`: 55, `{"id":55}`: 55, `{"data":{"id":55}}`: 55, `{"id":55,"name":"","created_at":null}`: 55,
		`{"status":"queued"}`: 0, ``: 0,
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				s.post = func(r *http.Request, _ fakeNote) (*http.Response, error) {
					return s.respond(r, http.StatusAccepted, body), nil
				}
				client := s.client()
				lost := lose(t, client, visit())
				assert.Equal(t, id, lost.NoteID)
				require.ErrorIs(t, lost, clinicaldoc.ErrUnexpectedResponse)

				// Note 55 is another patient's. It is not taken for the one that was sent.
				for range 54 {
					s.keep(earlier().ago(time.Hour))
				}
				strangers := visited()
				strangers.patient = 5
				require.EqualValues(t, 55, s.keep(strangers))
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
				if id == 0 {
					require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
					return
				}
				requireUndecided(t, note, err, "does not match what was sent")
			})
		})
	}
}

func TestGet_ResponseWithoutANote(t *testing.T) {
	t.Parallel()
	for body, isNote := range map[string]bool{
		`{"id":55}`: false, `{"id":55,"status":"queued"}`: false, `{"id":55,"transcription":"words"}`: false,
		`{"id":55,"name":"Visit"}`: true, `{"id":55,"created_at":"2026-01-02T03:04:05Z"}`: true,
	} {
		client := serve(t, call{url: notesPath + "/55", response: body}, call{url: notesPath, response: `{"data":[` + body + `]}`})
		note, err := client.Notes.Get(t.Context(), 55)
		page, listErr := client.Notes.List(t.Context(), clinicaldoc.ListNotesParams{})
		if isNote {
			require.NoError(t, err, body)
			assert.EqualValues(t, 55, note.ID)
			require.NoError(t, listErr, body)
			assert.Len(t, page.Items, 1)
			continue
		}
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse, body)
		require.ErrorIs(t, listErr, clinicaldoc.ErrUnexpectedResponse, body)
	}
}

// A create without a patient made a note without one.
func TestFindCreated_WithoutAPatient(t *testing.T) {
	t.Parallel()
	for patient, found := range map[string]bool{
		`"x":1`: true, `"patient":null`: true, `"patient":[]`: true, `"patient":{}`: true,
		`"patient":{"name":"x"}`: false, `"patient":{"id":"?"}`: false, `"patient_id":5`: false, `"patient":5`: false,
	} {
		t.Run(patient, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				params := visit()
				params.PatientID = 0
				lost := lose(t, client, params)
				s.keep(visited())
				s.list = func(rows []string, r *http.Request) string {
					return numbered([]string{strings.Replace(rows[0], `"patient":{"id":4711}`, patient, 1)}, r)
				}
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
				if found {
					require.NoError(t, err)
					assert.EqualValues(t, 1, note.ID)
					return
				}
				require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
				assert.Zero(t, s.urls, "the recording of a patient's note is not read")
			})
		})
	}
}

func TestFindCreated_RowsOfOtherPatients(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		patient int64
		trust   bool
		found   bool
	}{
		"another patient":           {5, false, false},
		"another patient, trusting": {5, true, false},
		"no patient":                {0, false, false},
		"no patient, trusting":      {0, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				unknown := clinicaldoc.QueryNames{PatientID: "filter"} // which the service ignores
				client := s.client(clinicaldoc.WithQueryNames(unknown))
				lost := lose(t, client, visit())
				n := visited()
				n.patient = tt.patient
				id := s.keep(n)
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{TrustPatientFilter: tt.trust})
				assert.Equal(t, 1, s.lists, "waiting cannot help")
				if tt.found {
					require.NoError(t, err)
					assert.Equal(t, id, note.ID)
					return
				}
				requireUndecided(t, note, err, "the patient's notes could not be read: the service returned a")
				require.ErrorIs(t, err, clinicaldoc.ErrPatientMismatch)
			})
		})
	}
}

func TestFindCreated_ContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		gaveUp := errors.New("Canary gave up")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, gaveUp)
		defer cancel()
		note, err := client.Notes.FindCreated(ctx, lost, findParams{})
		again := requireUndecided(t, note, err, "no note yet, but the service may still be processing the upload: "+
			"the deadline passed (context deadline exceeded); asking can decide it from 2000-01-01T00:10:00Z on")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, gaveUp)
		assert.NotContains(t, err.Error(), "Canary")
		assert.Equal(t, 5*time.Second, time.Since(lost.LostAt))

		// Another process goes on where this one ended.
		next := restored(t, again, nil)
		assert.Equal(t, again.Error(), next.Error())
		_, err = s.client().Notes.FindCreated(t.Context(), next, findParams{})
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		assert.Equal(t, defaultSettle, time.Since(lost.LostAt))

		ended, cancel := context.WithCancel(t.Context())
		cancel()
		note, err = client.Notes.FindCreated(ended, lost, findParams{})
		requireUndecided(t, note, err, "the patient's notes could not be read: the call was cancelled")
		require.ErrorIs(t, err, context.Canceled)
	})
}

// The reason is that of the look before, and not that the list broke off.
func TestFindCreated_ContextEndsWithinALook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		over := make(chan struct{})
		defer close(over)
		s.onList = func() {
			if s.lists == 1 {
				cancel()
				<-over
			}
		}
		note, err := client.Notes.FindCreated(ctx, lost, findParams{})
		requireUndecided(t, note, err, "the service may still be processing the upload: the call was cancelled")
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestFindCreated_InvalidArguments(t *testing.T) {
	t.Parallel()
	s := newFakeService(t)
	client := s.client()
	good := constructed()
	nameless := constructed()
	nameless.Params.Name = " "
	negative := constructed()
	negative.NoteID = -1
	unhashed := constructed()
	unhashed.AudioSHA256 = "sound"
	without := clinicaldoc.WithoutRetry()
	for name, tt := range map[string]struct {
		lost   *lostCreate
		params findParams
		opt    clinicaldoc.CallOption
	}{
		"needs the error of a Create":            {nil, findParams{}, without},
		"needs the error of a Create: ":          {&lostCreate{Params: visit()}, findParams{}, without},
		"ids must not be negative":               {negative, findParams{}, without},
		"Settle: must not be negative":           {good, findParams{Settle: -1}, without},
		"UniqueName: needs a name":               {nameless, findParams{UniqueName: true}, without},
		"AudioSHA256: is not 64 hexadecimal":     {unhashed, findParams{}, without},
		"Exclude: contains a note without an ID": {good, findParams{Exclude: []*clinicaldoc.ProgressNote{nil}}, without},
		"Exclude: contains a note without":       {good, findParams{Exclude: []*clinicaldoc.ProgressNote{{}}}, without},
		"Unresolved: contains nil":               {good, findParams{Unresolved: []*lostCreate{good, nil}}, without},
		"call option: is nil":                    {good, findParams{}, nil},
		"WithHeader: Authorization is set by":    {good, findParams{}, clinicaldoc.WithHeader("Authorization", "x")},
	} {
		_, err := client.Notes.FindCreated(t.Context(), tt.lost, tt.params, tt.opt)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, name)
		require.ErrorContains(t, err, name)
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	}
	note, err := client.Notes.FindCreated(t.Context(), &lostCreate{SentAt: time.Now()}, findParams{})
	requireUndecided(t, note, err, "nothing can identify its note")
	assert.Zero(t, s.lists)
}

func TestFindCreated_FillsTheCallersResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		s.keep(visited())
		var response clinicaldoc.Response
		params := findParams{UniqueName: true}
		_, err := client.Notes.FindCreated(t.Context(), lost, params, clinicaldoc.WithResponse(&response))
		require.NoError(t, err)
		assert.Contains(t, string(response.Body), `"total":1`)
	})
}

func TestFindCreated_ReportsProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		s.onList = func() {
			if s.lists == 3 {
				s.keep(visited().of(remade))
			}
		}
		var reasons []string
		params := findParams{OnProgress: func(reason string, decidable time.Time) {
			reasons = append(reasons, reason)
			assert.Equal(t, lost.LostAt.Add(defaultSettle), decidable)
		}}
		note, err := client.Notes.FindCreated(t.Context(), lost, params)
		requireUndecided(t, note, err, "may be it")
		require.Greater(t, len(reasons), 4)
		assert.Contains(t, reasons[2], "no note yet")
		assert.Contains(t, reasons[3], "may be it")
		assert.Len(t, reasons, s.lists-1, "all but the last look, which decided")
	})
}

// Absence is reported only to whoever sent the create: somebody else's list may not show the note.
func TestFindCreated_AnotherSender(t *testing.T) {
	t.Parallel()
	const otherSender = "it was sent by another user or with another token"
	known := func(s *fakeService, client *clinicaldoc.Client) { // /user has named the sender
		_, err := client.Users.Me(s.t.Context())
		require.NoError(s.t, err)
	}
	attributed := func(s *fakeService, client *clinicaldoc.Client) { s.returned(client) }
	unknown := func(*fakeService, *clinicaldoc.Client) {}
	for name, tt := range map[string]struct {
		before func(*fakeService, *clinicaldoc.Client)
		user   func(token string) string // what GET /user returns for a token; nil: the same user for all
		token  string                    // who asks; "": who sent it
		want   string                    // "": not created
	}{
		"the same token":                {unknown, nil, "", ""},
		"another token, unknown sender": {unknown, nil, otherToken, otherSender},
		"another token, same user":      {known, nil, otherToken, ""},
		"another user": {known, func(token string) string {
			return map[bool]string{true: `{"id":2}`, false: `{"id":3}`}[token == testToken]
		}, otherToken, otherSender},
		// Each tenant, which the token selects, has a user of this number.
		"a user of the same number": {known, func(token string) string {
			return map[bool]string{
				true:  `{"id":2,"email":"one@clinic.test","created_at":"2026-01-02T03:04:05Z"}`,
				false: `{"id":2,"email":"two@clinic.test","created_at":"2026-01-02T03:04:05Z"}`,
			}[token == testToken]
		}, otherToken, otherSender},
		"a user of the same number, created later": {known, func(token string) string {
			return map[bool]string{
				true:  `{"id":2,"created_at":"2026-01-02T03:04:05Z"}`,
				false: `{"id":2,"created_at":"2026-01-02T03:04:06Z"}`,
			}[token == testToken]
		}, otherToken, otherSender},
		// The service attributes all notes to the team's owner, whose token asks.
		"the user of earlier notes": {attributed, func(token string) string {
			return map[bool]string{true: `{"id":9}`, false: `{"id":2}`}[token == testToken]
		}, otherToken, otherSender},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				s.whoami = tt.user
				s.post = s.timingOut
				client := s.client()
				tt.before(s, client)
				lost := lose(t, client, visit())
				var opts []clinicaldoc.CallOption
				if tt.token != "" {
					opts = append(opts, clinicaldoc.WithToken(tt.token))
				}
				for _, asker := range []*clinicaldoc.Client{client, s.client()} {
					note, err := asker.Notes.FindCreated(t.Context(), restored(t, lost, nil), findParams{}, opts...)
					if tt.want == "" {
						require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
						continue
					}
					requireUndecided(t, note, err, tt.want)
				}
			})
		})
	}
}

// Whose create it was is learned while it is searched for, and kept for another token of that user.
func TestFindCreated_KeepsTheSender(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		s.post = s.timingOut
		lost := lose(t, client, visit())
		require.Zero(t, lost.UserID)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		note, err := client.Notes.FindCreated(ctx, lost, findParams{})
		lost = requireUndecided(t, note, err, "may still be processing")
		assert.EqualValues(t, fakeUser, lost.UserID)
		token := clinicaldoc.WithToken(otherToken)
		_, err = s.client().Notes.FindCreated(t.Context(), restored(t, lost, nil), findParams{}, token)
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
	})
}

// A failing /user is asked again, as a failing list is.
func TestFindCreated_WaitsForTheUser(t *testing.T) {
	t.Parallel()
	for busy, decided := range map[int]bool{1: true, 5: true, 400: false} {
		synctest.Test(t, func(t *testing.T) {
			s := newFakeService(t)
			s.busy = busy
			lost := constructed()
			ago(lost, time.Hour)
			lost.LostAt = lost.SentAt
			begin := time.Now()
			note, err := s.client().Notes.FindCreated(t.Context(), lost, findParams{})
			if !decided {
				requireUndecided(t, note, err, "the patient's notes could not be read")
				return
			}
			require.ErrorIs(t, err, clinicaldoc.ErrNotCreated, "%d failures", busy)
			assert.Less(t, time.Since(begin), time.Hour)
		})
	}
}

// A token source may change its user while FindCreated waits. The next user's list proves nothing.
func TestFindCreated_TokenChanges(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		next func(page int) string // the token after the request for a page
		want string                // "": found
	}{
		"between two looks": {func(int) string { return otherToken }, "another user"},
		"within every look": {func(page int) string {
			return map[bool]string{true: otherToken, false: testToken}[page == 1]
		}, "the token changed from one request to the next"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				s.whoami = func(token string) string {
					return map[bool]string{true: `{"id":2}`, false: `{"id":3}`}[token == testToken]
				}
				token := testToken
				source := tokenFunc(func(context.Context) (string, error) { return token, nil })
				client, err := clinicaldoc.NewClient(testBase, "", clinicaldoc.WithHTTPClient(s.httpClient()), once,
					clinicaldoc.WithTokenSource(source))
				require.NoError(t, err)
				for range 150 { // two pages
					s.keep(earlier().ago(2 * time.Hour))
				}
				lost := lose(t, client, visit())
				s.instead = func(_ int, r *http.Request) *http.Response {
					if time.Since(lost.LostAt) > 5*time.Minute {
						token = tt.next(max(pageOf(r), 1))
					}
					return nil
				}
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
				requireUndecided(t, note, err, tt.want)
			})
		})
	}
}

// A token that is renewed between two pages spoils one look, not those after it.
func TestFindCreated_TokenIsRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		token := testToken
		source := tokenFunc(func(context.Context) (string, error) { return token, nil })
		client, err := clinicaldoc.NewClient(testBase, "", clinicaldoc.WithHTTPClient(s.httpClient()), once,
			clinicaldoc.WithTokenSource(source))
		require.NoError(t, err)
		for range 150 { // two pages
			s.keep(earlier().ago(2 * time.Hour))
		}
		lost := lose(t, client, visit())
		id := s.keep(visited())
		s.instead = func(list int, _ *http.Request) *http.Response {
			if list == 1 {
				token = otherToken
			}
			return nil
		}
		note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
		require.NoError(t, err)
		assert.Equal(t, id, note.ID)
	})
}

// A header or the query may select a tenant. Headers that only name the request do not.
func TestFindCreated_AnotherTenant(t *testing.T) {
	t.Parallel()
	type options = []clinicaldoc.CallOption
	team := func(name string) clinicaldoc.CallOption { return clinicaldoc.WithHeader("X-Team", name) }
	region := clinicaldoc.WithQuery("region", "two")
	var named options
	for _, key := range []string{"X-Request-ID", "Traceparent", "Tracestate", "Baggage", "X-Amzn-Trace-ID", "Cache-Control"} {
		named = append(named, clinicaldoc.WithHeader(key, "synthetic-1"))
	}
	for name, tt := range map[string]struct {
		sent, asked options
		notCreated  bool
	}{
		"same header":                  {options{team("B")}, options{team("B")}, true},
		"other header":                 {options{team("B")}, options{team("A")}, false},
		"no header":                    {options{team("B")}, nil, false},
		"a header where there was not": {nil, options{team("B")}, false},
		"same query":                   {options{region}, options{region}, true},
		"no query":                     {options{region}, nil, false},
		"other query":                  {options{region}, options{clinicaldoc.WithQuery("region", "one")}, false},
		"a filter":                     {nil, options{clinicaldoc.WithQuery("signed", "1")}, false},
		"names of requests":            {named, options{clinicaldoc.WithHeader("X-Correlation-ID", "synthetic-2")}, true},
		"conditions":                   {options{clinicaldoc.WithHeader("If-Match", "*")}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				_, err := client.Notes.Create(t.Context(), visit(), tt.sent...)
				lost, ok := errors.AsType[*lostCreate](err)
				require.True(t, ok, "%v", err)
				for _, asker := range []*clinicaldoc.Client{client, s.client()} {
					note, err := asker.Notes.FindCreated(t.Context(), restored(t, lost, nil), findParams{}, tt.asked...)
					if tt.notCreated {
						require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
						continue
					}
					requireUndecided(t, note, err, "pass the same ones as in Create")
				}
			})
		})
	}
}

// Tenants may have ids of their own, so a note of one explains nothing at another.
func TestFindCreated_NotesOfAnotherTenantExplainNothing(t *testing.T) {
	t.Parallel()
	team := func(name string) clinicaldoc.CallOption { return clinicaldoc.WithHeader("X-Team", name) }
	for name, other := range map[string]string{"same tenant": "one", "another tenant": "two"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				_, err := client.Notes.Create(t.Context(), visit(), team("one"))
				lost, ok := errors.AsType[*lostCreate](err)
				require.True(t, ok, "%v", err)
				s.post = s.committing
				params := visit()
				params.Audio = clinicaldoc.AudioBytes("a.wav", []byte(remade))
				_, err = client.Notes.Create(t.Context(), params, team(other))
				require.NoError(t, err)
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{}, team("one"))
				if other == "one" {
					require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
					return
				}
				requireUndecided(t, note, err, "may be it")
			})
		})
	}
}

func TestFindCreated_AnotherService(t *testing.T) {
	t.Parallel()
	s := newFakeService(t)
	lost := lose(t, s.client(), visit())
	elsewhere, err := clinicaldoc.NewClient("https://elsewhere.clinic.test", "synthetic-token")
	require.NoError(t, err)
	note, err := elsewhere.Notes.FindCreated(t.Context(), restored(t, lost, nil), findParams{})
	requireUndecided(t, note, err, "sent to another service")
	same, err := clinicaldoc.NewClient(strings.ToUpper(testBase)+":443/", "synthetic-token")
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, spelled := range []string{testBase, strings.ToUpper(testBase) + ":443/"} {
		again := restored(t, lost, func(members map[string]any) { members["service"] = spelled })
		note, err = same.Notes.FindCreated(ended, again, findParams{})
		requireUndecided(t, note, err, "context canceled")
	}
}

// The JSON of version 0.1 identifies neither the service nor the user.
func TestFindCreated_LostCreateWithoutIdentity(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fill       func(*lostCreate)
		notCreated bool
	}{
		"as it is":         {func(*lostCreate) {}, false},
		"only a service":   {func(e *lostCreate) { e.Service = testBase }, false},
		"only a user":      {func(e *lostCreate) { e.UserID = fakeUser }, false},
		"another user":     {func(e *lostCreate) { e.Service, e.UserID = testBase, 77 }, false},
		"service and user": {func(e *lostCreate) { e.Service, e.UserID = testBase, fakeUser }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				old := restored(t, lose(t, s.client(), visit()), func(members map[string]any) {
					for key := range members {
						if !strings.Contains("params sent_at lost_at audio_size note_id error", key) {
							delete(members, key)
						}
					}
				})
				tt.fill(old)
				note, err := s.client().Notes.FindCreated(t.Context(), old, findParams{})
				if tt.notCreated {
					require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
					return
				}
				requireUndecided(t, note, err, "another user")
			})
		})
	}
}

// All requests of the search are made in the name of the call.
func TestFindCreated_UsesTheCallsToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		var tokens []string
		service := s.httpClient().Transport
		client := clientOn(t, &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == strings.TrimPrefix(testBase, "https://") {
				tokens = append(tokens, r.Header.Get("Authorization"))
			}
			return service.RoundTrip(r)
		})})
		token := clinicaldoc.WithToken(otherToken)
		_, err := client.Notes.Create(t.Context(), visit(), token)
		lost, ok := errors.AsType[*lostCreate](err)
		require.True(t, ok, "%v", err)
		_, own := twoVisits(s)
		note, err := client.Notes.FindCreated(t.Context(), lost, findParams{}, token)
		require.NoError(t, err)
		assert.Equal(t, own, note.ID)
		require.GreaterOrEqual(t, len(tokens), 4, "the create, the list and two recordings")
		for _, used := range tokens {
			assert.Equal(t, "Bearer "+otherToken, used)
		}
	})
}

// bare is a list that tells nothing of its pages, of which the first has that number.
func bare(size, first int) func([]string, *http.Request) string {
	return func(rows []string, r *http.Request) string {
		page := 0
		if r.URL.Query().Has("page") {
			page = pageOf(r) - first
		}
		return `{"data":[` + cut(rows, page, size) + `],"links":{},"meta":{}}`
	}
}

// deaf is a list that does not know the page parameter.
func deaf(size int) func([]string, *http.Request) string {
	return func(rows []string, _ *http.Request) string { return `{"data":[` + cut(rows, 0, size) + `]}` }
}

func simple(rows []string, r *http.Request) string {
	page := max(pageOf(r), 1)
	next := "null"
	if page*100 < len(rows) {
		next = fmt.Sprintf("%q", fmt.Sprintf("http://elsewhere.test/?page=%d", page+1))
	}
	return fmt.Sprintf(`{"data":[%s],"links":{"next":%s},"meta":{"current_page":%d}}`, cut(rows, page-1, 100), next, page)
}

func cursors(rows []string, r *http.Request) string {
	page := 0
	_, _ = fmt.Sscanf(r.URL.Query().Get("cursor"), "c%d", &page)
	next := "null"
	if (page+1)*100 < len(rows) {
		next = fmt.Sprintf(`"c%d"`, page+1)
	}
	return fmt.Sprintf(`{"data":[%s],"meta":{"next_cursor":%s}}`, cut(rows, page, 100), next)
}

// short tells of more rows than it gives.
func short(rows []string, _ *http.Request) string {
	return fmt.Sprintf(`{"data":[%s],"meta":{"current_page":1,"last_page":1,"total":%d}}`, strings.Join(rows, ","), len(rows)+1)
}

// stuck always says that more follows.
func stuck(rows []string, r *http.Request) string {
	return fmt.Sprintf(`{"data":[%s],"meta":{"current_page":%d,"last_page":9}}`, strings.Join(rows, ","), max(pageOf(r), 1))
}

// stubborn gives its first page, whatever is asked for.
func stubborn(rows []string, _ *http.Request) string {
	return fmt.Sprintf(`{"data":[%s],"meta":{"current_page":1,"last_page":3}}`, cut(rows, 0, 100))
}

var (
	_ = bytes.NewReader
	_ = x509.UnknownAuthorityError{}
	_ = clinicaldoctest.NewServer
)
