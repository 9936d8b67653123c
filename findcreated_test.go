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
	"slices"
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
	// otherSound is another recording of the same length as the one that visit sends.
	otherSound = "noise"
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
		Params: visit(), SentAt: time.Now(), LostAt: time.Now(), AudioSHA256: soundSHA256,
		Service: testBase, UserID: fakeUser,
	}
}

// restored is a lost create as another process reads it, from JSON that may have been changed.
func restored(t *testing.T, lost *lostCreate, change func(map[string]any)) *lostCreate {
	t.Helper()
	stored := must(json.Marshal(lost))(t)
	var members map[string]any
	require.NoError(t, json.Unmarshal(stored, &members))
	if change != nil {
		change(members)
	}
	stored = must(json.Marshal(members))(t)
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
			at := must(time.Parse(time.RFC3339Nano, text))(t)
			members[key] = at.Add(off).Format(time.RFC3339Nano)
		}
	}
}

// verdict is what FindCreated returned.
type verdict struct {
	t    *testing.T
	note *clinicaldoc.ProgressNote
	err  error
}

// loseVisit is a service, its client and a create of visit whose response was lost.
func loseVisit(t *testing.T) (*fakeService, *clinicaldoc.Client, *lostCreate) {
	t.Helper()
	s := newFakeService(t)
	client := s.client()
	return s, client, lose(t, client, visit())
}

// find asks about a lost create, with no parameters.
func find(t *testing.T, client *clinicaldoc.Client, lost *lostCreate) verdict {
	t.Helper()
	return findWith(t, client, lost, findParams{})
}

func findWith(
	t *testing.T, client *clinicaldoc.Client, lost *lostCreate, params findParams, opts ...clinicaldoc.CallOption,
) verdict {
	t.Helper()
	note, err := client.Notes.FindCreated(t.Context(), lost, params, opts...)
	return verdict{t, note, err}
}

// findFor asks about a lost create, with a context that ends after that time.
func findFor(t *testing.T, d time.Duration, client *clinicaldoc.Client, lost *lostCreate) verdict {
	t.Helper()
	note, err := client.Notes.FindCreated(endsAfter(t, d), lost, findParams{})
	return verdict{t, note, err}
}

// isNote demands that the note with that id was found.
func (v verdict) isNote(id int64) {
	v.t.Helper()
	require.NoError(v.t, v.err)
	assert.Equal(v.t, id, v.note.ID)
}

func (v verdict) isNotCreated() {
	v.t.Helper()
	require.ErrorIs(v.t, v.err, clinicaldoc.ErrNotCreated)
	assert.Nil(v.t, v.note)
}

func (v verdict) isUndecided(reason string) {
	v.t.Helper()
	_ = v.undecided(reason)
}

// undecided demands that nothing was decided, for that reason, and returns what can be asked again.
func (v verdict) undecided(reason string) *lostCreate {
	v.t.Helper()
	return requireUndecided(v.t, v.note, v.err, reason)
}

// The verdicts of FindCreated that are not a reason why nothing was decided.
const (
	found      = "found"
	notCreated = "not created"
)

// mayBeIt is a reason why nothing was decided.
const mayBeIt = "at least one note may be it"

// is demands a verdict: found is the note with that id, notCreated that there is none, anything else a reason.
func (v verdict) is(want string, id int64) {
	v.t.Helper()
	switch want {
	case found:
		v.isNote(id)
	case notCreated:
		v.isNotCreated()
	default:
		v.isUndecided(want)
	}
}

// visitOf is visit with another recording.
func visitOf(recording string) createParams {
	params := visit()
	params.Audio = clinicaldoc.AudioBytes("a.wav", []byte(recording))
	return params
}

// committing keeps every note that is sent, and gives its response.
func (s *fakeService) committing(r *http.Request, sent fakeNote) (*http.Response, error) {
	return s.commit(r, sent), nil
}

// losing keeps every note that is sent, and loses its response.
func (s *fakeService) losing(r *http.Request, sent fakeNote) (*http.Response, error) {
	s.commit(r, sent)
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
	params := createParams{Name: "Control", PatientID: 8, Audio: audio}
	note, err := client.Notes.Create(s.t.Context(), params)
	require.NoError(s.t, err)
	return note
}

// excluding are parameters with notes that are known to come from other creates.
func excluding(notes ...*clinicaldoc.ProgressNote) findParams { return findParams{Exclude: notes} }

// twoVisits are two notes that look the same. The second one's recording is what was sent.
func twoVisits(s *fakeService) (other, own int64) {
	other = s.keep(visited().of(otherSound))
	return other, s.keep(visited())
}

// earlier is a note from long before the create was sent.
func earlier() fakeNote { return visited().named("Earlier").of(otherSound).by(5) }

// A create can make a note and still return an error. The caller then resolves it with the note's id.
func TestFindCreated_NoteOfAFailedCreate_IsFoundByItsID(t *testing.T) {
	t.Parallel()
	mixUp := func(s *fakeService) {
		s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) {
			s.commit(r, sent)
			mixed := s.notes[len(s.notes)-1]
			mixed.patient = 666
			return s.respond(r, http.StatusCreated, s.json(mixed)), nil
		}
	}
	type test struct {
		post func(*fakeService)
		opts []clinicaldoc.Option
	}
	timedSubtests(t, map[string]test{
		"it names another patient": {post: mixUp},
		"the audit function fails": {
			post: func(s *fakeService) { s.post = s.committing },
			opts: []clinicaldoc.Option{clinicaldoc.WithAudit(func(ctx context.Context, a clinicaldoc.Access) error {
				if ctx.Value(contextKey{}) != nil && a.Changed {
					return errors.New("disk full")
				}
				return nil
			})},
		},
	}, func(t *testing.T, tt test) {
		s := newFakeService(t)
		client := s.client(tt.opts...)
		other := lose(t, client, visit()) // of the same recording, not created
		tt.post(s)
		created, err := client.Notes.Create(context.WithValue(t.Context(), contextKey{}, true), visit())
		require.Error(t, err)
		require.Nil(t, created)
		id := s.notes[0].id
		find(t, client, other).isNotCreated() // the note is of the second create
		s.keep(visited())                     // somebody else uploads the recording too
		lost := &lostCreate{Params: visit(), SentAt: other.SentAt, AudioSize: 5, NoteID: id, Err: err}
		find(t, client, lost).isNote(id)
	})
}

// The recording proves the note, whatever else the service or a person has changed.
func TestFindCreated_SameRecording_IsFound(t *testing.T) {
	t.Parallel()
	timedSubtests(t, map[string]func(*fakeService) int64{
		"as it was sent": func(s *fakeService) int64 { return s.keep(visited()) },
		"among others": func(s *fakeService) int64 {
			s.keep(visited().ago(time.Hour), visited().of(otherSound), visited().of("longer").named("Other"))
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
	}, func(t *testing.T, made func(*fakeService) int64) {
		s, client, lost := loseVisit(t)
		id := made(s)
		begin := time.Now()
		find(t, client, lost).isNote(id)
		assert.Zero(t, time.Since(begin))

		// The same recording, uploaded again by somebody, changes nothing.
		s.keep(visited())
		find(t, client, lost).isNote(id)
	})
}

// Another process has only the error's JSON, or an error that the caller constructed.
func TestFindCreated_SameRecordingInAnotherProcess_IsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		lost := lose(t, s.client(), visit())
		_, own := twoVisits(s)
		upper := restored(t, lost,
			func(members map[string]any) { members["audio_sha256"] = strings.ToUpper(soundSHA256) })
		unhashed := constructed()
		unhashed.AudioSHA256 = ""
		for _, lost := range []*lostCreate{restored(t, lost, nil), upper, constructed(), unhashed} {
			find(t, s.client(), lost).isNote(own)
		}
	})
}

// A stream cannot be read again, so it is hashed while it is sent.
func TestFindCreated_RecordingOfAStream_IsFound(t *testing.T) {
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
		find(t, client, lost).isNote(own)
	})
}

// A file that was replaced after the create is not the recording that was sent, even with the same size and time.
func TestFindCreated_FileReplaced_IsNotCompared(t *testing.T) {
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
	info := must(os.Stat(path))(t)
	again := path + ".new"
	require.NoError(t, os.WriteFile(again, []byte("other"), 0o600))
	require.NoError(t, os.Chtimes(again, time.Time{}, info.ModTime()))
	require.NoError(t, os.Rename(again, path))
	assert.Empty(t, restored(t, lost, nil).AudioSHA256)
}

