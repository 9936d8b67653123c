package ingest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// shelf is what a test of [ingest.Retention] needs: a file with a recording, a service, and a journal that an upload
// has written.
type shelf struct {
	t         *testing.T
	srv       *clinicaldoctest.Server
	client    *clinicaldoc.Client
	path      string // of the journal
	recording ingest.Recording
	listed    []ingest.Recording // that are checked
}

func newShelf(t *testing.T, opts ...clinicaldoctest.Option) *shelf {
	t.Helper()
	srv := newBox(t, opts...)
	file := files(t, 1)[0]
	s := &shelf{t: t, srv: srv, client: srv.Client(quick()), path: journalPath(t)}
	s.recording = ingest.Recording{File: file, Params: paramsOf(file)}
	owner, err := ingest.OwnerOf(t.Context(), s.client)
	require.NoError(t, err)
	journal, err := ingest.BeginJournal(t.Context(), s.path, owner)
	require.NoError(t, err)
	require.NoError(t, journal.Close())
	return s
}

// letter is the same recording, wanted as another note.
func (s *shelf) letter() ingest.Recording {
	letter := s.recording
	letter.Params.Name = "Letter"
	return letter
}

// withJournal opens the journal for the time of one call.
func (s *shelf) withJournal(do func(journal *ingest.FileJournal, binding ingest.Binding)) {
	s.t.Helper()
	journal, err := ingest.OpenJournal(s.t.Context(), s.path)
	require.NoError(s.t, err)
	owner, err := ingest.OwnerOf(s.t.Context(), s.client)
	require.NoError(s.t, err)
	binding, err := journal.Bind(s.t.Context(), owner)
	require.NoError(s.t, err)
	do(journal, binding)
	require.NoError(s.t, journal.Close())
}

// upload uploads the recordings, which are checked from now on, and gives the service a minute to process them.
func (s *shelf) upload(recordings ...ingest.Recording) {
	s.t.Helper()
	s.listed = recordings
	s.withJournal(func(journal *ingest.FileJournal, _ ingest.Binding) {
		uploader := &ingest.Uploader{Client: s.client, Journal: journal, MaxWait: -1, SkipRecordingCheck: true}
		require.NoError(s.t, uploader.RunAll(s.t.Context(), ingest.Recordings(recordings...)).Err)
	})
	s.srv.Advance(time.Minute)
}

// runWith uploads the recordings that are listed, with an uploader that the function changes.
func (s *shelf) runWith(change func(u *ingest.Uploader)) (report *ingest.Report) {
	s.t.Helper()
	s.withJournal(func(journal *ingest.FileJournal, _ ingest.Binding) {
		uploader := &ingest.Uploader{Client: s.client, Journal: journal, MaxWait: -1, SkipRecordingCheck: true}
		change(uploader)
		report = uploader.RunAll(s.t.Context(), ingest.Recordings(s.listed...))
	})
	return report
}

// edit changes what the journal knows of a recording.
func (s *shelf) edit(recording ingest.Recording, change func(e *ingest.Entry)) {
	s.t.Helper()
	s.withJournal(func(journal *ingest.FileJournal, binding ingest.Binding) {
		recording, err := recording.WithKey()
		require.NoError(s.t, err)
		described := binding.Describe(recording)
		claim, err := journal.Claim(s.t.Context(), described.Key)
		require.NoError(s.t, err)
		e := claim.Entry()
		if e.State == ingest.StateClaimed {
			e = described
		}
		change(&e)
		require.NoError(s.t, claim.Save(s.t.Context(), e))
		claim.Release()
	})
}

// forgetHash makes the recording's entry one of an older version, which did not keep the hash.
func (s *shelf) forgetHash(recording ingest.Recording) {
	s.t.Helper()
	var key string
	s.withJournal(func(_ *ingest.FileJournal, binding ingest.Binding) {
		recording, err := recording.WithKey()
		require.NoError(s.t, err)
		key = binding.Key(recording.Key).String()
	})
	hash := regexp.MustCompile(` sha=\S+`)
	rewrite(s.t, s.path, func(text string) string {
		if !strings.Contains(text, key) {
			return text
		}
		return hash.ReplaceAllString(text, "")
	})
}

func (s *shelf) check(client *clinicaldoc.Client) ([]ingest.RetentionStatus, error) {
	s.t.Helper()
	journal, err := ingest.OpenReadOnlyJournal(s.t.Context(), s.path)
	require.NoError(s.t, err)
	retention := &ingest.Retention{Client: client, Journal: journal, Within: 48 * time.Hour}
	return retention.Check(s.t.Context(), s.listed)
}