// Settle has to pass before the absence of a note means anything.
func TestFindCreated_NoNoteAfterSettle_IsNotCreated(t *testing.T) {
	t.Parallel()
	type test struct {
		params findParams
		change func(*lostCreate)
		want   time.Duration
	}
	timedSubtests(t, map[string]test{
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
	}, func(t *testing.T, tt test) {
		s, client, lost := loseVisit(t)
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
}

// A note made since that nothing explains may be it, changed by the service or by a person.
func TestFindCreated_UnexplainedNote_IsUndecided(t *testing.T) {
	t.Parallel()
	none := func(*fakeService) {}
	type test struct {
		made   fakeNote
		before time.Duration // the create was sent
		also   func(*fakeService)
		params findParams
		reason string
	}
	timedSubtests(t, map[string]test{
		"another recording":           {visited().of(otherSound), 0, none, findParams{}, "at least one note may be it"},
		"another recording and name":  {visited().of(otherSound).named("Other"), 0, none, findParams{}, "may be it"},
		"a colleague's recording":     {visited().of(otherSound).by(5), 0, none, findParams{}, "may be it"},
		"another length":              {visited().of("longer than that"), 0, none, findParams{}, "may be it"},
		"recordings must not be read": {visited(), 0, none, findParams{WithoutAudio: true}, "may be it"},
		"made a little before":        {visited().of(otherSound), 14 * time.Minute, none, findParams{}, "may be it"},
		"expired recording": {visited(), 0, func(s *fakeService) {
			s.audio = fails(1, http.StatusGone) //nolint:bodyclose // it is the server's
		}, findParams{}, "may be it"},
		"sent in the future": {
			visited().of(otherSound), 0, func(s *fakeService) { s.ahead = -time.Hour }, findParams{}, "check the clocks",
		},
		"a local time": {
			visited().of(otherSound), 0, func(s *fakeService) { s.zone = 14 * time.Hour }, findParams{}, "may be it",
		},
		"deleted meanwhile": {visited().of(otherSound), 0, func(s *fakeService) {
			s.onList = func() {
				if s.lists == 2 {
					s.change(1, func(n *fakeNote) { n.id = 0 })
				}
			}
		}, findParams{}, "may be it"},
	}, func(t *testing.T, tt test) {
		s, client, lost := loseVisit(t)
		tt.made.made = time.Now().Add(-tt.before)
		s.keep(tt.made)
		tt.also(s)
		findWith(t, client, lost, tt.params).isUndecided(tt.reason)
	})
}

// Other bytes rule a note out only if the caller states that the service keeps recordings as they were sent. That one
// recording was read back unchanged proves nothing about another one.
func TestFindCreated_OtherBytes_RuleANoteOutOnlyIfStated(t *testing.T) {
	t.Parallel()
	type options = []clinicaldoc.Option
	assembled := func(e *lostCreate) { // by a caller who may have another recording
		*e = *constructed()
		e.AudioSHA256 = ""
		e.Params.Audio = clinicaldoc.AudioBytes("a.wav", []byte("other"))
	}
	readAnywhere := func(e *lostCreate) {
		e.Params.Audio = clinicaldoc.AudioReaderAt("a.wav", strings.NewReader("other"), 5)
	}
	stated := func(e *lostCreate) { *e = *constructed() }
	type test struct {
		options options
		rival   fakeNote
		change  func(*lostCreate)
		want    string
	}
	timedSubtests(t, map[string]test{
		"nothing is known":          {nil, visited().of(otherSound), nil, mayBeIt},
		"another length":            {nil, visited().of("longer than that").sized(3), nil, mayBeIt},
		"names are kept":            {options{namesUnchanged}, visited().of(otherSound), nil, mayBeIt},
		"kept, other bytes":         {options{recordingsUnchanged}, visited().of(otherSound), nil, notCreated},
		"kept, another length":      {options{recordingsUnchanged}, visited().of("longer").sized(5), nil, notCreated},
		"kept, another's recording": {options{recordingsUnchanged}, visited(), assembled, mayBeIt},
		"kept, a hash of something": {options{recordingsUnchanged}, visited(), readAnywhere, mayBeIt},
		"kept, hash by the caller":  {options{recordingsUnchanged}, visited().of(otherSound), stated, notCreated},
	}, func(t *testing.T, tt test) {
		s := newFakeService(t)
		client := s.client(tt.options...)
		must(client.Users.Me(t.Context()))(t)
		// A first create is found by its recording, so the service was seen to keep one.
		first := lose(t, client, visit())
		s.keep(visited())
		seen := must(client.Notes.FindCreated(t.Context(), first, findParams{}))(t)

		time.Sleep(time.Hour)
		lost := lose(t, client, visit())
		if tt.change != nil {
			tt.change(lost)
		}
		tt.rival.made = time.Now()
		s.keep(tt.rival)
		findWith(t, client, lost, excluding(seen)).is(tt.want, 0)
	})
}

func TestFindCreated_OtherName_RulesANoteOutOnlyIfStated(t *testing.T) {
	t.Parallel()
	type test struct {
		option clinicaldoc.Option
		made   string // the name of the note
		want   string
	}
	timedSubtests(t, map[string]test{
		"nothing is known":        {clinicaldoc.WithAssumptions(clinicaldoc.Assumptions{}), "Other", mayBeIt},
		"recordings are kept":     {recordingsUnchanged, "Other", mayBeIt},
		"names are kept":          {namesUnchanged, "Other", notCreated},
		"the same":                {namesUnchanged, "Visit", mayBeIt},
		"the same, without space": {namesUnchanged, " Visit ", mayBeIt},
	}, func(t *testing.T, tt test) {
		s := newFakeService(t)
		client := s.client(tt.option)
		lost := lose(t, client, visit())
		s.keep(visited().named(tt.made).of(otherSound))
		s.audio = fails(1, http.StatusGone) //nolint:bodyclose // it is the server's
		find(t, client, lost).is(tt.want, 0)
	})
}

// Two machines upload other recordings of one patient under one name, at the same time. Only the second arrives.
func TestFindCreated_NoteOfAnotherUpload_IsNotReturned(t *testing.T) {
	t.Parallel()
	other := visitOf(otherSound)
	timedSubtest(t, "which succeeded", func(t *testing.T) {
		s, client, lost := loseVisit(t)
		s.post = s.committing
		must(s.client().Notes.Create(t.Context(), other))(t)
		find(t, client, lost).isUndecided("may be it")
		assert.Positive(t, s.reads)
	})
	timedSubtest(t, "which was lost too", func(t *testing.T) {
		s := newFakeService(t)
		one := s.client() // of the first machine, whose note and response are lost
		two := s.client() // of the second machine, of which only the response is lost
		first := lose(t, one, visit())
		s.post = s.losing
		second := lose(t, two, other)
		find(t, one, first).isUndecided("may be it")
		find(t, two, second).isNote(1)
		// Told of each other, both are decided.
		findWith(t, one, first, findParams{Unresolved: []*lostCreate{second}}).isNotCreated()
	})
}

func TestFindCreated_AmbiguousRecording_IsUndecided(t *testing.T) {
	t.Parallel()
	type test struct {
		made   func(*fakeService)
		reason string
	}
	timedSubtests(t, map[string]test{
		"two notes have it": {func(s *fakeService) { s.keep(visited(), visited()) }, "several notes match"},
		"two notes have it, one renamed": {
			func(s *fakeService) { s.keep(visited().named("Other"), visited().by(5)) }, "several notes match",
		},
		"a note of minutes before has it": {
			func(s *fakeService) { s.keep(visited().ago(5 * time.Minute)) }, "was created before",
		},
		"another note cannot be read": {func(s *fakeService) {
			s.keep(visited(), visited().of(otherSound))
			s.audio = fails(2, http.StatusServiceUnavailable) //nolint:bodyclose // it is the server's
		}, "recording of another note could not be read"},
		"another note can never be read": {func(s *fakeService) {
			s.keep(visited(), visited().of(otherSound))
			s.audio = fails(2, http.StatusForbidden) //nolint:bodyclose // it is the server's
		}, "recording of another note could not be read"},
		"it is compressed": {func(s *fakeService) { twoVisits(s); s.audio = compressed }, "may be it"},
		"a page of a proxy": {func(s *fakeService) {
			twoVisits(s)
			s.audio = func(_ int64, r *http.Request) *http.Response {
				return madeResponse(r, http.StatusOK, "<html>welcome</html>")
			}
		}, "may be it"},
	}, func(t *testing.T, tt test) {
		s, client, lost := loseVisit(t)
		tt.made(s)
		again := find(t, client, lost).undecided(tt.reason)
		assert.NotContains(t, again.Error(), canary)
		assert.Positive(t, s.urls)
		assert.LessOrEqual(t, s.reads, 30)
	})
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

func TestFindCreated_TwoLostCreates_ShareNoNote(t *testing.T) {
	t.Parallel()
	type test struct {
		second string            // its recording
		made   []string          // recordings of the notes
		want   map[string]string // verdict by recording
	}
	timedSubtests(t, map[string]test{
		"one recording, no note":   {"sound", nil, map[string]string{"sound": notCreated}},
		"one recording, one note":  {"sound", []string{"sound"}, map[string]string{"sound": "another create"}},
		"one recording, two notes": {"sound", []string{"sound", "sound"}, map[string]string{"sound": "another create"}},
		"two recordings, no note":  {otherSound, nil, map[string]string{"sound": notCreated, otherSound: notCreated}},
		"two recordings, the first note": {
			otherSound, []string{"sound"}, map[string]string{"sound": found, otherSound: notCreated},
		},
		"two recordings, the second note": {
			otherSound, []string{otherSound}, map[string]string{"sound": notCreated, otherSound: found},
		},
		"two recordings, both notes": {otherSound, []string{"sound", otherSound}, map[string]string{"sound": found, otherSound: found}},
		"two sizes, both notes": {"longer", []string{"sound", "longer"},
			map[string]string{"sound": found, "longer": found}},
	}, func(t *testing.T, tt test) {
		s := newFakeService(t)
		client := s.client()
		lost := map[string][]*lostCreate{}
		var all []*lostCreate
		for _, recording := range []string{"sound", tt.second} {
			all = append(all, lose(t, client, visitOf(recording)))
			lost[recording] = append(lost[recording], all[len(all)-1])
		}
		ids := map[string]int64{}
		for _, recording := range tt.made {
			ids[recording] = s.keep(visited().of(recording))
		}
		for range 2 { // whoever is asked about first
			for recording, want := range tt.want {
				for _, lost := range lost[recording] {
					findWith(t, client, lost, findParams{Unresolved: all}).is(want, ids[recording])
				}
			}
		}
		for _, e := range all { // other goroutines of the caller may have them too
			assert.Empty(t, e.AudioSHA256, "FindCreated does not change the caller's errors")
		}
	})
}

// Lost creates of another process count if the caller passes them.
func TestFindCreated_UnresolvedCreate_MayHaveMadeTheNote(t *testing.T) {
	t.Parallel()
	const second = time.Second
	unknown := func(e *lostCreate, size int64) {
		e.AudioSHA256 = ""
		e.Params.Audio = nil
		e.AudioSize = size
	}
	other := func(change func(*lostCreate)) *lostCreate {
		e := constructed()
		e.SentAt = e.SentAt.Add(time.Millisecond)
		change(e)
		return e
	}
	type test struct {
		other  func(*lostCreate)
		params findParams
		made   string // its recording
		want   string
	}
	timedSubtests(t, map[string]test{
		"the same recording": {func(*lostCreate) {}, findParams{}, "sound", "another create"},
		"the same recording, other name": {
			func(e *lostCreate) { e.Params.Name = "Other" }, findParams{}, "sound", "another create",
		},
		"another recording": {func(e *lostCreate) { e.AudioSHA256 = sumOf(otherSound) }, findParams{}, "sound", found},
		"an unknown recording of the same size": {
			func(e *lostCreate) { unknown(e, 5) }, findParams{}, "sound", "another create",
		},
		"an unknown recording of another size": {
			func(e *lostCreate) { unknown(e, 6) }, findParams{}, "sound", found,
		},
		"another patient": {func(e *lostCreate) { e.Params.PatientID = 5 }, findParams{}, "sound", found},
		"of another day":  {func(e *lostCreate) { ago(e, 27*time.Hour) }, findParams{}, "sound", found},
		"its very recording": {func(e *lostCreate) { e.AudioSHA256 = sumOf(otherSound) }, findParams{}, otherSound,
			notCreated},
		"neither's recording": {func(e *lostCreate) { e.AudioSHA256 = sumOf(otherSound) }, findParams{}, "third",
			"may be it"},
		"the same unique name": {
			func(e *lostCreate) { e.AudioSHA256 = sumOf(otherSound) }, findParams{UniqueName: true}, "sound",
			"another create",
		},
		"another unique name": {
			func(e *lostCreate) { e.Params.Name = "Other" }, findParams{UniqueName: true}, "sound", found,
		},
		"itself": {
			func(e *lostCreate) { e.SentAt = e.SentAt.Add(-time.Millisecond) }, findParams{}, "sound", found,
		},
		"itself, in whole seconds": {
			func(e *lostCreate) { e.SentAt = e.SentAt.Truncate(second) }, findParams{}, "sound", found,
		},
	}, func(t *testing.T, tt test) {
		s := newFakeService(t)
		time.Sleep(345 * time.Millisecond)
		mine := constructed()
		tt.params.Unresolved = []*lostCreate{other(tt.other)}
		s.keep(visited().of(tt.made))
		findWith(t, s.client(), mine, tt.params).is(tt.want, 1)
	})
}

func sumOf(recording string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(recording))) }

func TestFindCreated_SentAtInWholeSeconds_IsTheSameCreate(t *testing.T) {
	t.Parallel()
	timedSubtests(t, map[string]func(*lostCreate) *lostCreate{
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
	}, func(t *testing.T, change func(*lostCreate) *lostCreate) {
		s := newFakeService(t)
		client := s.client()
		time.Sleep(123456789)
		kept := change(lose(t, client, visit()))
		id := s.keep(visited())
		find(t, client, kept).isNote(id)
	})
}

// FindCreated never returns one note for two creates, also if another process sent them.
func TestFindCreated_FoundNote_IsGivenToOneCreate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		time.Sleep(345 * time.Millisecond)
		first := constructed()
		second := constructed()
		second.SentAt = second.SentAt.Add(time.Millisecond)
		s.keep(visited())
		must(client.Notes.FindCreated(t.Context(), first, findParams{}))(t)
		second.NoteID = 1
		find(t, client, second).isUndecided("the ID of a note that does not match what was sent")
		second.NoteID = 0
		find(t, client, second).isNotCreated() // the first one explains it

		// A create that was only asked about counts too.
		third := constructed()
		fourth := constructed()
		fourth.SentAt = fourth.SentAt.Add(time.Millisecond)
		findFor(t, time.Second, client, third).isUndecided("may still be processing")
		s.keep(visited())
		find(t, client, fourth).isUndecided("another create whose outcome is unknown may have made it")
	})
}

// Each create was resolved before the next was sent, so each gets its own note.
func TestFindCreated_CreatesOneAfterTheOther_GetTheirNotes(t *testing.T) {
	t.Parallel()
	timedSubtests(t, map[string][]clinicaldoc.CallOption{
		"no tenant": nil, "a tenant": {clinicaldoc.WithHeader("X-Team", "one")},
	}, func(t *testing.T, opts []clinicaldoc.CallOption) {
		s := newFakeService(t)
		client := s.client()
		s.post = s.losing
		for want := range int64(3) {
			lost := lose(t, client, visit(), opts...)
			findWith(t, client, lost, findParams{}, opts...).isNote(want + 1)
		}
	})
}

// A create that was not carried out does not prevent the next lost create from being found. That holds even if another
// call still searches for the first one.
func TestFindCreated_CreateWithoutANote_IsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, client, lost := loseVisit(t)
		patient, cancel := context.WithCancel(t.Context())
		var other sync.WaitGroup
		other.Go(func() {
			_, err := client.Notes.FindCreated(patient, lost, findParams{Settle: time.Hour})
			assert.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		})
		find(t, client, lost).isNotCreated()
		time.Sleep(5 * time.Minute)
		cancel()
		other.Wait()
		second := lose(t, client, visit())
		id := s.keep(visited())
		find(t, client, second).isNote(id)
	})
}

// Notes that this client's Create returned come from elsewhere. Another process has to exclude them.
func TestFindCreated_NoteThatCreateReturned_IsRuledOut(t *testing.T) {
	t.Parallel()
	timedSubtests(t, map[string]int64{"its patient": fakePatient, "another patient, as it was sent": 5},
		func(t *testing.T, patient int64) {
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
			find(t, client, lost).isNotCreated()

			stored := restored(t, lost, nil)
			findWith(t, s.client(), stored, excluding(note)).isNotCreated()
			find(t, s.client(), stored).isNote(note.ID)
		})
}

// FindCreated does not return an excluded note, and finds the create's own note in addition to it. That also applies
// if an earlier FindCreated has returned the excluded note. Exclude means the note with that ID and time of creation:
// a service may have used the ID before.
func TestFindCreated_ExcludedNote_IsNotReturned(t *testing.T) {
	t.Parallel()
	unchanged := func(*clinicaldoc.ProgressNote) {}
	untimed := func(n *clinicaldoc.ProgressNote) { n.CreatedAt = time.Time{} }
	younger := func(by time.Duration) func(*clinicaldoc.ProgressNote) {
		return func(n *clinicaldoc.ProgressNote) { n.CreatedAt = n.CreatedAt.Add(by) }
	}
	type test struct {
		change func(*clinicaldoc.ProgressNote) // of the caller's copy of the note, before it is excluded
		hasOwn bool                            // the create has also made its own note, which is note 2
		want   string                          // the verdict
		note   int64                           // that is found; note 1 is the excluded one
	}
	subtests(t, map[string]test{
		"the note":                     {unchanged, false, notCreated, 0},
		"the note, beside the own":     {unchanged, true, found, 2},
		"its id":                       {untimed, false, notCreated, 0},
		"its id, beside the own":       {untimed, true, found, 2},
		"a rounded time":               {younger(time.Second), true, found, 2},
		"an earlier note with that id": {younger(-time.Minute), false, found, 1},
	}, func(t *testing.T, tt test) {
		for _, foundBefore := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s, client, lost := loseVisit(t)
				id := s.keep(visited())
				excluded := must(client.Notes.Get(t.Context(), id))(t)
				if foundBefore {
					find(t, client, lost).isNote(id)
				}
				tt.change(excluded)
				if tt.hasOwn {
					s.keep(visited())
				}
				findWith(t, client, lost, excluding(excluded)).is(tt.want, tt.note)
			})
		}
	})
}

// A service may give the id of a deleted note to another one.
func TestFindCreated_IDUsedAgain_IsAnotherNote(t *testing.T) {
	t.Parallel()
	reuseID := func(s *fakeService, id int64, n fakeNote) {
		s.change(id, func(old *fakeNote) { n.id = id; *old = n })
	}
	type test struct {
		sentAfter time.Duration // from the return of the earlier note until the create is sent
		youngerBy time.Duration // how much younger the note in the list is than the earlier one
		made      fakeNote
		want      string
	}
	// A note that is more than a second younger is another one with the same id. A second may also come of rounding: then
	// it is another one only if the create was sent after the earlier note was returned, and within two seconds.
	timedSubtests(t, map[string]test{
		"much later":                         {time.Minute, time.Minute, visited(), found},
		"much later, another recording":      {time.Minute, time.Minute, visited().of(otherSound), "may be it"},
		"right after, a second younger":      {time.Millisecond, time.Second, visited(), found},
		"right after, of the same second":    {time.Millisecond, 0, visited(), notCreated},
		"two seconds after, and rounded":     {2 * time.Second, time.Second, visited(), notCreated},
		"sent at the moment it was returned": {0, time.Second, visited(), notCreated},
	}, func(t *testing.T, tt test) {
		s := newFakeService(t)
		client := s.client()
		returned := s.returned(client)
		time.Sleep(tt.sentAfter)
		lost := lose(t, client, visit())
		tt.made.made = returned.CreatedAt.Add(tt.youngerBy)
		reuseID(s, returned.ID, tt.made)
		find(t, client, lost).is(tt.want, returned.ID)
	})
	timedSubtest(t, "of the note that was found", func(t *testing.T) {
		s, client, lost := loseVisit(t)
		id := s.keep(visited())
		must(client.Notes.FindCreated(t.Context(), lost, findParams{}))(t)
		time.Sleep(time.Minute)
		reuseID(s, id, visited().of(otherSound))
		find(t, client, lost).isUndecided("does not match what was sent")
	})
}

// A note that this client deleted, or tried to, explains nothing, because its id may be another's.
func TestFindCreated_DeletedNote_ExplainsNothing(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound, http.StatusBadGateway,
		http.StatusNoContent} {
		timedSubtest(t, http.StatusText(status), func(t *testing.T) {
			s, client, lost := loseVisit(t)
			s.post = s.committing
			other := must(client.Notes.Create(t.Context(), visitOf(otherSound)))(t)
			s.deleting = status
			_, err := client.Notes.Delete(t.Context(), other.ID)
			require.Equal(t, status == http.StatusNoContent, err == nil)
			find(t, client, lost).isUndecided("may be it")
			findWith(t, client, lost, excluding(other)).isNotCreated() // somebody has checked it
		})
	}
}

// The note of a create that is under way is in the list before Create returns its id.
func TestFindCreated_CreateUnderWay_IsWaitedFor(t *testing.T) {
	t.Parallel()
	type test struct {
		also  bool   // the lost create made a note too
		other string // recording of the one under way
		// refused: the one under way is refused, and the lost create's note is deleted meanwhile. Then nothing explains
		// the note that was seen.
		refused bool
		want    string
	}
	timedSubtests(t, map[string]test{
		"same recording, one note":            {false, "sound", false, notCreated},
		"same recording, both notes":          {true, "sound", false, found},
		"other recording, one note":           {false, otherSound, false, notCreated},
		"other recording, both notes":         {true, otherSound, false, found},
		"same recording, deleted and refused": {true, "sound", true, "may be it"},
	}, func(t *testing.T, tt test) {
		s, client, lost := loseVisit(t)
		if tt.also {
			s.keep(visited())
		}
		s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) {
			if tt.refused {
				time.Sleep(40 * time.Second)
				s.change(1, func(n *fakeNote) { n.id = 0 }) // deleted
				return s.respond(r, http.StatusUnprocessableEntity, `{"message":"invalid"}`), nil
			}
			response := s.commit(r, sent)
			time.Sleep(40 * time.Second) // the response is on its way
			return response, nil
		}
		var workers sync.WaitGroup
		workers.Go(func() {
			_, err := client.Notes.Create(t.Context(), visitOf(tt.other))
			assert.Equal(t, tt.refused, err != nil)
		})
		synctest.Wait()
		verdict := find(t, client, lost)
		workers.Wait()
		verdict.is(tt.want, 1)
	})
}

// A service whose clock is behind makes notes that appear to be older than the create. If its responses have no Date,
// the client cannot know that.
func TestFindCreated_ClockNotReported_OldNoteMayBeIt(t *testing.T) {
	t.Parallel()
	type test struct {
		behind     time.Duration
		dateBefore bool // the responses before the search have a Date
	}
	timedSubtests(t, map[string]test{
		"a little":               {20 * time.Minute, false},
		"hours":                  {20 * time.Hour, false},
		"a Date in creates only": {time.Hour, true},
	}, func(t *testing.T, tt test) {
		s := newFakeService(t)
		s.ahead = -tt.behind
		s.noDate = !tt.dateBefore
		client := s.client()
		lost := lose(t, client, visit())
		s.keep(visited())
		s.noDate = true
		findWith(t, client, lost, findParams{WithoutAudio: true}).isUndecided(mayBeIt)
	})
}

func TestFindCreated_UniqueName_Decides(t *testing.T) {
	t.Parallel()
	type test struct {
		sent string // the name; "": Visit
		made func(*fakeService)
		want string // empty: found
	}
	timedSubtests(t, map[string]test{
		"whatever else differs": {made: func(s *fakeService) {
			s.keep(visited().of(otherSound).by(5).ago(100 * time.Hour))
		}},
		"no user":             {made: func(s *fakeService) { s.keep(visited().by(-1)); s.noUser = true }},
		"no Date":             {made: func(s *fakeService) { s.keep(visited()); s.noDate = true }},
		"local times":         {made: func(s *fakeService) { s.keep(visited()); s.zone = -12 * time.Hour }},
		"a list without ends": {made: func(s *fakeService) { s.keep(visited()); s.list = deaf(15) }},
		"white space":         {made: func(s *fakeService) { s.keep(visited().named(" Visit ")) }},
		"twice":               {made: func(s *fakeService) { s.keep(visited(), visited()) }, want: "several notes"},
		"another name":        {made: func(s *fakeService) { s.keep(visited().named("Other")) }, want: notCreated},
		"another spelling": {
			sent: "10 \u212b", made: func(s *fakeService) { s.keep(visited().named("10 \u00c5")) },
		},
		"sent in the future": {made: func(s *fakeService) { s.ahead = -time.Hour }, want: "sent in the future"},
	}, func(t *testing.T, tt test) {
		s := newFakeService(t)
		client := s.client()
		params := visit()
		params.Name = cmp.Or(tt.sent, params.Name)
		lost := lose(t, client, params)
		tt.made(s)
		findWith(t, client, lost, findParams{UniqueName: true}).is(cmp.Or(tt.want, found), 1)
		assert.Zero(t, s.urls, "the name decides")
	})
}

// A row may lack the name, so it is not another name.
func TestFindCreated_RowWithoutAName_IsNotRuledOutByName(t *testing.T) {
	t.Parallel()
	type test struct {
		name   string // the member of the row
		ago    time.Duration
		option []clinicaldoc.Option
		params findParams
		want   string
	}
	unique := findParams{UniqueName: true}
	unread := findParams{WithoutAudio: true}
	unchanged := []clinicaldoc.Option{namesUnchanged}
	timedSubtests(t, map[string]test{
		"absent, unique name":     {params: unique, want: mayBeIt},
		"null, unique name":       {name: `"name":null,`, params: unique, want: mayBeIt},
		"empty, unique name":      {name: `"name":"",`, params: unique, want: mayBeIt},
		"absent, unchanged names": {option: unchanged, params: unread, want: mayBeIt},
		"older, unique name":      {ago: time.Hour, params: unique, want: notCreated},
		"older, unchanged names":  {ago: time.Hour, option: unchanged, params: unread, want: notCreated},
	}, func(t *testing.T, tt test) {
		s := newFakeService(t)
		client := s.client(tt.option...)
		lost := lose(t, client, visit())
		s.list = func(_ []string, r *http.Request) string {
			const note = `{"id":5,%s"patient":{"id":4711},"created_at":%q}`
			made := lost.SentAt.Add(-tt.ago).UTC().Format(time.RFC3339)
			return numbered([]string{fmt.Sprintf(note, tt.name, made)}, r)
		}
		findWith(t, client, lost, tt.params).is(tt.want, 0)
	})
}

// The id in a response is proof only if nothing that is known of the note differs.
func TestFindCreated_IDInTheResponse_IsCheckedAgainstTheNote(t *testing.T) {
	t.Parallel()
	const otherNote = "the ID of a note that does not match what was sent"
	renamed := func(n *fakeNote) { n.name = "Other" }
	older := func(by time.Duration) func(*fakeNote) { return func(n *fakeNote) { n.made = n.made.Add(-by) } }
	patient := func(id int64) func(*fakeNote) { return func(n *fakeNote) { n.patient = id } }
	type test struct {
		change func(*fakeNote) // nil: the note is gone
		params findParams
		sentTo int64 // patient
		want   string
	}
	timedSubtests(t, map[string]test{
		"as it was sent":       {func(*fakeNote) {}, findParams{}, fakePatient, found},
		"without its patient":  {patient(0), findParams{}, fakePatient, found},
		"without its size":     {func(n *fakeNote) { n.size = 0 }, findParams{}, fakePatient, found},
		"without its user":     {func(n *fakeNote) { n.user = -1 }, findParams{}, fakePatient, found},
		"without its time":     {func(n *fakeNote) { n.made = time.Time{} }, findParams{}, fakePatient, found},
		"recordings unread":    {func(*fakeNote) {}, findParams{WithoutAudio: true}, fakePatient, found},
		"another patient":      {func(*fakeNote) {}, findParams{WithoutAudio: true}, 5, otherNote},
		"a patient, none sent": {func(*fakeNote) {}, findParams{WithoutAudio: true}, 0, otherNote},
		"somebody, none sent":  {patient(-1), findParams{WithoutAudio: true}, 0, otherNote},
		"two patients":         {patient(-2), findParams{WithoutAudio: true}, fakePatient, otherNote},
		"a minute older":       {older(time.Minute), findParams{WithoutAudio: true}, fakePatient, otherNote},
		"20 hours older":       {older(20 * time.Hour), findParams{WithoutAudio: true}, fakePatient, otherNote},
		"another name":         {renamed, findParams{WithoutAudio: true}, fakePatient, otherNote},
		"another user": {func(n *fakeNote) { n.user = 5 }, findParams{WithoutAudio: true}, fakePatient,
			otherNote},
		"another size": {func(n *fakeNote) { n.size = 6 }, findParams{WithoutAudio: true}, fakePatient,
			otherNote},
		"gone":                  {nil, findParams{}, fakePatient, "the ID of a note that does not exist"},
		"another unique name":   {renamed, findParams{UniqueName: true}, fakePatient, otherNote},
		"renamed, its very own": {renamed, findParams{}, fakePatient, found},
		"excluded": {
			func(*fakeNote) {}, excluding(&clinicaldoc.ProgressNote{ID: 1}), fakePatient, otherNote,
		},
	}, func(t *testing.T, tt test) {
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
		findWith(t, s.client(), lost, params).is(tt.want, 1)
	})
}

// By the service's clock, the note was made since. A replica may not have it yet.
func TestFindCreated_IDOfALateNote_IsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		s.ahead = 48 * time.Hour
		lost := constructed()
		lost.NoteID = 1
		time.AfterFunc(5*time.Second, func() { s.keep(visited()) })
		findWith(t, s.client(), lost, findParams{WithoutAudio: true}).isNote(1)
	})
}

// A create without a patient made a note without one.
func TestFindCreated_WithoutAPatient_FindsOnlyNotesWithout(t *testing.T) {
	t.Parallel()
	for patient, found := range map[string]bool{
		`"x":1`: true, `"patient":null`: true, `"patient":[]`: true, `"patient":{}`: true,
		`"patient":{"name":"x"}`: false, `"patient":{"id":"?"}`: false, `"patient_id":5`: false, `"patient":5`: false,
	} {
		timedSubtest(t, patient, func(t *testing.T) {
			s := newFakeService(t)
			client := s.client()
			params := visit()
			params.PatientID = 0
			lost := lose(t, client, params)
			s.keep(visited())
			s.list = func(rows []string, r *http.Request) string {
				return numbered([]string{strings.Replace(rows[0], `"patient":{"id":4711}`, patient, 1)}, r)
			}
			if found {
				find(t, client, lost).isNote(1)
				return
			}
			find(t, client, lost).isNotCreated()
			assert.Zero(t, s.urls, "the recording of a patient's note is not read")
		})
	}
}