// clientOf is a client with another token.
func (s *shelf) clientOf(token string) *clinicaldoc.Client {
	s.t.Helper()
	client, err := clinicaldoc.NewClient(s.srv.URL, token, quick())
	require.NoError(s.t, err)
	return client
}

// note is the id of the first note that was created.
func (s *shelf) note() int64 { return s.srv.Created()[0].NoteID }

func (s *shelf) deleteNote(id int64) {
	s.t.Helper()
	_, err := s.client.Notes.Delete(s.t.Context(), id)
	require.NoError(s.t, err)
}

func (s *shelf) write(content string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(s.recording.File, []byte(content), 0o600))
}

func TestRetention_CompleteNote_IsDeletable(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(s *shelf){
		"complete": func(s *shelf) { s.upload(s.recording) },
		"with a key of its own": func(s *shelf) {
			s.recording.Key = "encounter 1"
			s.upload(s.recording)
		},
		"signed": func(s *shelf) {
			s.upload(s.recording)
			_, err := s.client.Notes.Sign(s.t.Context(), s.note())
			require.NoError(s.t, err)
		},
		"two notes": func(s *shelf) { s.upload(s.recording, s.letter()) },
		"the journal has forgotten the content, of which the key is made": func(s *shelf) {
			s.upload(s.recording)
			s.forgetHash(s.recording)
		},
		"another recording of the patient is unresolved": func(s *shelf) {
			s.upload(s.recording)
			other := s.recording
			other.File = filepath.Join(s.t.TempDir(), "other.wav")
			require.NoError(s.t, os.WriteFile(other.File, []byte("RIFF another recording"), 0o600))
			s.edit(other, func(e *ingest.Entry) { e.State = ingest.StateInDoubt })
		},
		"it was sent again": func(s *shelf) {
			s.srv.ScriptNext(failure())
			s.upload(s.recording)
			s.withJournal(func(journal *ingest.FileJournal, _ ingest.Binding) {
				entries := readEntries(s.t, s.path)
				uploader := &ingest.Uploader{Client: s.client, Journal: journal}
				decision := ingest.Resolution{SendAgain: true, By: "a test"}
				require.NoError(s.t, uploader.Resolve(s.t.Context(), entries[0].Key, decision))
			})
			s.upload(s.recording)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShelf(t)
			prepare(s)
			statuses, err := s.check(s.client)
			require.NoError(t, err)
			require.Len(t, statuses, len(s.listed))
			for _, status := range statuses {
				require.NoError(t, status.Err)
				assert.True(t, status.Deletable)
				assert.True(t, status.Stage.AtLeast(clinicaldoc.StageComplete))
				assert.NotZero(t, status.NoteID)
				assert.Equal(t, ingest.ExpiresLater, status.Expiry)
			}
			assert.FileExists(t, s.recording.File)
		})
	}
}

const refusal = `{"message":"no"}`