func TestFindCreated_RowOfAnotherPatient_IsRejected(t *testing.T) {
	t.Parallel()
	type test struct {
		patient int64
		trust   bool
		want    string
	}
	const mismatch = "the patient's notes could not be read: the service returned a"
	timedSubtests(t, map[string]test{
		"another patient":           {5, false, mismatch},
		"another patient, trusting": {5, true, mismatch},
		"no patient":                {0, false, mismatch},
		"no patient, trusting":      {0, true, found},
	}, func(t *testing.T, tt test) {
		s := newFakeService(t)
		unknown := clinicaldoc.QueryNames{PatientID: "filter"} // which the service ignores
		client := s.client(clinicaldoc.WithQueryNames(unknown))
		lost := lose(t, client, visit())
		n := visited()
		n.patient = tt.patient
		id := s.keep(n)
		verdict := findWith(t, client, lost, findParams{TrustPatientFilter: tt.trust})
		verdict.is(tt.want, id)
		assert.Equal(t, tt.want == mismatch, errors.Is(verdict.err, clinicaldoc.ErrPatientMismatch))
		assert.Equal(t, 1, s.lists, "waiting cannot help")
	})
}

func TestFindCreated_ContextEnds_IsUndecided(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, client, lost := loseVisit(t)
		gaveUp := errors.New("Canary gave up")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, gaveUp)
		defer cancel()
		note, err := client.Notes.FindCreated(ctx, lost, findParams{})
		again := requireUndecided(t, note, err, "no note yet, but the service may still be processing the upload: "+
			"the deadline passed (context deadline exceeded); a search can decide it from 2000-01-01T00:10:00Z on")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, gaveUp)
		assert.NotContains(t, err.Error(), "Canary")
		assert.Equal(t, 5*time.Second, time.Since(lost.LostAt))

		// Another process goes on where this one ended.
		next := restored(t, again, nil)
		assert.Equal(t, again.Error(), next.Error())
		find(t, s.client(), next).isNotCreated()
		assert.Equal(t, defaultSettle, time.Since(lost.LostAt))

		ended := endedContext(t)
		note, err = client.Notes.FindCreated(ended, lost, findParams{})
		requireUndecided(t, note, err, "the patient's notes could not be read: the call was cancelled")
		require.ErrorIs(t, err, context.Canceled)
	})
}

// The reason is that of the search before, and not that the list broke off.
func TestFindCreated_ContextEndsDuringAList_KeepsTheReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, client, lost := loseVisit(t)
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

func TestFindCreated_InvalidArguments_AreRejected(t *testing.T) {
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
	unsent := &lostCreate{Params: visit()}
	for _, tt := range []struct {
		want   string // part of the error's text
		lost   *lostCreate
		params findParams
		opts   []clinicaldoc.CallOption
	}{
		{want: "needs the error of a Create", lost: nil},
		{want: "needs the error of a Create: ", lost: unsent},
		{want: "ids must not be negative", lost: negative},
		{want: "Settle: must not be negative", lost: good, params: findParams{Settle: -1}},
		{want: "UniqueName: needs a name", lost: nameless, params: findParams{UniqueName: true}},
		{want: "AudioSHA256: is not 64 hexadecimal", lost: unhashed},
		{want: "Exclude: contains a note without an ID", lost: good, params: excluding(nil)},
		{want: "Exclude: contains a note without an ID", lost: good, params: excluding(&clinicaldoc.ProgressNote{})},
		{want: "Unresolved: contains nil", lost: good, params: findParams{Unresolved: []*lostCreate{good, nil}}},
		{want: "call option: is nil", lost: good, opts: []clinicaldoc.CallOption{nil}},
		{
			want: "WithHeader: Authorization is set by", lost: good,
			opts: []clinicaldoc.CallOption{clinicaldoc.WithHeader("Authorization", "x")},
		},
	} {
		_, err := client.Notes.FindCreated(t.Context(), tt.lost, tt.params, tt.opts...)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, tt.want)
		require.ErrorContains(t, err, tt.want)
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	}

	// A create that cannot be searched for is not an invalid argument.
	find(t, client, &lostCreate{SentAt: time.Now()}).isUndecided("nothing can identify its note")
	assert.Zero(t, s.lists, "no request")
}

func TestFindCreated_WithResponse_IsFilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, client, lost := loseVisit(t)
		s.keep(visited())
		var response clinicaldoc.Response
		params := findParams{UniqueName: true}
		must(client.Notes.FindCreated(t.Context(), lost, params, clinicaldoc.WithResponse(&response)))(t)
		assert.Contains(t, string(response.Body), `"total":1`)
	})
}

func TestFindCreated_OnProgress_ReceivesEachReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, client, lost := loseVisit(t)
		s.onList = func() {
			if s.lists == 3 {
				s.keep(visited().of(otherSound))
			}
		}
		var reasons []string
		params := findParams{OnProgress: func(reason string, decidable time.Time) {
			reasons = append(reasons, reason)
			assert.Equal(t, lost.LostAt.Add(defaultSettle), decidable)
		}}
		findWith(t, client, lost, params).isUndecided("may be it")
		require.Greater(t, len(reasons), 4)
		assert.Contains(t, reasons[2], "no note yet")
		assert.Contains(t, reasons[3], "may be it")
		assert.Len(t, reasons, s.lists-1, "all but the last look, which decided")
	})
}

// byToken returns the user of testToken, and of any other token.
func byToken(own, other string) func(token string) string {
	return func(token string) string {
		if token == testToken {
			return own
		}
		return other
	}
}

// ErrNotCreated is returned only to the sender of the create, because another user's list may not contain the note.
func TestFindCreated_AnotherSender_IsUndecided(t *testing.T) {
	t.Parallel()
	const otherSender = "it was sent by another user or with another token"
	known := func(s *fakeService, client *clinicaldoc.Client) { // /user has named the sender
		_, err := client.Users.Me(s.t.Context())
		require.NoError(s.t, err)
	}
	attributed := func(s *fakeService, client *clinicaldoc.Client) { s.returned(client) }
	both := func(s *fakeService, client *clinicaldoc.Client) {
		known(s, client)
		attributed(s, client)
	}
	unknown := func(*fakeService, *clinicaldoc.Client) {}
	type test struct {
		before func(*fakeService, *clinicaldoc.Client)
		user   func(token string) string // what GET /user returns for a token; nil: the same user for all
		token  string                    // who asks; "": who sent it
		want   string
	}
	timedSubtests(t, map[string]test{
		"the same token":                {unknown, nil, "", notCreated},
		"another token, unknown sender": {unknown, nil, otherToken, otherSender},
		"another token, same user":      {known, nil, otherToken, notCreated},
		"another user":                  {known, byToken(`{"id":2}`, `{"id":3}`), otherToken, otherSender},
		// Each tenant, which the token selects, has a user of this number.
		"a user of the same number": {both, byToken(
			`{"id":2,"email":"one@clinic.test","created_at":"2026-01-02T03:04:05Z"}`,
			`{"id":2,"email":"two@clinic.test","created_at":"2026-01-02T03:04:05Z"}`), otherToken, otherSender},
		"a user of the same number, created later": {both, byToken(
			`{"id":2,"created_at":"2026-01-02T03:04:05Z"}`,
			`{"id":2,"created_at":"2026-01-02T03:04:06Z"}`), otherToken, otherSender},
		// The service attributes all notes to the team's owner, whose token asks.
		"the user of earlier notes": {attributed, byToken(`{"id":9}`, `{"id":2}`), otherToken, otherSender},
	}, func(t *testing.T, tt test) {
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
			findWith(t, asker, restored(t, lost, nil), findParams{}, opts...).is(tt.want, 0)
		}
	})
}

// The search learns which user sent the create, and keeps it in the error. A later search may use another token of that
// user.
func TestFindCreated_SenderLearned_IsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		s.post = s.timingOut
		lost := lose(t, client, visit())
		require.Zero(t, lost.UserID)
		lost = findFor(t, time.Minute, client, lost).undecided("may still be processing")
		assert.EqualValues(t, fakeUser, lost.UserID)
		token := clinicaldoc.WithToken(otherToken)
		findWith(t, s.client(), restored(t, lost, nil), findParams{}, token).isNotCreated()
	})
}

func TestFindCreated_UserFails_IsAskedAgain(t *testing.T) {
	t.Parallel()
	const unread = "the patient's notes could not be read"
	for busy, want := range map[int]string{1: notCreated, 5: notCreated, 400: unread} {
		synctest.Test(t, func(t *testing.T) {
			s := newFakeService(t)
			s.busy = busy
			lost := constructed()
			ago(lost, time.Hour)
			lost.LostAt = lost.SentAt
			begin := time.Now()
			find(t, s.client(), lost).is(want, 0)
			assert.Less(t, time.Since(begin), time.Hour)
		})
	}
}

// A search of a long list reaches its bound on requests before its bound on failures. The last failure is the reason
// that the caller can do something about.
func TestFindCreated_TooManyRequests_NamesTheLastFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		token := testToken
		source := tokenFunc(func(context.Context) (string, error) { return token, nil })
		client := must(clinicaldoc.NewClient(testBase, "", clinicaldoc.WithHTTPClient(s.httpClient()), once,
			clinicaldoc.WithTokenSource(source)))(t)
		lost := lose(t, client, visit())
		const pages = 30 // of one note each
		s.instead = func(list int, r *http.Request) *http.Response {
			token = fmt.Sprint("synthetic-", list)
			page := max(pageOf(r), 1)
			return s.respond(r, http.StatusOK, fmt.Sprintf(`{
				"data":[{"id":%d,"name":"Earlier","patient":{"id":%d},"created_at":"1999-12-01T00:00:00Z"}],
				"meta":{"current_page":%d,"last_page":%d,"per_page":1,"total":%[4]d}
			}`, 100-page, lost.Params.PatientID, page, pages))
		}
		err := find(t, client, lost).err
		require.ErrorContains(t, err, "the search took too long; search again later")
		require.ErrorContains(t, err, "the token changed from one request to the next")
	})
}

// A token source may change its user while FindCreated waits, and then the next user's list proves nothing. It may also
// renew the token of the same user.
func TestFindCreated_TokenOfAnotherUser_ProvesNothing(t *testing.T) {
	t.Parallel()
	const late = 5 * time.Minute
	type test struct {
		oneUser bool
		notes   int           // from long ago; a page has 100
		made    time.Duration // when the note is made, after the create was lost; 0: never
		// next returns the token after a request for a page, so long after the create was lost. list counts them.
		next func(after time.Duration, list, page int) string
		want string
	}
	timedSubtests(t, map[string]test{
		"to another user, between two looks": {notes: 150, want: "another user",
			next: func(after time.Duration, _, _ int) string {
				if after > late {
					return otherToken
				}
				return testToken
			}},
		"to another user, within every look": {notes: 150, want: "the token changed from one request to the next",
			next: func(after time.Duration, _, page int) string {
				if after > late && page == 1 {
					return otherToken
				}
				return testToken
			}},
		"of one user, within the first look": {oneUser: true, notes: 150, made: time.Second, want: found,
			next: func(time.Duration, int, int) string { return otherToken }},
		"of one user, between all looks": {oneUser: true, made: 3 * time.Minute, want: found,
			next: func(_ time.Duration, list, _ int) string { return fmt.Sprint("synthetic-", list) }},
	}, func(t *testing.T, tt test) {
		s := newFakeService(t)
		if !tt.oneUser {
			s.whoami = byToken(`{"id":2}`, `{"id":3}`)
		}
		token := testToken
		source := tokenFunc(func(context.Context) (string, error) { return token, nil })
		client := must(clinicaldoc.NewClient(testBase, "", clinicaldoc.WithHTTPClient(s.httpClient()), once,
			clinicaldoc.WithTokenSource(source)))(t)
		tryTimes(t, client)
		keepMany(s, tt.notes)
		lost := lose(t, client, visit())
		if tt.made != 0 {
			time.AfterFunc(tt.made, func() { s.keep(visited()) })
		}
		s.instead = func(list int, r *http.Request) *http.Response {
			token = tt.next(time.Since(lost.LostAt), list, max(pageOf(r), 1))
			return nil
		}
		find(t, client, lost).is(tt.want, int64(tt.notes+1))
	})
}

// A header or the query may select a tenant. Headers that only name the request do not.
func TestFindCreated_AnotherTenant_IsUndecided(t *testing.T) {
	t.Parallel()
	type options = []clinicaldoc.CallOption
	team := func(name string) clinicaldoc.CallOption { return clinicaldoc.WithHeader("X-Team", name) }
	region := clinicaldoc.WithQuery("region", "two")
	var named options
	naming := []string{"X-Request-ID", "Traceparent", "Tracestate", "Baggage", "X-Amzn-Trace-ID", "Cache-Control"}
	for _, key := range naming {
		named = append(named, clinicaldoc.WithHeader(key, "synthetic-1"))
	}
	type test struct {
		sent, asked options
		want        string
	}
	const otherTenant = "pass the same ones as in Create"
	timedSubtests(t, map[string]test{
		"same header":                  {options{team("B")}, options{team("B")}, notCreated},
		"other header":                 {options{team("B")}, options{team("A")}, otherTenant},
		"no header":                    {options{team("B")}, nil, otherTenant},
		"a header where there was not": {nil, options{team("B")}, otherTenant},
		"same query":                   {options{region}, options{region}, notCreated},
		"no query":                     {options{region}, nil, otherTenant},
		"other query":                  {options{region}, options{clinicaldoc.WithQuery("region", "one")}, otherTenant},
		"a filter":                     {nil, options{clinicaldoc.WithQuery("signed", "1")}, otherTenant},
		"names of requests": {named, options{clinicaldoc.WithHeader("X-Correlation-ID", "synthetic-2")},
			notCreated},
		"conditions": {options{clinicaldoc.WithHeader("If-Match", "*")}, nil, notCreated},
	}, func(t *testing.T, tt test) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit(), tt.sent...)
		for _, asker := range []*clinicaldoc.Client{client, s.client()} {
			findWith(t, asker, restored(t, lost, nil), findParams{}, tt.asked...).is(tt.want, 0)
		}
	})
}

// FindCreated rules out notes that this client has made itself, but only those of the same tenant: tenants may have ids
// of their own.
func TestFindCreated_OwnNotes_AreRuledOutForTheirTenantOnly(t *testing.T) {
	t.Parallel()
	team := func(name string) clinicaldoc.CallOption { return clinicaldoc.WithHeader("X-Team", name) }
	type test struct {
		lost, other clinicaldoc.CallOption
		want        string
	}
	timedSubtests(t, map[string]test{
		"same tenant":    {team("one"), team("one"), notCreated},
		"another tenant": {team("one"), team("two"), mayBeIt},
		"same token":     {clinicaldoc.WithToken("one"), clinicaldoc.WithToken("one"), notCreated},
		"another token":  {clinicaldoc.WithToken("one"), clinicaldoc.WithToken("two"), mayBeIt}, // it may select a tenant
	}, func(t *testing.T, tt test) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit(), tt.lost)
		s.post = s.committing
		params := visitOf(otherSound)
		must(client.Notes.Create(t.Context(), params, tt.other))(t)
		findWith(t, client, lost, findParams{}, tt.lost).is(tt.want, 0)
	})
}

func TestFindCreated_AnotherService_IsUndecided(t *testing.T) {
	t.Parallel()
	s := newFakeService(t)
	lost := lose(t, s.client(), visit())
	elsewhere := must(clinicaldoc.NewClient("https://elsewhere.clinic.test", "synthetic-token"))(t)
	note, err := elsewhere.Notes.FindCreated(t.Context(), restored(t, lost, nil), findParams{})
	requireUndecided(t, note, err, "sent to another service")
	same, err := clinicaldoc.NewClient(strings.ToUpper(testBase)+":443/", "synthetic-token")
	require.NoError(t, err)
	ended := endedContext(t)
	for _, spelled := range []string{testBase, strings.ToUpper(testBase) + ":443/"} {
		again := restored(t, lost, func(members map[string]any) { members["service"] = spelled })
		note, err = same.Notes.FindCreated(ended, again, findParams{})
		requireUndecided(t, note, err, "context canceled")
	}
}

// The JSON of version 0.1 identifies neither the service nor the user.
func TestFindCreated_WithoutServiceOrUser_IsUndecided(t *testing.T) {
	t.Parallel()
	type test struct {
		fill func(*lostCreate)
		want string
	}
	const otherUser = "another user"
	timedSubtests(t, map[string]test{
		"as it is":         {func(*lostCreate) {}, otherUser},
		"only a service":   {func(e *lostCreate) { e.Service = testBase }, otherUser},
		"only a user":      {func(e *lostCreate) { e.UserID = fakeUser }, otherUser},
		"another user":     {func(e *lostCreate) { e.Service, e.UserID = testBase, 77 }, otherUser},
		"service and user": {func(e *lostCreate) { e.Service, e.UserID = testBase, fakeUser }, notCreated},
	}, func(t *testing.T, tt test) {
		s := newFakeService(t)
		oldest := []string{"params", "sent_at", "lost_at", "audio_size", "note_id", "error"}
		old := restored(t, lose(t, s.client(), visit()), func(members map[string]any) {
			for key := range members {
				if !slices.Contains(oldest, key) {
					delete(members, key)
				}
			}
		})
		tt.fill(old)
		find(t, s.client(), old).is(tt.want, 0)
	})
}

func TestFindCreated_WithToken_AppliesToEachRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		var tokens []string
		service := s.httpClient().Transport
		client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == strings.TrimPrefix(testBase, "https://") {
				tokens = append(tokens, r.Header.Get("Authorization"))
			}
			return service.RoundTrip(r)
		}))
		token := clinicaldoc.WithToken(otherToken)
		lost := lose(t, client, visit(), token)
		_, own := twoVisits(s)
		findWith(t, client, lost, findParams{}, token).isNote(own)
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
	return fmt.Sprintf(`{"data":[%s],"links":{"next":%s},"meta":{"current_page":%d}}`, cut(rows, page-1, 100), next,
		page)
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
	const page = `{"data":[%s],"meta":{"current_page":1,"last_page":1,"total":%d}}`
	return fmt.Sprintf(page, strings.Join(rows, ","), len(rows)+1)
}

// stuck always says that more follows.
func stuck(rows []string, r *http.Request) string {
	const page = `{"data":[%s],"meta":{"current_page":%d,"last_page":9}}`
	return fmt.Sprintf(page, strings.Join(rows, ","), max(pageOf(r), 1))
}

// stubborn gives its first page, whatever is asked for.
func stubborn(rows []string, _ *http.Request) string {
	return fmt.Sprintf(`{"data":[%s],"meta":{"current_page":1,"last_page":3}}`, cut(rows, 0, 100))
}

// Absence needs a list that was read to its end, or past the window in an order that the service was seen to follow.
func TestFindCreated_OnlyACompleteList_ProvesAbsence(t *testing.T) {
	t.Parallel()
	hourly := func(n int) func(*fakeService) {
		return func(s *fakeService) {
			for i := range n {
				s.keep(earlier().ago(time.Duration(n-i) * time.Hour))
			}
		}
	}
	often := func(s *fakeService) { // so that the second page of three leaves the window
		for i := range 300 {
			s.keep(earlier().ago(time.Hour + time.Duration(300-i)*12*time.Minute))
		}
	}
	together := func(s *fakeService) { keepMany(s, 250) } // all in one second, so that no order shows
	const incomplete = "the service does not show that its list is complete"
	type test struct {
		list  func([]string, *http.Request) string
		fill  func(*fakeService)
		order func(a, b fakeNote) int // nil: as asked for
		pages int                     // of one look
		want  string
	}
	timedSubtests(t, map[string]test{
		"numbered, one page":                 {nil, hourly(20), nil, 1, notCreated},
		"numbered, empty":                    {nil, hourly(0), nil, 1, notCreated},
		"numbered, past the window":          {nil, hourly(250), nil, 2, notCreated},
		"numbered, past it on page 2":        {nil, often, nil, 5, notCreated},
		"numbered, whose order is its own":   {nil, hourly(250), newestFirst, 7, notCreated},
		"numbered, oldest first":             {nil, hourly(250), oldestFirst, 6, notCreated},
		"numbered, no order":                 {nil, together, nil, 6, notCreated},
		"simple":                             {simple, together, nil, 6, notCreated},
		"cursors":                            {cursors, together, nil, 6, notCreated},
		"bare, empty":                        {bare(100, 1), hourly(0), nil, 1, notCreated},
		"bare, one page":                     {bare(100, 1), hourly(20), nil, 6, notCreated},
		"bare, small pages":                  {bare(15, 1), hourly(20), nil, 8, notCreated},
		"bare, past the window":              {bare(100, 1), hourly(50), nil, 2, notCreated},
		"bare, whose order is its own":       {bare(100, 1), hourly(50), newestFirst, 7, notCreated},
		"bare, counted from 0":               {bare(15, 0), hourly(20), nil, 6, notCreated},
		"everything at once":                 {deaf(1000), hourly(20), nil, 8, notCreated},
		"everything, in an order of its own": {deaf(1000), hourly(20), newestFirst, 5, incomplete},
		"everything, past the window":        {deaf(1000), hourly(50), nil, 2, notCreated},
		"the first rows only":                {deaf(15), hourly(20), nil, 4, incomplete},
		"the first rows, oldest first":       {deaf(15), hourly(50), oldestFirst, 5, incomplete},
		"the first rows, newest first":       {deaf(15), hourly(50), newestFirst, 5, incomplete},
		"deleted rows in the total":          {short, hourly(20), nil, 2, incomplete},
		"deleted rows, past the window":      {short, hourly(50), nil, 3, notCreated},
		"deleted rows, order is its own":     {short, hourly(50), newestFirst, 3, incomplete},
		"too many, oldest first":             {nil, hourly(5100), oldestFirst, 51, "too many notes to search"},
		"pages that bring nothing new":       {stuck, hourly(20), nil, 4, incomplete},
		"another page than the one asked":    {stubborn, together, nil, 2, "it is not the requested page"},
	}, func(t *testing.T, tt test) {
		s := newFakeService(t)
		s.list = tt.list
		s.order = tt.order
		client := s.client()
		tt.fill(s)
		lost := lose(t, client, visit())
		ago(lost, defaultSettle)
		begin := time.Now()
		find(t, client, lost).is(tt.want, 0)
		assert.Equal(t, tt.pages, s.lists, "pages")
		assert.Zero(t, time.Since(begin), "waiting cannot help")
	})
}

// The list is sorted by id, whatever order is asked for. 120 old notes were imported, the newest first, so the first
// page happens to end before the window. The note is on the second page.
func TestFindCreated_ListSortedByAccident_IsReadToItsEnd(t *testing.T) {
	t.Parallel()
	timedSubtests(t, map[string]bool{"created": true, notCreated: false}, func(t *testing.T, made bool) {
		s := newFakeService(t)
		s.order = func(a, b fakeNote) int { return cmp.Compare(a.id, b.id) }
		client := s.client()
		for i := range 120 {
			s.keep(earlier().ago(time.Duration(i+1) * 24 * time.Hour))
		}
		lost := lose(t, client, visit())
		var id int64
		if made {
			id = s.keep(visited())
		}
		ago(lost, defaultSettle)
		if made {
			find(t, client, lost).isNote(id)
			return
		}
		find(t, client, lost).isNotCreated()
		assert.Equal(t, 5, s.lists, "two walks of two pages, and the other order once")
	})
}

// If the request for the list in the other order fails, the next poll repeats it. After a success it is not repeated.
func TestFindCreated_OtherOrderFails_IsRequestedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		for i := range 101 {
			s.keep(earlier().ago(30*time.Hour - time.Duration(i)*time.Minute))
		}
		asked := 0
		pagesAfter := 0 // of the usual order, once the other one has succeeded
		s.instead = func(_ int, r *http.Request) *http.Response {
			if r.URL.Query().Get("sort") != "oldest" {
				if asked == 2 {
					pagesAfter++
				}
				return nil
			}
			if asked++; asked == 1 {
				return s.respond(r, http.StatusForbidden, "")
			}
			return nil
		}
		find(t, client, lose(t, client, visit())).isNotCreated()
		assert.Equal(t, 2, asked)
		assert.Greater(t, pagesAfter, 2, "more looks followed")
	})
}

func TestFindCreated_ListChangesMeanwhile_HidesNoNote(t *testing.T) {
	t.Parallel()
	timedSubtest(t, "a deletion moves the note to the page before", func(t *testing.T) {
		s := newFakeService(t)
		s.order = oldestFirst
		client := s.client()
		keepMany(s, 100)
		lost := lose(t, client, visit())
		ago(lost, defaultSettle) // so that one look decides
		id := s.keep(visited())  // the first row of the second page
		s.keep(visited().of(otherSound))
		s.onList = func() {
			if s.lists == 1 {
				s.change(1, func(n *fakeNote) { n.id = 0 })
				s.keep(visited().of(otherSound)) // so that the total does not show it
			}
		}
		find(t, client, lost).isNote(id)
	})
	timedSubtest(t, "new notes raise the total with every page", func(t *testing.T) {
		s := newFakeService(t)
		client := s.client(namesUnchanged)
		keepMany(s, 150)
		lost := lose(t, client, visit())
		ago(lost, defaultSettle)
		s.onList = func() { s.keep(visited().named("Later"), visited().named("Later")) }
		find(t, client, lost).isNotCreated()
	})
	timedSubtest(t, "the newest note is the last row", func(t *testing.T) {
		s, client, lost := loseVisit(t)
		for i := range 150 {
			s.keep(earlier().ago(time.Duration(i+1) * time.Hour))
		}
		id := s.keep(visited())
		s.list = func(rows []string, r *http.Request) string {
			rows[50], rows[51] = rows[51], rows[50]
			return numbered(append(rows[1:len(rows):len(rows)], rows[0]), r)
		}
		find(t, client, lost).isNote(id)
	})
}