// keptCases are what makes deleting the recording a harm, with what the error of the first recording matches.
var keptCases = map[string]struct {
	prepare func(s *shelf)
	matches error // nil: nothing in particular
}{
	"its note was deleted": {func(s *shelf) {
		s.upload(s.recording)
		s.deleteNote(s.note())
	}, clinicaldoc.ErrNotFound},
	"its note was deleted, and another one has its id": {func(s *shelf) {
		variant := s.srv.Variant()
		variant.ReuseIDs = true
		s.srv.SetVariant(variant)
		s.upload(s.recording)
		id := s.note()
		s.deleteNote(id)
		s.srv.Advance(time.Minute)
		another := s.recording.Params
		another.Audio = clinicaldoc.AudioBytes("a.wav", sound(0))
		note, err := s.client.Notes.Create(s.t.Context(), another)
		require.NoError(s.t, err)
		require.Equal(s.t, id, note.ID)
	}, clinicaldoc.ErrNotFound},
	"its processing failed": {func(s *shelf) {
		s.srv.ScriptNext(failure())
		s.upload(s.recording)
	}, clinicaldoc.ErrProcessingFailed},
	"it is being processed": {func(s *shelf) {
		s.srv.SetDelays(transcribingFor(time.Hour))
		s.upload(s.recording)
	}, nil},
	"it is in doubt": {func(s *shelf) {
		s.upload(s.recording)
		s.edit(s.recording, func(e *ingest.Entry) { e.State = ingest.StateInDoubt })
	}, clinicaldoc.ErrOutcomeUnknown},
	"it was being sent when its process ended": {func(s *shelf) {
		s.upload(s.recording)
		s.edit(s.recording, func(e *ingest.Entry) { e.State = ingest.StateCommitting })
	}, clinicaldoc.ErrOutcomeUnknown},
	"it was refused": {func(s *shelf) {
		s.srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(http.StatusUnprocessableEntity, refusal))
		s.upload(s.recording)
	}, nil},
	"it was never uploaded":        {func(s *shelf) { s.listed = []ingest.Recording{s.recording} }, nil},
	"it is listed for another one": {func(s *shelf) { s.upload(s.recording); s.listed[0].Params.PatientID++ }, nil},
	"its key was used for another patient": {func(s *shelf) {
		s.recording.Key = "encounter 1"
		s.upload(s.recording)
		s.listed[0].Params.PatientID++
	}, ingest.ErrKeyReused},
	"its file has changed": {func(s *shelf) {
		s.upload(s.recording)
		s.write("RIFF another recording")
	}, nil},
	"its file has changed, and not its key or size": {func(s *shelf) {
		s.recording.Key = "encounter 1"
		s.upload(s.recording)
		content := sound(0)
		content[len(content)-1]++
		s.write(string(content))
	}, nil},
	"its file is not the one that the caller means": {func(s *shelf) {
		s.recording.Key = "encounter 1"
		s.upload(s.recording)
		s.listed[0].SHA256 = fmt.Sprintf("%064d", 7)
	}, nil},
	"its file is gone": {func(s *shelf) {
		s.recording.Key = "encounter 1"
		s.upload(s.recording)
		require.NoError(s.t, os.Remove(s.recording.File))
	}, os.ErrNotExist},
	"the journal has forgotten its content": {func(s *shelf) {
		s.recording.Key = "encounter 1"
		s.upload(s.recording)
		s.forgetHash(s.recording)
	}, nil},
	"its note was found by its name": {func(s *shelf) {
		s.srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: s.recording.Params.Name, Audio: []byte("RIFF half")})
		s.listed = []ingest.Recording{s.recording}
		report := s.runWith(func(u *ingest.Uploader) { u.Find.UniqueName = true })
		require.Equal(s.t, 1, report.Count(ingest.Complete))
	}, nil},
	"it was never sent, and a person named its note": {func(s *shelf) {
		params := s.recording.Params
		note := s.srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: params.Name, Audio: []byte("RIFF half")})
		s.listed = []ingest.Recording{s.recording}
		report := s.runWith(func(*ingest.Uploader) {})
		require.Equal(s.t, 1, report.Count(ingest.InDoubt))
		s.withJournal(func(journal *ingest.FileJournal, _ ingest.Binding) {
			uploader := &ingest.Uploader{Client: s.client, Journal: journal}
			decision := ingest.Resolution{NoteID: note, By: person}
			require.NoError(s.t, uploader.Resolve(s.t.Context(), report.Results[0].JournalKey, decision))
		})
	}, nil},
	"the journal does not know when its note was created": {func(s *shelf) {
		s.upload(s.recording)
		s.edit(s.recording, func(e *ingest.Entry) { e.NoteCreatedAt = time.Time{} })
	}, nil},
	"the journal names another patient's note": {func(s *shelf) {
		s.upload(s.recording)
		created := s.srv.Now()
		id := s.srv.AddNote(clinicaldoctest.Note{PatientID: 99, CreatedAt: created})
		s.edit(s.recording, func(e *ingest.Entry) {
			e.NoteID = id
			e.NoteCreatedAt = created
		})
	}, clinicaldoc.ErrPatientMismatch},
	"its note does not say whose it is": {func(s *shelf) {
		s.upload(s.recording)
		variant := s.srv.Variant()
		variant.Patient = clinicaldoctest.PatientUnnamed
		s.srv.SetVariant(variant)
	}, clinicaldoc.ErrPatientMismatch},
	"its note may not be read": {func(s *shelf) {
		s.upload(s.recording)
		s.srv.Inject(clinicaldoctest.RouteGetNote, clinicaldoctest.Answer(http.StatusForbidden, refusal).Always())
	}, clinicaldoc.ErrForbidden},
	"a second note of it is listed and was not made": {func(s *shelf) {
		s.upload(s.recording)
		s.listed = append(s.listed, s.letter())
	}, nil},
	"a second note of it is listed and failed": {func(s *shelf) {
		s.upload(s.recording)
		s.srv.ScriptNext(failure())
		s.upload(s.letter())
		s.listed = []ingest.Recording{s.recording, s.letter()}
	}, clinicaldoc.ErrProcessingFailed},
	"a second note of it was deleted": {func(s *shelf) {
		s.upload(s.recording)
		s.upload(s.letter())
		s.deleteNote(s.srv.Created()[1].NoteID)
		s.listed = []ingest.Recording{s.recording}
	}, clinicaldoc.ErrNotFound},
	"a second note of it was refused": {func(s *shelf) {
		s.upload(s.recording)
		s.srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(http.StatusUnprocessableEntity, refusal))
		s.upload(s.letter())
		s.listed = []ingest.Recording{s.recording}
	}, nil},
	"a second note of it, of another patient, is in doubt": {func(s *shelf) {
		s.upload(s.recording)
		other := s.letter()
		other.Params.PatientID++
		s.edit(other, func(e *ingest.Entry) { e.State = ingest.StateInDoubt })
	}, clinicaldoc.ErrOutcomeUnknown},
	"a note that may be a second one of it failed": {func(s *shelf) {
		s.upload(s.recording)
		s.srv.ScriptNext(failure())
		s.upload(s.letter())
		s.forgetHash(s.letter())
		s.listed = []ingest.Recording{s.recording}
	}, clinicaldoc.ErrProcessingFailed},
	"a copy of it is listed and was not uploaded": {func(s *shelf) {
		s.upload(s.recording)
		other := s.letter()
		other.File = filepath.Join(s.t.TempDir(), "copy.wav")
		require.NoError(s.t, os.WriteFile(other.File, sound(0), 0o600))
		s.listed = append(s.listed, other)
	}, nil},
}