// Ten failures in a row end the search, however many there are in all.
func TestFindCreated_ListFailsNowAndThen_GoesOn(t *testing.T) {
	t.Parallel()
	for _, every := range []int{3, 10} {
		synctest.Test(t, func(t *testing.T) {
			s := newFakeService(t)
			failures := 0
			s.instead = func(list int, r *http.Request) *http.Response {
				if list%every == 0 {
					return nil
				}
				failures++
				return s.respond(r, http.StatusBadGateway, "")
			}
			client := s.client()
			params := findParams{Settle: 30 * time.Minute}
			findWith(t, client, lose(t, client, visit()), params).isNotCreated()
			assert.Greater(t, failures, 10)
		})
	}
}

func TestFindCreated_ListCanNeverBeRead_Ends(t *testing.T) {
	t.Parallel()
	lists := 0
	client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == notesPath {
			lists++
		}
		return nil, x509.UnknownAuthorityError{}
	}))
	find(t, client, constructed()).isUndecided("the patient's notes could not be read: no response: " +
		"the server's certificate is signed by an authority that is unknown on this machine")
	assert.Equal(t, 1, lists)
}

func TestFindCreated_Pauses_Grow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		var looks []time.Time
		s.onList = func() {
			if looks = append(looks, time.Now()); len(looks) == 4 {
				s.keep(visited())
			}
		}
		must(client.Notes.FindCreated(t.Context(), lose(t, client, visit()), findParams{}))(t)
		require.Len(t, looks, 4)
		for i, shortest := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
			pause := looks[i+1].Sub(looks[i])
			assert.LessOrEqual(t, pause, shortest*3/2)
			assert.GreaterOrEqual(t, pause, shortest)
		}
	})
}

// A search that lasts long sends fewer requests: after many of them, its pauses may be longer than two minutes.
func TestFindCreated_ManyRequests_PausesGrowFurther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		var polls []time.Time
		s.onList = func() { polls = append(polls, time.Now()) }
		findWith(t, client, lost, findParams{Settle: 2 * time.Hour}).isNotCreated()
		var pauses []time.Duration
		for i := 1; i < len(polls); i++ {
			pauses = append(pauses, polls[i].Sub(polls[i-1]))
		}
		require.Greater(t, len(pauses), 20)
		for _, pause := range pauses[16 : len(pauses)-1] { // the last one ends with Settle
			assert.GreaterOrEqual(t, pause, 2*time.Minute)
		}
	})
}

// A service or storage that wants a pause gets it, up to two minutes, before the search sends another request.
func TestFindCreated_RetryAfter_IsHonored(t *testing.T) {
	t.Parallel()
	list := func(r *http.Request) bool { return r.Method == http.MethodGet && r.URL.Path == notesPath }
	otherOrder := func(r *http.Request) bool { return r.URL.Query().Get("sort") == string(clinicaldoc.SortOldest) }
	user := func(r *http.Request) bool { return r.URL.Path == "/user" }
	storage := func(r *http.Request) bool { return "https://"+r.URL.Host == fakeStorage }
	type test struct {
		refused    func(*http.Request) bool // the first of these requests is refused
		retryAfter string
		pause      time.Duration
		want       string
	}
	timedSubtests(t, map[string]test{
		"of the list":              {list, "40", 40 * time.Second, found},
		"of the list, for an hour": {list, "3600", 2 * time.Minute, found},
		"of storage":               {storage, "25", 25 * time.Second, found},
		"of the other order":       {otherOrder, "30", 30 * time.Second, notCreated},
		"of the user":              {user, "90", 90 * time.Second, notCreated},
	}, func(t *testing.T, tt test) {
		s := newFakeService(t)
		service := s.httpClient().Transport
		var refused time.Time
		var resumed time.Duration // after the refusal
		client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			if refused.IsZero() && tt.refused(r) {
				refused = time.Now()
				return madeResponse(r, http.StatusTooManyRequests, "", "Retry-After", tt.retryAfter), nil
			}
			if !refused.IsZero() {
				assert.GreaterOrEqual(t, time.Since(refused), tt.pause, r.URL.Path)
				resumed = cmp.Or(resumed, time.Since(refused))
			}
			return service.RoundTrip(r)
		}))
		tryTimes(t, client)
		for i := range 120 { // two pages, so that the other order is requested
			s.keep(earlier().ago(time.Duration(120-i) * 24 * time.Hour))
		}
		lost := lose(t, client, visit())
		if tt.want == found {
			twoVisits(s) // notes 121 and 122, whose recordings are both read
		}
		find(t, client, lost).is(tt.want, 122)
		assert.False(t, refused.IsZero(), "a request was refused")
		assert.LessOrEqual(t, resumed, tt.pause+10*time.Second, "the pause is not longer than needed")
	})
}

func TestFindCreated_ListFails_IsReadAgain(t *testing.T) {
	t.Parallel()
	status := func(code int, header ...string) func(*http.Request) *reply {
		return func(r *http.Request) *reply { return made(r, code, `{"message":"Canary"}`, header...) }
	}
	badGateway := status(http.StatusBadGateway)
	// A proxy that asks people to log in responds in the service's place for a while.
	login := status(http.StatusFound, "Location", "https://login.example")
	loginPage := func(r *http.Request) *reply {
		return made(r, http.StatusOK, "<html>", "Content-Type", "text/html")
	}
	type test struct {
		response func(*http.Request) *reply
		times    int
		want     error // nil: found
		lists    int   // that were requested
	}
	timedSubtests(t, map[string]test{
		"for a while":        {badGateway, 5, nil, 6},
		"for good":           {badGateway, 1000, clinicaldoc.ErrServer, 10},
		"not allowed":        {status(http.StatusForbidden), 1000, clinicaldoc.ErrForbidden, 1},
		"token revoked":      {status(http.StatusUnauthorized), 1000, clinicaldoc.ErrUnauthorized, 1},
		"login for a while":  {login, 9, nil, 10},
		"login for good":     {login, 10, clinicaldoc.ErrUnexpectedResponse, 10},
		"a page for a while": {loginPage, 9, nil, 10},
		"a page for good":    {loginPage, 10, clinicaldoc.ErrUnexpectedResponse, 10},
	}, func(t *testing.T, tt test) {
		s, client, lost := loseVisit(t)
		s.instead = func(list int, r *http.Request) *http.Response {
			if list > tt.times {
				return nil
			}
			return tt.response(r).Response
		}
		id := s.keep(visited())
		verdict := find(t, client, lost)
		assert.Equal(t, tt.lists, s.lists)
		if tt.want == nil {
			verdict.isNote(id)
			return
		}
		verdict.isUndecided("the patient's notes could not be read")
		require.ErrorIs(t, verdict.err, tt.want)
		assert.NotContains(t, verdict.err.Error(), "Canary")
	})
}

// A search ends in time and makes at most 250 requests, whatever the service's clock shows.
func TestFindCreated_IsBounded(t *testing.T) {
	t.Parallel()
	busyStorage := func(int64,
		*http.Request) *http.Response {
		return httpmock.NewStringResponse(http.StatusNotFound, "")
	}
	type test struct {
		settle  time.Duration
		prepare func(*fakeService)
	}
	timedSubtests(t, map[string]test{
		"constant Date": {0, func(s *fakeService) { s.constantDate() }},
		"constant Date, long Settle": {24 * time.Hour, func(s *fakeService) {
			s.constantDate()
		}},
		"Date that runs backwards": {0, func(s *fakeService) {
			begin := time.Now()
			s.onList = func() { s.ahead = -2 * time.Since(begin) }
		}},
		"ever older cache": {0, func(s *fakeService) {
			begin := time.Now()
			s.onList = func() { s.age = time.Since(begin) }
		}},
		"long Settle":  {24 * time.Hour, func(*fakeService) {}},
		"many pages":   {12 * time.Hour, func(s *fakeService) { keepMany(s, 2000) }},
		"busy storage": {0, func(s *fakeService) { s.keep(visited(), visited()); s.audio = busyStorage }},
		"busy storage, many notes and a constant Date": {0, func(s *fakeService) {
			keepMany(s, 250)
			for range 60 {
				s.keep(visited().of(otherSound))
			}
			s.audio = busyStorage
			s.constantDate()
		}},
		"failing user": {0, func(s *fakeService) { s.busy = 1000 }},
	}, func(t *testing.T, tt test) {
		s := newFakeService(t)
		lost := constructed()
		tt.prepare(s)
		begin := time.Now()
		_, err := s.client().Notes.FindCreated(t.Context(), lost, findParams{Settle: tt.settle})
		require.Error(t, err)
		settle := cmp.Or(tt.settle, defaultSettle)
		assert.LessOrEqual(t, time.Since(begin), settle+35*time.Minute)
		assert.LessOrEqual(t, s.lists+s.users+s.urls+s.reads, 250)
	})
}

func (s *fakeService) constantDate() {
	begin := time.Now()
	s.onList = func() { s.ahead = -time.Since(begin) }
}

// keepMany adds notes from long ago in one second, so that all of their pages have to be read.
func keepMany(s *fakeService, n int) {
	for range n {
		s.keep(earlier().ago(20 * time.Hour))
	}
}

// The recordings nearest in time are read first, each once, and storage that fails is not flooded.
func TestFindCreated_Recordings_AreReadWithinBounds(t *testing.T) {
	t.Parallel()
	for status, want := range map[int][]int64{
		http.StatusNotFound:            {1, 2, 3, 4, 2, 3, 4}, // three failures a look
		http.StatusInternalServerError: {1, 2, 2, 2, 2, 2, 2}, // one
	} {
		timedSubtest(t, http.StatusText(status), func(t *testing.T) {
			s := newFakeService(t)
			s.ahead = 5 * time.Minute // the nearest by the service's clock
			retries := clinicaldoc.RetryPolicy{MaxRetries: 2, MinWait: 1, MaxWait: 1}
			client := s.client(clinicaldoc.WithRetry(retries)) // a read is not retried
			lost := lose(t, client, visit())
			for i := range 6 {
				s.keep(visited().of(otherSound).ago(-time.Duration(i) * time.Second))
			}
			time.Sleep(time.Minute)
			var asked []int64
			s.audio = func(id int64, _ *http.Request) *http.Response {
				asked = append(asked, id)
				if id == 1 {
					return nil
				}
				return httpmock.NewStringResponse(status, "")
			}
			find(t, client, lost).isUndecided("may be it")
			assert.Equal(t, want, asked[:7], "the nearest first, and none that was read")
			assert.LessOrEqual(t, len(asked), 31)
		})
	}
}

// Storage that lags returns 404 for minutes.
func TestFindCreated_RecordingStoredLate_IsRead(t *testing.T) {
	t.Parallel()
	timedSubtests(t, named(5*time.Minute, defaultSettle+5*time.Minute), func(t *testing.T, late time.Duration) {
		s, client, lost := loseVisit(t)
		_, own := twoVisits(s)
		s.audio = func(int64, *http.Request) *http.Response {
			if time.Since(lost.LostAt) < late {
				return httpmock.NewStringResponse(http.StatusNotFound, "")
			}
			return nil
		}
		find(t, client, lost).isNote(own)
	})
}

func TestFindCreated_UnreadableRecording_IsNotWaitedFor(t *testing.T) {
	t.Parallel()
	timedSubtests(t, map[string]string{
		"plain http": "http://storage.clinic.test/1?signature=synthetic",
		"a password": "https://user:synthetic@storage.clinic.test/1?signature=synthetic",
	}, func(t *testing.T, address string) {
		s := newFakeService(t)
		s.address = address
		client := s.client()
		lost := lose(t, client, visit())
		s.keep(visited(), visited())
		findWith(t, client, lost, findParams{Settle: 3 * time.Second}).isUndecided("may be it")
		assert.Equal(t, 3*time.Second, time.Since(lost.LostAt))
		assert.Equal(t, 2, s.urls, "each once")
		assert.Zero(t, s.reads)
	})
}

// A recording that arrives in many pieces is compared when all of it has been read.
func TestFindCreated_LargeRecording_IsReadToItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		sound := strings.Repeat("sound", 100_000)
		params := visit()
		params.Audio = clinicaldoc.AudioBytes("a.wav", []byte(sound))
		lost := lose(t, client, params)
		id := s.keep(visited().sized(int64(len(sound))).of(sound))
		find(t, client, lost).isNote(id)
	})
}

// Storage that sends no length and no end is left at the first byte too many.
func TestFindCreated_EndlessRecording_IsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, client, lost := loseVisit(t)
		twoVisits(s)
		read := 0
		s.audio = func(_ int64, r *http.Request) *http.Response {
			resp := s.stored(r, "")
			resp.ContentLength = -1
			resp.TransferEncoding = []string{"chunked"}
			resp.Body = io.NopCloser(readerFunc(func(p []byte) (int, error) {
				read += len(p)
				return copy(p, bytes.Repeat([]byte{1}, len(p))), nil
			}))
			return resp
		}
		find(t, client, lost).isUndecided("may be it")
		assert.Less(t, read, 1<<20)
		assert.Equal(t, 2, s.reads, "each is known to be longer")
	})
}