func TestRetention_WhateverNeedsTheRecording_KeepsIt(t *testing.T) {
	t.Parallel()
	for name, c := range keptCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShelf(t)
			c.prepare(s)
			statuses, err := s.check(s.client)
			require.NoError(t, err)
			require.Len(t, statuses, len(s.listed))
			status := statuses[0]
			assert.False(t, status.Deletable)
			require.Error(t, status.Err)
			if c.matches != nil {
				require.ErrorIs(t, status.Err, c.matches)
			}
			text := fmt.Sprint(status, status.Err)
			assert.NotContains(t, text, filepath.Base(s.recording.File))
			assert.NotContains(t, text, filepath.Dir(s.recording.File))
		})
	}
}

// If a journal cannot list all entries, Check reads the entries of the recordings' patients.
func TestRetention_AnyJournal_IsRead(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.upload(s.recording, s.letter())
	s.withJournal(func(journal *ingest.FileJournal, _ ingest.Binding) {
		for name, reader := range map[string]ingest.JournalReader{
			"a file": journal, "another kind": struct{ ingest.JournalReader }{journal},
		} {
			retention := &ingest.Retention{Client: s.client, Journal: reader}
			statuses, err := retention.Check(t.Context(), s.listed)
			require.NoError(t, err, name)
			require.Len(t, statuses, 2, name)
			assert.True(t, statuses[0].Deletable && statuses[1].Deletable, name)
		}
		s.deleteNote(s.srv.Created()[1].NoteID)
		for name, reader := range map[string]ingest.JournalReader{
			"a file": journal, "another kind": struct{ ingest.JournalReader }{journal},
		} {
			retention := &ingest.Retention{Client: s.client, Journal: reader}
			statuses, err := retention.Check(t.Context(), s.listed[:1])
			require.NoError(t, err, name)
			assert.False(t, statuses[0].Deletable, name)
		}
	})
}

// While a run has the journal, a check neither waits for it nor keeps it.
func TestRetention_ReadOnlyJournal_DoesNotNeedTheLock(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.upload(s.recording)
	before := read(t, s.path)
	s.withJournal(func(*ingest.FileJournal, ingest.Binding) {
		statuses, err := s.check(s.client)
		require.NoError(t, err)
		assert.True(t, statuses[0].Deletable)
	})
	after := read(t, s.path)
	assert.Equal(t, before, after)
}

// impossibleChecks are clients with which no recording can be checked, with what the error matches.
var impossibleChecks = map[string]struct {
	client  func(s *shelf) *clinicaldoc.Client
	matches error
}{
	"another user's journal": {func(s *shelf) *clinicaldoc.Client {
		user := s.srv.AddUser(clinicaldoctest.User{})
		token := s.srv.AddToken(user.ID, "another").Secret
		return s.clientOf(token)
	}, ingest.ErrOtherUser},
	"another tenant's journal": {func(s *shelf) *clinicaldoc.Client {
		return s.srv.Client(quick(), clinicaldoc.WithHeaders(http.Header{"X-Tenant": {"b"}}))
	}, ingest.ErrOtherService},
	"another service's journal": {func(s *shelf) *clinicaldoc.Client {
		return newBox(s.t).Client(quick())
	}, ingest.ErrOtherService},
	"the token is refused": {func(s *shelf) *clinicaldoc.Client {
		return s.clientOf("expired")
	}, clinicaldoc.ErrUnauthorized},
	"the token expires meanwhile": {func(s *shelf) *clinicaldoc.Client {
		refused := clinicaldoctest.Answer(http.StatusUnauthorized, `{"message":"Unauthorized"}`)
		s.srv.Inject(clinicaldoctest.RouteGetNote, refused.Always())
		return s.client
	}, clinicaldoc.ErrUnauthorized},
	"the service fails": {func(s *shelf) *clinicaldoc.Client {
		s.srv.Inject(clinicaldoctest.RouteGetNote, clinicaldoctest.Answer(http.StatusServiceUnavailable, "").Always())
		return s.client
	}, clinicaldoc.ErrServer},
	"the service is gone": {func(s *shelf) *clinicaldoc.Client {
		s.srv.Close()
		return s.client
	}, nil},
	"the audit trail fails": {func(s *shelf) *clinicaldoc.Client {
		return s.srv.Client(quick(), clinicaldoc.WithAudit((&auditLog{fails: true}).tell))
	}, clinicaldoc.ErrNotAudited},
}

func TestRetention_CheckImpossible_ReturnsErrorOnly(t *testing.T) {
	t.Parallel()
	for name, c := range impossibleChecks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShelf(t)
			s.upload(s.recording)
			statuses, err := s.check(c.client(s))
			assert.Nil(t, statuses)
			require.Error(t, err)
			if c.matches != nil {
				require.ErrorIs(t, err, c.matches)
			}
		})
	}
}

func TestRetention_ContextEnds_IsAnError(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.upload(s.recording)
	journal, err := ingest.OpenReadOnlyJournal(t.Context(), s.path)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	client := s.srv.Client(quick(), clinicaldoc.WithAudit(func(context.Context, clinicaldoc.Access) error {
		cancel()
		return nil
	}))
	statuses, err := (&ingest.Retention{Client: client, Journal: journal}).Check(ctx, s.listed)
	assert.Nil(t, statuses)
	require.ErrorIs(t, err, context.Canceled)
}

func TestRetention_SenselessParams_AreRejected(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.withJournal(func(journal *ingest.FileJournal, _ ingest.Binding) {
		for _, retention := range []ingest.Retention{
			{Journal: journal}, {Client: s.client}, {Client: s.client, Journal: journal, Within: -1},
		} {
			_, err := retention.Check(t.Context(), nil)
			require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		}
	})
}

// Each note that Check reads is in the audit trail once.
func TestRetention_NotesThatAreRead_AreInTheTrail(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.upload(s.recording, s.letter())
	trail := &auditLog{}
	_, err := s.check(s.srv.Client(quick(), clinicaldoc.WithAudit(trail.tell)))
	require.NoError(t, err)
	told := map[int64]string{}
	for _, access := range trail.access {
		assert.Equal(t, "Notes.Get", access.Operation)
		assert.Equal(t, clinicaldoc.AccessDisclosed, access.Outcome)
		told[access.NoteID] = access.Operation
	}
	assert.Len(t, trail.access, 2)
	assert.Len(t, told, 2)
	for _, created := range s.srv.Created() {
		assert.Contains(t, told, created.NoteID)
	}
}

// A note that cannot be read does not affect the other recordings.
func TestRetention_OneNoteIsDeleted_OthersAreDeletable(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	paths := files(t, 3)
	var recordings []ingest.Recording
	for _, path := range paths {
		recordings = append(recordings, ingest.Recording{File: path, Params: paramsOf(path)})
	}
	s.upload(recordings...)
	statuses, err := s.check(s.client)
	require.NoError(t, err)
	s.deleteNote(statuses[1].NoteID)
	statuses, err = s.check(s.client)
	require.NoError(t, err)
	for i, status := range statuses {
		assert.Equal(t, i != 1, status.Deletable, status)
		assert.Equal(t, paths[i], status.Recording.File)
		assert.NotEmpty(t, status.Recording.SHA256)
	}
}

var expiresAt = regexp.MustCompile(`"expires_at":"[^"]*"`)