// A list in a cache shows how things were.
func TestFindCreated_CachedList_ProlongsSettle(t *testing.T) {
	t.Parallel()
	type test struct {
		prepare func(*fakeService)
		after   time.Duration // Settle
	}
	timedSubtests(t, map[string]test{
		"always two minutes old": {func(s *fakeService) { s.age = 2 * time.Minute }, 2 * time.Minute},
		"old once": {func(s *fakeService) {
			s.age = time.Hour
			s.onList = func() {
				if s.lists > 0 {
					s.age = 0
				}
			}
		}, 0},
		"the first page is old": {func(s *fakeService) {
			keepMany(s, 101)
			s.list = func(rows []string, r *http.Request) string {
				s.age = 0
				if pageOf(r) < 2 {
					s.age = 2 * time.Minute
				}
				return numbered(rows, r)
			}
		}, 2 * time.Minute},
	}, func(t *testing.T, tt test) {
		s, client, lost := loseVisit(t)
		tt.prepare(s)
		find(t, client, lost).isNotCreated()
		assert.GreaterOrEqual(t, time.Since(lost.LostAt), defaultSettle+tt.after)
		assert.Less(t, time.Since(lost.LostAt), defaultSettle+tt.after+5*time.Minute)
		assert.Less(t, s.lists, 100)
	})
}

// A cache returns the same list during the complete search. It keeps the old Date, and sends no Age.
func TestFindCreated_CacheWithoutAge_IsNoticedByItsDate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, client, lost := loseVisit(t)
		time.AfterFunc(2*time.Minute, func() { s.keep(visited()) })
		kept := time.Now().UTC().Format(http.TimeFormat)
		s.instead = func(_ int, r *http.Request) *http.Response {
			if time.Since(lost.LostAt) > 14*time.Minute {
				return nil
			}
			resp := s.respond(r, http.StatusOK, numbered(nil, r))
			resp.Header.Set("Date", kept)
			return resp
		}
		find(t, client, lost).isNote(1)
	})
}

// A cached list may be older than the note, so the requests forbid caches, even if the caller's headers allow them.
func TestFindCreated_Requests_BypassCaches(t *testing.T) {
	t.Parallel()
	for allowed, want := range map[string][]string{"": {"no-cache"}, "max-stale=3600": {"max-stale=3600", "no-cache"}} {
		synctest.Test(t, func(t *testing.T) {
			s := newFakeService(t)
			service := s.httpClient().Transport
			requests := 0
			client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodGet {
					requests++
					assert.Equal(t, want, r.Header["Cache-Control"], r.URL.Path)
				}
				return service.RoundTrip(r)
			}))
			var opts []clinicaldoc.CallOption
			if allowed != "" {
				opts = append(opts, clinicaldoc.WithHeader("Cache-Control", allowed))
			}
			lost := lose(t, client, visit())
			findWith(t, client, lost, findParams{}, opts...).isNotCreated()
			assert.Greater(t, requests, 4)
		})
	}
}

// The process that lost the response is gone, and the clock of the next one may be another.
func TestFindCreated_Settle_CountsByBothClocks(t *testing.T) {
	t.Parallel()
	type test struct {
		step   time.Duration // how far the next clock is ahead
		known  bool          // the clocks were compared when it was lost
		silent bool          // the service reports no time any more
	}
	timedSubtests(t, map[string]test{
		"an hour ahead":                     {time.Hour, true, false},
		"an hour ahead, no Date":            {time.Hour, true, true},
		"an hour ahead, never compared":     {time.Hour, false, false},
		"a few seconds ahead":               {20 * time.Second, true, false},
		"the same":                          {0, true, false},
		"the same, but they never compared": {0, false, false},
	}, func(t *testing.T, tt test) {
		s := newFakeService(t)
		s.post = s.timingOut
		lost := restored(t, lose(t, s.client(), visit()), func(members map[string]any) {
			sentByAClock(t, -tt.step)(members)
			if !tt.known {
				delete(members, "clock_read_at")
				delete(members, "service_clock")
			}
		})
		s.noDate = tt.silent
		begin := time.Now()
		find(t, s.client(), lost).isNotCreated()
		assert.InDelta(t, defaultSettle.Seconds(), time.Since(begin).Seconds(), 241)
		assert.GreaterOrEqual(t, time.Since(begin), defaultSettle-2*time.Second)
	})
}

// The error keeps the clocks that one search has compared, so another process does not have to wait again.
func TestFindCreated_Clocks_AreKept(t *testing.T) {
	t.Parallel()
	for _, later := range []time.Duration{0, 5 * time.Minute} { // until then nobody knows whether our clock was set
		synctest.Test(t, func(t *testing.T) {
			s := newFakeService(t)
			lost := restored(t, lose(t, s.client(), visit()), nil)
			time.Sleep(later)
			lost = restored(t, findFor(t, 4*time.Minute, s.client(), lost).undecided("may still be processing"), nil)
			begin := time.Now()
			find(t, s.client(), lost).isNotCreated()
			assert.InDelta(t, 360, time.Since(begin).Seconds(), 2)
		})
	}
}

func TestFindCreated_TimeOfTheNote_IsByTheServicesClock(t *testing.T) {
	t.Parallel()
	const before = "a note has this recording, but was created before"
	type test struct {
		zone     time.Duration // the service's times are local, and do not say so
		machine  time.Duration // how far the clock was ahead of the machine that sent it
		returned bool          // a Create before has shown the service's times
		made     time.Duration // before it was sent
		want     string        // empty: found
	}
	timedSubtests(t, map[string]test{
		"a zone that was shown":         {zone: -5 * time.Hour, returned: true},
		"sent by a fast clock":          {machine: time.Hour},
		"sent by a slow clock":          {machine: -time.Hour},
		"older, sent by a slow clock":   {machine: -time.Hour, made: 55 * time.Minute, want: before},
		"older by minutes":              {made: 5 * time.Minute, want: before},
		"older, sent by a fast clock":   {machine: time.Hour, made: 5 * time.Minute, want: before},
		"older, in a zone that shown":   {zone: -5 * time.Hour, returned: true, made: 5 * time.Hour, want: notCreated},
		"younger, sent by a fast clock": {machine: time.Hour, made: -5 * time.Minute},
	}, func(t *testing.T, tt test) {
		s := newFakeService(t)
		client := s.client()
		s.zone = tt.zone
		time.Sleep(7 * time.Second) // a whole quarter of an hour may be a date alone
		if tt.returned {
			s.returned(client)
		}
		s.post = s.timingOut
		time.Sleep(time.Minute)
		lost := lose(t, client, visit())
		own := s.keep(visited().ago(tt.made))
		time.Sleep(2 * time.Hour)
		askers := map[*clinicaldoc.Client]*lostCreate{s.client(): restored(t, lost, sentByAClock(t, tt.machine))}
		if tt.machine == 0 {
			askers[client] = lost
		}
		for client, lost := range askers {
			find(t, client, lost).is(cmp.Or(tt.want, found), own)
		}
	})
}

// A time without a zone may be the local time of any place, so a note that seems hours older may be the one that was
// created.
func TestFindCreated_TimeWithoutAZone_RulesNothingOut(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		"2006-01-02 15:04:05": mayBeIt, "2006-01-02T15:04:05.000000": mayBeIt, "2006-01-02T15:04:05Z": notCreated,
	} {
		timedSubtest(t, format, func(t *testing.T) {
			s, client, lost := loseVisit(t)
			s.list = func(_ []string, r *http.Request) string {
				made := lost.SentAt.Add(-5 * time.Hour).UTC().Format(format)
				return numbered(
					[]string{fmt.Sprintf(`{"id":5,"name":"n","patient":{"id":4711},"created_at":%q}`, made)}, r)
			}
			findWith(t, client, lost, findParams{WithoutAudio: true}).is(want, 0)
		})
	}
}

// A date alone is up to a day before the note was made, in addition to the hours of the zone.
func TestFindCreated_DateAlone_RulesNothingOut(t *testing.T) {
	t.Parallel()
	for date, want := range map[string]string{
		"2000-01-01": mayBeIt, "1999-12-31": mayBeIt, "1999-12-30": notCreated,
	} {
		timedSubtest(t, date, func(t *testing.T) {
			time.Sleep(10 * time.Hour) // since midnight of the year 2000
			s, client, lost := loseVisit(t)
			s.list = func(_ []string, r *http.Request) string {
				const note = `{"id":5,"name":"n","patient":{"id":4711},"created_at":%q}`
				return numbered([]string{fmt.Sprintf(note, date)}, r)
			}
			findWith(t, client, lost, findParams{WithoutAudio: true}).is(want, 0)
		})
	}
}

// A service may use the ID of a deleted note again on the same day. A date alone does not show which note it is.
func TestFindCreated_IDUsedAgainOnTheSameDate_ExplainsNothing(t *testing.T) {
	t.Parallel()
	for _, date := range []string{"2000-01-01", "2000-01-01T00:00:00Z", "2000-01-02"} {
		timedSubtest(t, date, func(t *testing.T) {
			time.Sleep(time.Hour) // since midnight of the year 2000
			s := newFakeService(t)
			client := s.client()
			const row = `{"id":5,"name":"n","patient":{"id":4711},"created_at":%q}`
			note := fmt.Sprintf(row, date)
			s.post = func(r *http.Request, _ fakeNote) (*http.Response, error) {
				return s.respond(r, http.StatusCreated, note), nil
			}
			must(client.Notes.Create(t.Context(), visitOf(otherSound)))(t) // somebody deletes this note
			s.post = nil
			time.Sleep(time.Hour)
			lost := lose(t, client, visit())
			s.list = func(_ []string, r *http.Request) string { return numbered([]string{note}, r) }
			findWith(t, client, lost, findParams{WithoutAudio: true}).is(mayBeIt, 0)
		})
	}
}

// A date alone may come with a zone, so it looks like a time. A create at the beginning of a day shows no difference.
func TestFindCreated_DateAloneWithAZone_RulesNothingOut(t *testing.T) {
	t.Parallel()
	for date, want := range map[string]string{
		"2000-01-01T00:00:00.000000Z": mayBeIt, "2000-01-01T00:00:00+02:00": mayBeIt, "1999-12-30T00:00:00Z": notCreated,
	} {
		timedSubtest(t, date, func(t *testing.T) {
			const note = `{"id":%d,"name":"n","patient":{"id":4711},"created_at":%q}`
			time.Sleep(time.Minute) // since midnight of the year 2000
			s := newFakeService(t)
			client := s.client()
			s.post = func(r *http.Request, _ fakeNote) (*http.Response, error) {
				return s.respond(r, http.StatusCreated, fmt.Sprintf(note, 4, "2000-01-01T00:00:00Z")), nil
			}
			must(client.Notes.Create(t.Context(), visitOf(otherSound)))(t)
			s.post = nil
			time.Sleep(10 * time.Hour)
			lost := lose(t, client, visit())
			s.list = func(_ []string, r *http.Request) string {
				return numbered([]string{fmt.Sprintf(note, 5, date)}, r)
			}
			findWith(t, client, lost, findParams{WithoutAudio: true}).is(want, 0)
		})
	}
}

// A program without a time may send the beginning of its clock, which says nothing about the note.
func TestFindCreated_TimeThatStandsForNone_RulesNothingOut(t *testing.T) {
	t.Parallel()
	for _, made := range []string{
		"1970-01-01 00:00:00", "1970-01-01T00:00:00.000000Z", "0001-01-01T00:00:00+01:00", "1900-01-01T00:00:00",
		"9999-12-31 23:59:59", "9999-12-31T23:59:59Z", "2000-01-09T00:00:01Z", // later than now
	} {
		timedSubtest(t, made, func(t *testing.T) {
			s, client, lost := loseVisit(t)
			s.list = func(_ []string, r *http.Request) string {
				const note = `{"id":5,"name":"n","patient":{"id":4711},"created_at":%q}`
				return numbered([]string{fmt.Sprintf(note, made)}, r)
			}
			findWith(t, client, lost, findParams{WithoutAudio: true}).is(mayBeIt, 0)
		})
	}
}

// If the sender's clock was never compared with the service's, it may have been wrong by hours.
func TestFindCreated_ClockNeverCompared_RulesNothingOut(t *testing.T) {
	t.Parallel()
	for name, compared := range map[string]bool{
		"never compared": false, "constructed": false, "constructed, no Date": false, "compared": true,
	} {
		timedSubtest(t, name, func(t *testing.T) {
			s := newFakeService(t)
			if compared {
				s.post = s.timingOut
			}
			lost := restored(t, lose(t, s.client(), visit()), nil)
			if strings.HasPrefix(name, "constructed") {
				lost = constructed()
			}
			s.noDate = strings.HasSuffix(name, "no Date")
			s.keep(visited().of(otherSound).ago(2 * time.Hour))
			for range 2 { // asked again, no more is known
				if compared {
					find(t, s.client(), lost).isNotCreated()
					continue
				}
				lost = restored(t, find(t, s.client(), lost).undecided("may be it"), nil)
			}
		})
	}
}