// rewriteExpiry makes the service report another expiry of its recordings.
func rewriteExpiry(member string) clinicaldoctest.Option {
	return clinicaldoctest.WithMiddleware(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			recorder := httptest.NewRecorder()
			next.ServeHTTP(recorder, r)
			body := expiresAt.ReplaceAll(recorder.Body.Bytes(), []byte(member))
			maps.Copy(w.Header(), recorder.Header())
			w.Header().Del("Content-Length")
			w.WriteHeader(recorder.Code)
			_, _ = io.Copy(w, bytes.NewReader(body))
		})
	})
}

func TestRetention_ServicesCopy_ExpiresAsTheServiceReports(t *testing.T) {
	t.Parallel()
	in := func(d time.Duration) string {
		return `"expires_at":"` + time.Now().Add(d).UTC().Format(time.RFC3339) + `"`
	}
	for name, c := range map[string]struct {
		member string
		want   ingest.Expiry
	}{
		"later":             {in(72 * time.Hour), ingest.ExpiresLater},
		"soon":              {in(24 * time.Hour), ingest.ExpiresSoon},
		"absent":            {`"other":1`, ingest.ExpiryUnknown},
		"null":              {`"expires_at":null`, ingest.ExpiryUnknown},
		"empty":             {`"expires_at":""`, ingest.ExpiryUnknown},
		"a word":            {`"expires_at":"never"`, ingest.ExpiryUnknown},
		"an object":         {`"expires_at":{"date":"2031-01-01"}`, ingest.ExpiryUnknown},
		"no such date":      {`"expires_at":"0000-00-00 00:00:00"`, ingest.ExpiryUnknown},
		"before the upload": {`"expires_at":"1970-01-01T00:00:00Z"`, ingest.ExpiryUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShelf(t, rewriteExpiry(c.member))
			s.upload(s.recording)
			statuses, err := s.check(s.client)
			require.NoError(t, err)
			assert.Equal(t, c.want, statuses[0].Expiry)
			assert.Equal(t, c.want == ingest.ExpiryUnknown, statuses[0].ExpiresAt.IsZero())
			assert.True(t, statuses[0].Deletable, "what the service does with its copy does not matter")
		})
	}
}

// A machine whose clock is behind must not take an expired recording for one that is still there.
func TestRetention_OurClockIsBehind_TheServicesCounts(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.upload(s.recording)
	s.srv.Advance(31 * 24 * time.Hour)
	statuses, err := s.check(s.client)
	require.NoError(t, err)
	assert.Equal(t, ingest.Expired, statuses[0].Expiry)
	assert.True(t, statuses[0].ExpiresAt.After(time.Now()))
}

func TestExpiryOf_AtEachBound(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(d time.Duration) *clinicaldoc.AudioInfo { return &clinicaldoc.AudioInfo{ExpiresAt: now.Add(d)} }
	for _, c := range []struct {
		audio  *clinicaldoc.AudioInfo
		within time.Duration
		want   ingest.Expiry
	}{
		{nil, time.Hour, ingest.ExpiryUnknown},
		{&clinicaldoc.AudioInfo{}, time.Hour, ingest.ExpiryUnknown},
		{&clinicaldoc.AudioInfo{UploadedAt: now, ExpiresAt: now}, time.Hour, ingest.ExpiryUnknown},
		{at(0), time.Hour, ingest.Expired},
		{at(1), time.Hour, ingest.ExpiresSoon},
		{at(time.Hour), time.Hour, ingest.ExpiresSoon},
		{at(time.Hour + 1), time.Hour, ingest.ExpiresLater},
		{at(1), 0, ingest.ExpiresLater},
	} {
		assert.Equal(t, c.want, ingest.ExpiryOf(c.audio, now, c.within), c)
	}
	var words []string
	for e := ingest.ExpiryUnknown; e <= ingest.Expired+1; e++ {
		words = append(words, e.String())
	}
	assert.Equal(t, []string{"unknown", "later", "soon", "expired", "Expiry(4)"}, words)
}

func TestRetention_RecordingInMemory_IsCheckedToo(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.upload(recording(1))
	statuses, err := s.check(s.client)
	require.NoError(t, err)
	assert.True(t, statuses[0].Deletable)

	s.listed[0].Params.Audio = clinicaldoc.AudioReader("a.wav", errReader{})
	statuses, err = s.check(s.client)
	require.NoError(t, err)
	require.Error(t, statuses[0].Err, "it can be read only once")
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("read") }