// Candidates are the notes that a person has to compare, the nearest in time first.
func TestFindCreated_Candidates_AreNearestFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		s.post = s.committing
		must(client.Notes.Create(t.Context(), visitOf(otherSound)))(t) // note 1, which is explained
		s.post = nil
		time.Sleep(time.Minute)
		lost := lose(t, client, visit())
		for _, seconds := range []int{-300, 60, -20, 10, 180} { // notes 2 to 6
			s.keep(visited().named(canary).of(otherSound).ago(-time.Duration(seconds) * time.Second))
		}
		s.keep(earlier().ago(time.Hour)) // note 7, which is older
		undecided := find(t, client, lost).undecided("; compare it with note 5 of 2000-01-01T00:01:10Z, " +
			"note 4 of 2000-01-01T00:00:40Z, note 3 of 2000-01-01T00:02:00Z, note 6 of 2000-01-01T00:04:00Z, " +
			"note 2 of 1999-12-31T23:56:00Z")
		assert.Equal(t, []int64{5, 4, 3, 6, 2}, undecided.Candidates)
		assert.NotContains(t, undecided.Error(), canary)
		assert.NotContains(t, fmt.Sprintf("%+v", undecided), canary)
		assert.Empty(t, lost.Candidates, "the caller's error is not changed")

		again := restored(t, undecided, nil)
		assert.Equal(t, undecided.Candidates, again.Candidates)
		assert.Equal(t, undecided.Error(), again.Error())

		// A person decides: none of them is it.
		var exclude []*clinicaldoc.ProgressNote
		for _, id := range undecided.Candidates {
			exclude = append(exclude, &clinicaldoc.ProgressNote{ID: id})
		}
		findWith(t, client, undecided, excluding(exclude...)).isNotCreated()
	})
}

func TestFindCreated_Candidates_AreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, client, lost := loseVisit(t)
		for i := range 120 {
			s.keep(visited().of(otherSound).ago(-time.Duration(i) * time.Second))
		}
		untimed := visited().of(otherSound)
		untimed.made = time.Time{}
		s.keep(untimed)
		params := findParams{WithoutAudio: true}
		undecided := findWith(t, client, lost, params).undecided("note 5 of 2000-01-01T00:00:04Z, 116 more")
		require.Len(t, undecided.Candidates, 100)
		assert.EqualValues(t, 1, undecided.Candidates[0])
		assert.EqualValues(t, 100, undecided.Candidates[99])

		// Those of a search before do not stay.
		s.notes = nil
		undecided.LostAt = time.Time{}
		assert.Empty(t, findFor(t, time.Second, s.client(), undecided).undecided("no note yet").Candidates)
	})
}

func TestFindCreated_FiveCandidates_AreAllNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, client, lost := loseVisit(t)
		for range 5 {
			s.keep(visited().of(otherSound))
		}
		undecided := findWith(t, client, lost, findParams{WithoutAudio: true}).undecided("note 5 of ")
		require.Len(t, undecided.Candidates, 5)
		assert.NotContains(t, undecided.Error(), " more")
	})
}

func TestFindCreated_LostCreateNobodyAskedAbout_Counts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lose(t, client, visit())
		time.Sleep(time.Second)
		second := lose(t, client, visit())
		s.keep(visited())
		find(t, client, second).isUndecided("another create whose outcome is unknown may have made it")
	})
}

// The list of a replica may not show the note whose id the response contained. A person renamed it, so its recording
// decides.
func TestFindCreated_IDOfANoteNotListed_IsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		lost := constructed()
		lost.NoteID = s.keep(visited().named("Other"))
		s.list = func(_ []string, r *http.Request) string { return numbered(nil, r) }
		find(t, s.client(), lost).isNote(lost.NoteID)
	})
}

// A token may belong to another user at another tenant.
func TestFindCreated_UserOfAnotherTenant_IsNotTheSender(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		_, err := client.Users.Me(t.Context(), clinicaldoc.WithHeader("X-Team", "one"))
		require.NoError(t, err)
		for team, user := range map[string]int64{"one": fakeUser, "two": 0} {
			lost := lose(t, client, visit(), clinicaldoc.WithHeader("X-Team", team))
			assert.Equal(t, user, lost.UserID, team)
		}
	})
}

// How late the service's times of creation are may become known only after the response was lost.
func TestFindCreated_LaterCreate_ShowsTheTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, client, lost := loseVisit(t)
		s.zone = -5 * time.Hour
		s.returned(client)
		own := s.keep(visited())
		find(t, client, lost).isNote(own)
	})
}

// The clocks are compared when the response arrives. The service may have made the note when the request began.
func TestFindCreated_LongUpload_NoteMayBeOlder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const took = 10 * time.Minute
		s := newFakeService(t)
		s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) {
			time.Sleep(took)
			return s.timingOut(r, sent)
		}
		lost := lose(t, s.client(clinicaldoc.WithStallTimeout(time.Hour)), visit())
		own := s.keep(visited().ago(took))
		find(t, s.client(), restored(t, lost, nil)).isNote(own)
	})
}

// A service may give local times as if they were UTC. Until a create has shown how its times compare, hours prove
// nothing.
func TestFindCreated_TimesNeverShown_ProveNothing(t *testing.T) {
	t.Parallel()
	timedSubtests(t, map[string]string{"never shown": mayBeIt, "shown": notCreated}, func(t *testing.T, want string) {
		s := newFakeService(t)
		client := clientOn(t, s.httpClient())
		if want == notCreated {
			tryTimes(t, client)
		}
		lost := lose(t, client, visit())
		s.keep(visited().of(otherSound).ago(2 * time.Hour))
		find(t, client, lost).is(want, 0)
	})
}

// Candidates does not contain a note that was deleted meanwhile, because nobody can compare it.
func TestFindCreated_Candidates_Exist(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, client, lost := loseVisit(t)
		gone := s.keep(visited().of(otherSound))
		left := s.keep(visited().of(otherSound))
		s.onList = func() {
			if s.lists == 2 { // before the third page
				s.change(gone, func(n *fakeNote) { n.id = 0 })
			}
		}
		assert.Equal(t, []int64{left}, find(t, client, lost).undecided("may be it").Candidates)
	})
}

// The service's clock is ahead, so by ours the earlier note would be the nearest.
func TestFindCreated_Candidates_AreSortedByTheServicesClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		s.ahead = 5 * time.Minute
		client := s.client()
		lost := lose(t, client, visit())
		before := s.keep(visited().of(otherSound).ago(2 * time.Minute))
		after := s.keep(visited().of(otherSound).ago(-time.Minute))
		assert.Equal(t, []int64{after, before}, find(t, client, lost).undecided("may be it").Candidates)
	})
}

func TestOutcomeUnknownError_JSON_RoundTrips(t *testing.T) {
	t.Parallel()
	_, _, lost := loseVisit(t)
	assert.EqualValues(t, 5, lost.AudioSize)
	assert.WithinRange(t, lost.LostAt, lost.SentAt, time.Now())
	lost.NoteID = 9
	lost.Candidates = []int64{7, 8}
	for _, value := range []any{lost, *lost} {
		stored := must(json.Marshal(value))(t)
		var members map[string]any
		require.NoError(t, json.Unmarshal(stored, &members))
		want := map[string]any{
			"params":     map[string]any{"name": "Visit", "patient_id": float64(fakePatient), "prompt_id": 3.0},
			"sent_at":    lost.SentAt.UTC().Format(time.RFC3339Nano),
			"lost_at":    lost.LostAt.UTC().Format(time.RFC3339Nano),
			"audio_size": 5.0, "audio_sha256": soundSHA256, "note_id": 9.0, "candidates": []any{7.0, 8.0},
			"error": lost.Err.Error(), "id": lost.ID, "service": testBase, "user_id": 0.0,
			"token_fingerprint": members["token_fingerprint"], "times_tried": true, "clock_unknown": true,
		}
		assert.Equal(t, want, members)
		assert.Len(t, members["token_fingerprint"], 32)

		var again lostCreate
		require.NoError(t, json.Unmarshal(stored, &again))
		assert.Equal(t, lost.Error(), again.Error())
		assert.Equal(t, lost.Candidates, again.Candidates)
		require.ErrorIs(t, &again, clinicaldoc.ErrOutcomeUnknown)
		encoded := must(json.Marshal(again))(t)
		assert.JSONEq(t, string(stored), string(encoded))
		assert.True(t, again.SentAt.Equal(lost.SentAt))
	}
}

func TestOutcomeUnknownError_JSONOfTheVersionBefore_IsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		const stored = `{"params":{"name":"Visit","patient_id":4711,"prompt_id":3},
			"sent_at":"2000-01-01T00:00:00.345Z","lost_at":"2000-01-01T00:00:00.345Z","audio_size":5,"note_id":0,
			"id":"SYNTHETIC","service":"` + testBase + `","user_id":2,"audio_sha256":"` + soundSHA256 + `",
			"token_fingerprint":"00000000000000000000000000000000","audio_type":"audio/wav","where":"",
			"clock_read_at":"2000-01-01T00:00:00Z","service_clock":"2000-01-01T00:00:00Z","late_seconds":0,
			"control":{"note":{"id":7,"made":946684800},"size":5,"sha256":"` + soundSHA256 + `"},
			"error":"clinicaldoc: Notes.Create (POST /v1/progress-notes): no response"}`
		lost := new(lostCreate)
		require.NoError(t, json.Unmarshal([]byte(stored), lost))
		assert.Equal(t, "SYNTHETIC", lost.ID)
		time.Sleep(time.Second)
		find(t, s.client(), lost).isUndecided("another user") // /user did not name the user_id of that version
		id := s.keep(visited())
		find(t, s.client(), lost).isNote(id)
	})
}

func TestOutcomeUnknownError_JSON_HasOnlySafeTexts(t *testing.T) {
	t.Parallel()
	stored := must(json.Marshal(lostCreate{SentAt: time.Now(), Err: errors.New("Canary")}))(t)
	assert.NotContains(t, string(stored), "Canary")

	var again lostCreate
	const oldest = `{"params":{"name":"Visit","patient_id":7},"sent_at":"2026-01-02T12:00:00Z","other":1}`
	require.NoError(t, json.Unmarshal([]byte(oldest), &again))
	require.NoError(t, again.Err)
	assert.Zero(t, again.LostAt)
	assert.EqualValues(t, 7, again.Params.PatientID)
	require.Error(t, json.Unmarshal([]byte(`{"sent_at":"soon"}`), &again))
	assert.EqualValues(t, 7, again.Params.PatientID, "what cannot be read changes nothing")
}

// An id in the body of a failure is not a note's.
func TestOutcomeUnknownError_Failure_HasNoNoteID(t *testing.T) {
	t.Parallel()
	s := newFakeService(t)
	s.post = func(r *http.Request, _ fakeNote) (*http.Response, error) {
		return s.respond(r, http.StatusInternalServerError, `{"id":7,"name":"Visit"}`), nil
	}
	lost := lose(t, s.client(), visit())
	assert.Zero(t, lost.NoteID)
	params := visit()
	params.Audio = nil
	assert.Zero(t, lose(t, s.client(), params).AudioSize)
}

func TestOutcomeUnknownError_Text_GivesOneAdvice(t *testing.T) {
	t.Parallel()
	s := newFakeService(t)
	s.post = func(r *http.Request, _ fakeNote) (*http.Response, error) {
		resp := s.respond(r, http.StatusServiceUnavailable, "")
		resp.Header.Set("Retry-After", "30")
		return resp, nil
	}
	const failed = "the service, or a proxy before it, failed; "
	lost := lose(t, s.client(), visit())
	assert.Equal(t, "clinicaldoc: Notes.Create (POST /v1/progress-notes): 503 Service Unavailable: "+failed+
		"the note may or may not exist: call Notes.FindCreated before creating it again", lost.Error())

	client := serve(t, call{method: "POST", url: "/v1/teams", status: http.StatusBadGateway})
	err := client.Do(t.Context(), http.MethodPost, "/v1/teams", nil, nil)
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	require.EqualError(t, err, "clinicaldoc: Do (POST /v1/teams): 502 Bad Gateway: "+failed+
		"it may or may not have been carried out: check before sending it again")
}

func TestFindCreated_OnEveryVariant(t *testing.T) {
	t.Parallel()
	for _, variant := range clinicaldoctest.Variants() {
		timedSubtest(t, variant.Name, func(t *testing.T) {
			srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess(), clinicaldoctest.WithVariant(variant))
			defer srv.Close()
			srv.AddPatient(clinicaldoctest.Patient{ID: 7})
			params := visit()
			params.PatientID = 7
			params.PromptID = 1
			find := findParams{TrustPatientFilter: variant.Patient == clinicaldoctest.PatientUnnamed}
			client := srv.Client()

			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
			lost := lose(t, client, params)
			note, err := client.Notes.FindCreated(t.Context(), lost, find)
			if err != nil { // its recording is not kept as it was sent
				requireUndecided(t, note, err, "")
				find.UniqueName = true
				note, err = client.Notes.FindCreated(t.Context(), lost, find)
			}
			require.NoError(t, err)
			assert.EqualValues(t, 1, note.ID)
			assert.Equal(t, variant.Audio == clinicaldoctest.AudioAsSent, !find.UniqueName)

			params.Name = "Another"
			time.Sleep(48 * time.Hour)
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
			lost = lose(t, client, params)
			findWith(t, client, lost, find).isNotCreated()
			assert.Equal(t, defaultSettle, time.Since(lost.LostAt))
		})
	}
}
