package clinicaldoc_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestUpdate_LostResponse_OverwritesNobodysEdit(t *testing.T) {
	t.Parallel()
	lost := func(d *noteServer, acts bool, then func(*servedNote)) {
		d.faults = []writeFault{{acts: acts, then: then}}
	}
	type test struct {
		set    func(*noteServer)
		puts   int
		text   string // the analysis in the end
		errors []error
	}
	subtests(t, map[string]test{
		"it was carried out": {func(d *noteServer) { lost(d, true, nil) }, 1, "ours", nil},
		"it was carried out, and trimmed": {func(d *noteServer) {
			lost(d, true,
				func(n *servedNote) { n.Analysis = "  ours\n" })
		}, 1, "  ours\n", nil},
		"it was not carried out": {func(d *noteServer) { lost(d, false, nil) }, 2, "ours", nil},
		"carried out, then edited": {func(d *noteServer) { lost(d, true, d.byClinician) }, 1,
			"the clinician's words", []error{clinicaldoc.ErrConflict, clinicaldoc.ErrOutcomeUnknown}},
		"not carried out, but edited": {func(d *noteServer) { lost(d, false, d.byClinician) }, 1,
			"the clinician's words", []error{clinicaldoc.ErrConflict, clinicaldoc.ErrOutcomeUnknown}},
		"edited, the service's clock an hour late": {func(d *noteServer) {
			d.clock = -time.Hour
			lost(d, true,
				d.byClinician)
		}, 1, "the clinician's words", []error{clinicaldoc.ErrConflict}},
		"edited, the service's clock an hour fast": {func(d *noteServer) {
			d.clock = time.Hour
			lost(d, true,
				d.byClinician)
		}, 1, "the clinician's words", []error{clinicaldoc.ErrConflict}},
		"no updated_at to go by": {func(d *noteServer) {
			d.note.UpdatedAt = time.Time{}
			lost(d, false, nil)
		}, 1, "first thoughts", []error{clinicaldoc.ErrConflict, clinicaldoc.ErrOutcomeUnknown}},
		"the read fails": {func(d *noteServer) {
			d.reads = []int{http.StatusForbidden}
			lost(d, true, d.byClinician)
		}, 1, "the clinician's words", []error{clinicaldoc.ErrForbidden, clinicaldoc.ErrOutcomeUnknown}},
		"a 502, and the read fails": {func(d *noteServer) {
			d.reads = []int{http.StatusForbidden}
			d.faults = []writeFault{{acts: true, status: http.StatusBadGateway, then: d.byClinician}}
		}, 1, "the clinician's words",
			[]error{clinicaldoc.ErrForbidden, clinicaldoc.ErrOutcomeUnknown, clinicaldoc.ErrServer}},
		"a 502 that was carried out, then edited": {func(d *noteServer) {
			d.faults = []writeFault{{acts: true, status: http.StatusBadGateway, then: d.byClinician}}
		}, 1, "the clinician's words",
			[]error{clinicaldoc.ErrConflict, clinicaldoc.ErrOutcomeUnknown, clinicaldoc.ErrServer}},
		"a 429 needs no look": {func(d *noteServer) {
			d.faults = []writeFault{{status: http.StatusTooManyRequests, then: d.byClinician}}
		}, 2, "ours", nil},
		"an earlier attempt may have acted, then 403": {func(d *noteServer) {
			d.faults = []writeFault{{}, {status: http.StatusForbidden}}
		}, 2, "first thoughts", []error{clinicaldoc.ErrForbidden, clinicaldoc.ErrOutcomeUnknown}},
		"an earlier attempt may have acted, then 404": {func(d *noteServer) {
			d.faults = []writeFault{{}, {status: http.StatusNotFound}}
		}, 2, "first thoughts", []error{clinicaldoc.ErrNotFound, clinicaldoc.ErrOutcomeUnknown}},
		"an earlier attempt may have acted, then 429 and edited": {func(d *noteServer) {
			d.faults = []writeFault{{}, {status: http.StatusTooManyRequests, then: d.byClinician}}
		}, 2, "the clinician's words", []error{clinicaldoc.ErrConflict, clinicaldoc.ErrOutcomeUnknown}},
		"edited within the second, by our clock": {func(d *noteServer) {
			d.clock = time.Hour
			lost(d, false, func(n *servedNote) {
				n.Analysis, n.UpdatedAt = "the clinician's words", time.Now().Truncate(time.Second).UTC()
			})
		}, 1, "the clinician's words", []error{clinicaldoc.ErrConflict, clinicaldoc.ErrOutcomeUnknown}},
		"it need not be complete": {func(d *noteServer) {
			d.note.Has.Content, d.note.Has.Transcription, d.note.Transcription = false, false, ""
			lost(d, false, nil)
		}, 2, "ours", nil},
	}, func(t *testing.T, tc test) {
		d := newNoteServer()
		tc.set(d)
		note, err := d.client(t).Notes.Update(socketContext(t), 9, updateParams{Analysis: new("ours")})
		if len(tc.errors) == 0 {
			require.NoError(t, err)
			assert.Equal(t, "ours", strings.TrimSpace(note.Analysis))
		}
		for _, want := range tc.errors {
			require.ErrorIs(t, err, want)
		}
		if conflict, ok := errors.AsType[*clinicaldoc.ConflictError](err); ok {
			assert.Equal(t, tc.text, conflict.Current.Analysis)
			assert.NotContains(t, err.Error(), "words")
		}
		assert.Len(t, d.written, tc.puts)
		assert.Equal(t, tc.text, d.note.Analysis, "nobody's edit is overwritten")
	})
}

// A change from before the attempt that was lost, but since the call, was nothing that its caller can have known of.
func TestEdits_ChangeSinceTheFirstAttempt_IsAConflict(t *testing.T) {
	t.Parallel()
	timedSubtests(t, named("update", "sign"), func(t *testing.T, path string) {
		edited, writes := time.Time{}, 0
		c := timedClient(t, func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				return madeResponse(r, http.StatusOK,
					fmt.Sprintf(
						`{"id":9,"name":"n","analysis":"the clinician's words","has":{"content":true,"transcription":true},"updated_at":%q}`, edited.Format(time.RFC3339))), nil
			}
			if writes++; writes == 1 {
				edited = time.Now().UTC()
				return madeResponse(r, http.StatusTooManyRequests, `{}`, "Retry-After", "5"), nil
			}
			return madeResponse(r, http.StatusBadGateway, `{}`), nil
		})
		var err error
		if path == "sign" {
			_, err = c.Notes.Sign(t.Context(), 9)
		} else {
			_, err = c.Notes.Update(t.Context(), 9, updateParams{Analysis: new("ours")})
		}
		require.ErrorIs(t, err, clinicaldoc.ErrConflict)
		require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		assert.Equal(t, 2, writes)
	})
}

// A time without a zone may be that of any place: five hours ago there may be now.
func TestUpdate_TimeWithoutAZone_MayBeAChange(t *testing.T) {
	t.Parallel()
	for text, conflict := range map[string]bool{
		"1999-12-31 19:00:02": true, "1999-12-31T19:00:02.000000": true,
		"1999-12-31T19:00:02Z": false, "1999-12-31T19:00:02+02:00": false, "1999-12-31 19:00:02-03:00": false,
		"1999-12-30 20:00:00": false,
	} {
		timedSubtest(t, text, func(t *testing.T) { // at midnight of the year 2000
			writes := 0
			c := timedClient(t, func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodGet {
					return madeResponse(r, http.StatusOK,
						fmt.Sprintf(
							`{"data":{"id":9,"name":"n","analysis":"the clinician's words","updated_at":%q,"created_at":"1999-12-30T00:00:00Z"}}`, text)), nil
				}
				writes++
				return madeResponse(r, http.StatusBadGateway, `{}`), nil
			})
			_, err := c.Notes.Update(t.Context(), 9, updateParams{Analysis: new("ours")})
			assert.Equal(t, conflict, errors.Is(err, clinicaldoc.ErrConflict), err)
			assert.Equal(t, conflict, writes == 1)
		})
	}
}

// Each text is looked for, an emptied one too, before an update counts as carried out.
func TestUpdate_NotCarriedOut_IsRetried(t *testing.T) {
	t.Parallel()
	subtests(t, map[string]updateParams{
		"name":             {Name: new("ours")},
		"transcription":    {Transcription: new("ours")},
		"analysis":         {Analysis: new("ours")},
		"emptied analysis": {Analysis: new("")},
	}, func(t *testing.T, params updateParams) {
		d := newNoteServer()
		client := d.client(t)
		read := must(client.Notes.Get(socketContext(t), 9))(t)
		d.faults = []writeFault{{}}
		must(client.Notes.Update(socketContext(t), 9, params, clinicaldoc.IfUnchanged(read)))(t)
		assert.Len(t, d.written, 2)
	})
}

func TestSign_LostResponse_SignsNothingElse(t *testing.T) {
	t.Parallel()
	type test struct {
		set    func(*noteServer)
		puts   int
		signed bool
		errors []error
	}
	subtests(t, map[string]test{
		"it was signed":     {func(d *noteServer) { d.faults = []writeFault{{acts: true}} }, 1, true, nil},
		"it was not signed": {func(d *noteServer) { d.faults = []writeFault{{}} }, 2, true, nil},
		"the text changed": {func(d *noteServer) { d.faults = []writeFault{{status: 503, then: d.byClinician}} },
			1, false, []error{clinicaldoc.ErrConflict, clinicaldoc.ErrOutcomeUnknown}},
		"the note cannot be read": {func(d *noteServer) {
			d.faults = []writeFault{{status: 503}}
			d.reads = []int{403, 403}
		}, 1, false, []error{clinicaldoc.ErrForbidden, clinicaldoc.ErrOutcomeUnknown}},
		"the note is gone": {func(d *noteServer) {
			d.faults = []writeFault{{status: 503}}
			d.reads = []int{404, 404}
		}, 1, false, []error{clinicaldoc.ErrNotFound, clinicaldoc.ErrOutcomeUnknown}},
		"the note is not complete": {func(d *noteServer) {
			d.faults = []writeFault{{status: 503, then: func(n *servedNote) { n.Has.Content = false }}}
		}, 1, false, []error{clinicaldoc.ErrNoteIncomplete, clinicaldoc.ErrServer, clinicaldoc.ErrOutcomeUnknown}},
		"no updated_at to go by": {func(d *noteServer) { d.note.UpdatedAt = time.Time{}; d.faults = []writeFault{{}} }, 1, false, []error{clinicaldoc.ErrConflict, clinicaldoc.ErrOutcomeUnknown}},
		"signed, and then edited": {func(d *noteServer) {
			d.faults = []writeFault{{acts: true,
				then: d.byClinician}}
		}, 1, true, nil},
		"rate limited and then not": {func(d *noteServer) { d.faults = []writeFault{{status: 429}} }, 2, true, nil},
	}, func(t *testing.T, tc test) {
		d := newNoteServer()
		tc.set(d)
		note, err := d.client(t).Notes.Sign(socketContext(t), 9)
		requireSigned(t, note, err, tc.errors)
		assert.Len(t, d.written, tc.puts)
		assert.Equal(t, tc.signed, d.note.Has.Signed)
	})
}

// requireSigned checks that a Sign returned the signed note or, if errors are wanted, one that matches all of them.
func requireSigned(t *testing.T, note *clinicaldoc.ProgressNote, err error, wanted []error) {
	t.Helper()
	for _, want := range wanted {
		require.ErrorIs(t, err, want)
	}
	if len(wanted) == 0 {
		require.NoError(t, err)
		assert.True(t, note.Has.Signed)
	}
}

// Also a success is a refusal, "whatever status", if the note in it is not signed and stays so.
func TestSign_SuccessThatTheNoteDenies_IsAnError(t *testing.T) {
	t.Parallel()
	for stage, want := range map[clinicaldoc.Stage][]error{
		stageTranscribed: {clinicaldoc.ErrNoteIncomplete, clinicaldoc.ErrOutcomeUnknown},
		stageComplete:    {clinicaldoc.ErrUnexpectedResponse, clinicaldoc.ErrOutcomeUnknown},
		stageSigned:      nil, // the response was of a moment before
	} {
		client := serve(t,
			call{method: http.MethodPut, url: notesPath + "/9/sign", response: noteIn(9, min(stage, stageComplete))},
			call{url: notesPath + "/9", response: noteIn(9, stage)})
		note, err := client.Notes.Sign(t.Context(), 9)
		for _, is := range want {
			require.ErrorIs(t, err, is, stage)
		}
		if want == nil {
			require.NoError(t, err)
			assert.True(t, note.Has.Signed)
		}
	}
}

// An incomplete note is not signed. But an attempt whose response was lost may arrive late, when the note is complete,
// and then sign what nobody has read.
func TestSign_IncompleteNote_IsUnknownWhileAnAttemptMayArrive(t *testing.T) {
	t.Parallel()
	for status, unknown := range map[int]bool{http.StatusServiceUnavailable: true, http.StatusGatewayTimeout: true,
		http.StatusUnprocessableEntity: false} {
		for name, opts := range map[string][]clinicaldoc.CallOption{"retries": nil,
			"none": {clinicaldoc.WithoutRetry()}} {
			d := newNoteServer()
			d.note.Has.Content = false
			d.faults = []writeFault{{status: status}}
			_, err := d.client(t).Notes.Sign(socketContext(t), 9, opts...)
			require.ErrorIs(t, err, clinicaldoc.ErrNoteIncomplete)
			requireAs[*clinicaldoc.Error](t, err)
			require.Equal(t, unknown, errors.Is(err, clinicaldoc.ErrOutcomeUnknown), "%d, %s", status, name)
			require.Equal(t, unknown, strings.Contains(err.Error(), "an earlier attempt may have succeeded"),
				"%d, %s: %v", status, name, err)
		}
	}
}

func TestSign_Incomplete_LeavesTheAttemptsErrorUnchanged(t *testing.T) {
	t.Parallel()
	d := newNoteServer()
	d.note.Has.Content = false
	d.faults = []writeFault{{status: http.StatusUnprocessableEntity}}
	var seen []error
	client := d.client(t, onAttempt(func(_ context.Context, a clinicaldoc.Attempt) { seen = append(seen, a.Err) }))
	_, err := client.Notes.Sign(socketContext(t), 9)
	require.ErrorIs(t, err, clinicaldoc.ErrNoteIncomplete)
	require.ErrorIs(t, err, clinicaldoc.ErrValidation)
	require.ErrorIs(t, seen[0], clinicaldoc.ErrValidation)
	require.NotErrorIs(t, seen[0], clinicaldoc.ErrNoteIncomplete)
}

func TestEdits_LostAndNotRetried_AreUnknown(t *testing.T) {
	t.Parallel()
	for name, call := range edits() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newNoteServer()
			d.faults = []writeFault{{}}
			err := call(socketContext(t), d.client(t), clinicaldoc.WithoutRetry())
			require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
			assert.Contains(t, err.Error(), "read the record before trying again")
			var unknown *clinicaldoc.OutcomeUnknownError
			require.NotErrorAs(t, err, &unknown, "only a create can be searched for")
			assert.Len(t, d.written, 1)
		})
	}
}

func TestDo_DeleteAfterALostResponse_LeavesOutAlone(t *testing.T) {
	t.Parallel()
	d := newNoteServer()
	d.faults = []writeFault{{acts: true}, {status: http.StatusNotFound}}
	out := map[string]any{"kept": true}
	require.NoError(t, d.client(t).Do(socketContext(t), http.MethodDelete, "/v1/teams/9", nil, &out))
	assert.Equal(t, map[string]any{"kept": true}, out)
}

func TestRevoke_TokenInUseAfterALostResponse_Succeeds(t *testing.T) {
	t.Parallel()
	d := newNoteServer()
	d.faults = []writeFault{{acts: true}, {status: http.StatusUnauthorized}}
	_, err := d.client(t).Tokens.Revoke(socketContext(t), 9, clinicaldoc.WithToken("9|synthetic"))
	require.NoError(t, err, "the retry is refused because the token is revoked")
	for _, other := range []string{socketToken, "90|synthetic", "9"} {
		d.faults = []writeFault{{status: http.StatusServiceUnavailable}, {status: http.StatusUnauthorized}}
		_, err = d.client(t).Tokens.Revoke(socketContext(t), 9, clinicaldoc.WithToken(other))
		require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized, "it may be another one, which has expired")
		require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	}
	d.faults = []writeFault{{status: http.StatusUnauthorized}}
	_, err = d.client(t).Tokens.Revoke(socketContext(t), 9)
	require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
	d.faults = []writeFault{{acts: true}, {status: http.StatusUnauthorized}}
	_, err = d.client(t).Notes.Delete(socketContext(t), 9)
	require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized, "of a note that proves nothing")
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
}

func TestIfUnchanged_ChangedNote_IsAConflict(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*servedNote){
		"nothing":          nil,
		"the name":         func(n *servedNote) { n.Name = "Other" },
		"transcription":    func(n *servedNote) { n.Transcription = "other words" },
		"analysis":         func(n *servedNote) { n.Analysis = "other thoughts" },
		"the signature":    func(n *servedNote) { n.Has.Signed = true },
		"a flag":           func(n *servedNote) { n.Has.Content = false },
		"updated_at alone": func(n *servedNote) { n.UpdatedAt = n.UpdatedAt.Add(time.Second) },
		"the patient":      func(n *servedNote) { n.PatientID++ },
		"no patient":       func(n *servedNote) { n.PatientID = 0 },
	}
	for name, call := range edits() {
		for what, change := range changes {
			t.Run(name+", changed: "+what, func(t *testing.T) {
				t.Parallel()
				d := newNoteServer()
				d.note.PatientID = 4711
				client := d.client(t)
				read := must(client.Notes.Get(socketContext(t), 9))(t)
				if change == nil {
					require.NoError(t, call(socketContext(t), client, clinicaldoc.IfUnchanged(read)))
					assert.Len(t, d.written, 1)
					return
				}
				change(&d.note)
				err := call(socketContext(t), client, clinicaldoc.IfUnchanged(read))
				require.ErrorIs(t, err, clinicaldoc.ErrConflict)
				require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
				conflict := requireAs[*clinicaldoc.ConflictError](t, err)
				assert.Equal(t, d.note.Analysis, conflict.Current.Analysis)
				assert.Equal(t, d.note.Has.Signed, conflict.Current.Has.Signed)
				assert.Empty(t, d.written, "nothing is sent")
			})
		}
	}
}

// A note that named nobody when it was read, and names a patient now, is another one to sign.
func TestIfUnchanged_PatientNamedSince_IsAConflict(t *testing.T) {
	t.Parallel()
	for name, call := range edits() {
		d := newNoteServer()
		client := d.client(t)
		read := must(client.Notes.Get(socketContext(t), 9))(t)
		d.note.PatientID = 8
		require.ErrorIs(t, call(socketContext(t), client, clinicaldoc.IfUnchanged(read)), clinicaldoc.ErrConflict, name)
		assert.Empty(t, d.written, name)
	}
}

// A cache, in a transport or in between, may have the note as the caller read it.
func TestIfUnchanged_Read_IsNotCached(t *testing.T) {
	t.Parallel()
	for name, call := range edits() {
		d := newNoteServer()
		var kept []byte
		client := d.client(t, clinicaldoc.WithHTTPClient(
			&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodGet && kept != nil && r.Header.Get("Cache-Control") != "no-cache" {
					return http.ReadResponse(bufio.NewReader(bytes.NewReader(kept)), r)
				}
				resp, err := noteServerTransport{d, socketTransport(t)}.RoundTrip(r)
				if err == nil && kept == nil {
					kept, err = httputil.DumpResponse(resp, true)
				}
				return resp, err
			})}))
		read := must(client.Notes.Get(socketContext(t), 9))(t)
		d.note.Analysis = "somebody's own"
		require.ErrorIs(t, call(socketContext(t), client, clinicaldoc.IfUnchanged(read)), clinicaldoc.ErrConflict, name)
		assert.Empty(t, d.written, name)
	}
}

// Web forms send CRLF where a service keeps LF: the same text.
func TestIfUnchanged_LineEnds_AreNotAChange(t *testing.T) {
	t.Parallel()
	normalise := func(d *noteServer) clinicaldoc.Option {
		return clinicaldoc.WithHTTPClient(
			&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Method != http.MethodGet {
					body, err := io.ReadAll(r.Body)
					if err != nil {
						return nil, err
					}
					kept := strings.ReplaceAll(string(body), `\r\n`, `\n`)
					r = r.Clone(r.Context())
					r.Body, r.ContentLength = io.NopCloser(strings.NewReader(kept)), int64(len(kept))
				}
				return noteServerTransport{d, socketTransport(t)}.RoundTrip(r)
			})})
	}
	params := updateParams{Analysis: new("first line\r\nsecond line\r\n")}
	for name, faults := range map[string][]writeFault{"at once": nil, "after a lost response": {{acts: true}}} {
		d := newNoteServer()
		d.note.Transcription = "one\ntwo"
		client := d.client(t, normalise(d))
		read := must(client.Notes.Get(socketContext(t), 9))(t)
		read.Transcription = "one\r\ntwo" // as a page sends it back
		d.faults = faults
		_, err := client.Notes.Update(socketContext(t), 9, params, clinicaldoc.IfUnchanged(read))
		require.NoError(t, err, name)
		assert.Len(t, d.written, 1, name)
		assert.Equal(t, "first line\nsecond line\n", d.note.Analysis)
	}
}

// A program that edits and signs within a second knows its own edit, and nobody is blamed for it.
func TestIfUnchanged_OwnChanges_AreNotAConflict(t *testing.T) {
	t.Parallel()
	d := newNoteServer()
	client := d.client(t)
	must(client.Notes.Update(socketContext(t), 9, updateParams{Analysis: new("ours")}))(t)
	d.faults = []writeFault{{status: http.StatusServiceUnavailable}}
	must(client.Notes.Sign(socketContext(t), 9))(t)
	assert.Len(t, d.written, 3)

	// Nor is one that was followed by others, as those of other notes.
	d = newNoteServer()
	client = d.client(t)
	must(client.Notes.Update(socketContext(t), 9, updateParams{Analysis: new("ours")}))(t)
	ours := d.note
	must(client.Notes.Update(socketContext(t), 9, updateParams{Analysis: new("another's")}))(t)
	d.note, d.faults = ours, []writeFault{{status: http.StatusServiceUnavailable}}
	must(client.Notes.Sign(socketContext(t), 9))(t)

	// Another's change since is one all the same, also in the same second.
	d = newNoteServer()
	client = d.client(t)
	must(client.Notes.Update(socketContext(t), 9, updateParams{Analysis: new("ours")}))(t)
	d.faults = []writeFault{{status: http.StatusServiceUnavailable, then: d.byClinician}}
	_, err := client.Notes.Sign(socketContext(t), 9)
	require.ErrorIs(t, err, clinicaldoc.ErrConflict)
	assert.NotContains(t, err.Error(), "somebody")
	assert.Len(t, d.written, 2)
}

// Whatever another changes of a note in the second of an edit of ours, it is not taken for that edit.
func TestIfUnchanged_OthersChangeInTheSameSecond_IsAConflict(t *testing.T) {
	t.Parallel()
	timedSubtests(t, map[string]func(*servedNote){
		"nothing":       nil,
		"name":          func(n *servedNote) { n.Name = "theirs" },
		"transcription": func(n *servedNote) { n.Transcription = "theirs" },
		"analysis":      func(n *servedNote) { n.Analysis = "theirs" },
		"patient":       func(n *servedNote) { n.Patient = new(int64(5)) },
		"patient_id":    func(n *servedNote) { n.PatientID++ },
		"content":       func(n *servedNote) { n.Has.Content = !n.Has.Content },
		"transcribed":   func(n *servedNote) { n.Has.Transcription = !n.Has.Transcription },
		"signed":        func(n *servedNote) { n.Has.Signed = !n.Has.Signed },
		"time":          func(n *servedNote) { n.UpdatedAt = n.UpdatedAt.Add(time.Millisecond) },
	}, func(t *testing.T, change func(*servedNote)) { // so that all is in one second
		d := newNoteServer()
		d.note.PatientID, d.note.Patient = 4, new(int64(4))
		client := timedClient(t, func(r *http.Request) (*http.Response, error) {
			answer := httptest.NewRecorder()
			d.ServeHTTP(answer, r)
			return answer.Result(), nil
		})
		must(client.Notes.Update(t.Context(), 9, updateParams{Analysis: new("ours")}))(t)
		d.faults = []writeFault{{status: http.StatusServiceUnavailable, then: change}}
		_, err := client.Notes.Update(t.Context(), 9, updateParams{Analysis: new("ours, again")})
		if change == nil {
			require.NoError(t, err)
			return
		}
		require.ErrorIs(t, err, clinicaldoc.ErrConflict)
		assert.Len(t, d.written, 2)
	})
}

// A client serves many people: an edit by it is no excuse for a call that began before.
func TestIfUnchanged_EditDuringTheCall_IsAConflict(t *testing.T) {
	t.Parallel()
	d := newNoteServer()
	client := d.client(t)
	d.faults = []writeFault{{status: http.StatusServiceUnavailable, then: func(n *servedNote) {
		d.mu.Unlock() // somebody else edits the note by the same client meanwhile
		defer d.mu.Lock()
		_, err := client.Notes.Update(socketContext(t), 9, updateParams{Analysis: new("the clinician's words")})
		assert.NoError(t, err)
	}}}
	_, err := client.Notes.Sign(socketContext(t), 9)
	require.ErrorIs(t, err, clinicaldoc.ErrConflict)
}

// A client serves many people at once, whose edits are remembered and looked up side by side: the race detector says
// so.
func TestIfUnchanged_ManyEditors_LoseNoEdit(t *testing.T) {
	t.Parallel()
	var refused sync.Map
	client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		id, name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:], "theirs"
		if r.Method == http.MethodPut {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return nil, err
			}
			if _, again := refused.LoadOrStore(id, true); !again {
				return madeResponse(r, http.StatusServiceUnavailable, `{}`), nil
			}
			name = "ours"
		}
		return madeResponse(r, http.StatusOK,
			fmt.Sprintf(`{"id":%s,"name":%q,"updated_at":"2024-05-01T10:11:12Z"}`, id, name)), nil
	}), clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 1, MinWait: 1, MaxWait: 1}))
	var workers sync.WaitGroup
	for worker := range int64(8) {
		workers.Go(func() {
			for i := range int64(20) {
				note, err := client.Notes.Update(t.Context(), 20*worker+i+1, updateParams{Name: new("ours")})
				if assert.NoError(t, err) {
					assert.Equal(t, "ours", note.Name)
				}
			}
		})
	}
	workers.Wait()
}

func TestIfUnchanged_Retries_ReadTheNoteBefore(t *testing.T) {
	t.Parallel()
	for name, call := range edits() {
		for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			t.Run(name+" "+http.StatusText(status), func(t *testing.T) {
				t.Parallel()
				d := newNoteServer()
				client := d.client(t)
				read := must(client.Notes.Get(socketContext(t), 9))(t)
				d.faults = []writeFault{{status: status, then: d.byClinician}}
				d.reads = []int{0, 0, http.StatusForbidden}
				err := call(socketContext(t), client, clinicaldoc.IfUnchanged(read))
				require.ErrorIs(t, err, clinicaldoc.ErrConflict)
				assert.Len(t, d.reads, 1, "a conflict says enough, and is not looked into")
				assert.Equal(t, status == http.StatusServiceUnavailable, errors.Is(err, clinicaldoc.ErrOutcomeUnknown))
				assert.Equal(t, status == http.StatusTooManyRequests, errors.Is(err, clinicaldoc.ErrRateLimited))
				assert.Len(t, d.written, 1)
				assert.Equal(t, "the clinician's words", d.note.Analysis)
			})
		}
	}
	t.Run("a deletion that was carried out", func(t *testing.T) {
		t.Parallel()
		d := newNoteServer()
		client := d.client(t)
		read := must(client.Notes.Get(socketContext(t), 9))(t)
		d.faults = []writeFault{{acts: true}}
		must(client.Notes.Delete(socketContext(t), 9, clinicaldoc.IfUnchanged(read)))(t)
		assert.Len(t, d.written, 1)
	})
	for _, clock := range []time.Duration{0, -time.Hour} { // of the service, by which the note is as old
		t.Run("a deletion that never arrived, then a replica without the note, "+clock.String(), func(t *testing.T) {
			t.Parallel()
			d := newNoteServer()
			d.age, d.clock = 40*time.Second-clock, clock
			client := d.client(t)
			read := must(client.Notes.Get(socketContext(t), 9))(t)
			d.faults, d.reads = []writeFault{{}}, []int{0, http.StatusNotFound}
			_, err := client.Notes.Delete(socketContext(t), 9, clinicaldoc.IfUnchanged(read))
			require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown, "the note is there")
			assert.Len(t, d.written, 1)
		})
	}
	type test struct {
		edit  string
		fault writeFault
		reads []int
		want  error
	}
	subtests(t, map[string]test{
		"a deletion of what cannot be read": {"delete", writeFault{}, []int{0, http.StatusForbidden},
			clinicaldoc.ErrForbidden},
		"somebody else deleted it": {"delete", writeFault{status: http.StatusTooManyRequests},
			[]int{0, http.StatusNotFound}, clinicaldoc.ErrNotFound},
		"somebody else wrote the same": {"update", writeFault{status: http.StatusTooManyRequests,
			then: func(n *servedNote) { n.Analysis = "ours" }}, nil, clinicaldoc.ErrConflict},
		"it cannot be read before it is sent": {"update", writeFault{}, []int{http.StatusForbidden},
			clinicaldoc.ErrForbidden},
	}, func(t *testing.T, tc test) {
		d := newNoteServer()
		client := d.client(t)
		read := must(client.Notes.Get(socketContext(t), 9))(t)
		d.faults, d.reads = []writeFault{tc.fault}, tc.reads
		err := edits()[tc.edit](socketContext(t), client, clinicaldoc.IfUnchanged(read))
		require.ErrorIs(t, err, tc.want)
		assert.LessOrEqual(t, len(d.written), 1)
	})
	t.Run("an update that was carried out, and another text changed", func(t *testing.T) {
		t.Parallel()
		d := newNoteServer()
		client := d.client(t)
		read := must(client.Notes.Get(socketContext(t), 9))(t)
		d.faults = []writeFault{{acts: true, then: func(n *servedNote) { n.Transcription = "the clinician's words" }}}
		_, err := client.Notes.Update(socketContext(t), 9, updateParams{Analysis: new("ours")},
			clinicaldoc.IfUnchanged(read))
		conflict := requireAs[*clinicaldoc.ConflictError](t, err)
		assert.Equal(t, "the clinician's words", conflict.Current.Transcription)
		require.ErrorContains(t, err, "the change was made")
		assert.Len(t, d.written, 1)
	})
	t.Run("an update that was not", func(t *testing.T) {
		t.Parallel()
		d := newNoteServer()
		client := d.client(t)
		read := must(client.Notes.Get(socketContext(t), 9))(t)
		d.faults = []writeFault{{}}
		note, err := client.Notes.Update(socketContext(t), 9, updateParams{Name: new("New")},
			clinicaldoc.IfUnchanged(read))
		require.NoError(t, err)
		assert.Equal(t, "New", note.Name)
		assert.Len(t, d.written, 2)
	})
}

func TestIfUnchanged_Response_IsCompared(t *testing.T) {
	t.Parallel()
	for name, call := range edits() {
		if name == "delete" {
			continue
		}
		for _, short := range []bool{false, true} {
			d := newNoteServer()
			client := d.client(t)
			read := must(client.Notes.Get(socketContext(t), 9))(t)
			// Somebody writes between the read and the write, so that the service's response shows another text.
			d.short = short
			d.faults = []writeFault{{acts: true, status: http.StatusOK}}
			read.UpdatedAt = d.note.UpdatedAt
			sneaky := sneakingTransport{noteServerTransport{d, socketTransport(t)}}
			client = d.client(t, over(sneaky))
			err := call(socketContext(t), client, clinicaldoc.IfUnchanged(read))
			if short {
				require.NoError(t, err, "a response without texts is accepted")
				continue
			}
			conflict := requireAs[*clinicaldoc.ConflictError](t, err)
			require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown, "it was carried out")
			assert.Equal(t, "sneaked in", conflict.Current.Transcription)
			assert.Contains(t, err.Error(), "the change was made")
			assert.Contains(t, err.Error(), "the service or somebody")
		}
	}
}

// Every text counts but for white space at its ends; what the response leaves out does not.
func TestIfUnchanged_EveryText_IsCompared(t *testing.T) {
	t.Parallel()
	type test struct {
		response string
		ok       bool
	}
	subtests(t, map[string]test{
		"the same": {`"name":"Visit","transcription":" first words\n","analysis":"first thoughts"`,
			true},
		"no name":  {`"transcription":"first words","analysis":"first thoughts"`, true},
		"no texts": {`"name":"Visit"`, true},
		"another name": {`"name":"Other","transcription":"first words","analysis":"first thoughts"`,
			false},
		"another transcription":        {`"name":"Visit","transcription":"other","analysis":"first thoughts"`, false},
		"another analysis":             {`"name":"Visit","transcription":"first words","analysis":"other"`, false},
		"the transcription is emptied": {`"name":"Visit","transcription":"","analysis":"first thoughts"`, false},
		"the analysis is emptied":      {`"name":"Visit","transcription":"first words","analysis":""`, false},
	}, func(t *testing.T, tc test) {
		const stored = `{"id":9,"name":"Visit","transcription":"first words","analysis":"first thoughts","updated_at":"2024-05-01T10:11:12Z"}`
		client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				return madeResponse(r, http.StatusOK, stored), nil
			}
			return madeResponse(r, http.StatusOK, `{"id":9,"created_at":"2024-05-01T10:11:12Z",`+tc.response+`}`), nil
		}))
		read := must(client.Notes.Get(t.Context(), 9))(t)
		read.UpdatedAt = read.UpdatedAt.In(time.FixedZone("", 3600)) // the same moment, as a database may give it back
		_, err := client.Notes.Sign(t.Context(), 9, clinicaldoc.IfUnchanged(read))
		if tc.ok {
			require.NoError(t, err)
			return
		}
		require.ErrorIs(t, err, clinicaldoc.ErrConflict)
	})
}

// The response to a conditional write is compared in all that IfUnchanged compares. What it leaves out is not.
func TestIfUnchanged_ComparesTheWrittenNote(t *testing.T) {
	t.Parallel()
	const (
		texts = `"name":"Visit","transcription":"first words","analysis":"first thoughts"`
		flags = `"has":{"content":true,"transcription":true,"signed":false}`
		read  = `{"id":9,` + texts + `,` + flags + `,"patient":{"id":7},"updated_at":"2024-05-01T10:11:12Z"}`
	)
	signed := strings.Replace(flags, `"signed":false`, `"signed":true`, 1)
	for name, tc := range map[string]struct {
		sign, update bool // whether they are fine
		response     string
	}{
		"as expected of Sign": {true, false, texts + `,` + signed +
			`,"patient":{"id":7},"updated_at":"2024-05-01T10:11:13Z"`},
		"as expected of Update": {false, true, texts + `,` + flags +
			`,"patient":{"id":7},"updated_at":"2024-05-01T10:11:13Z"`},
		"nothing but texts":              {true, true, texts},
		"no texts":                       {true, true, `"name":"Visit"`},
		"another patient":                {false, false, texts + `,"patient":{"id":8}`},
		"another patient by number":      {false, false, texts + `,"patient_id":8`},
		"two patients":                   {false, false, texts + `,"patient":{"id":7},"patient_id":8`},
		"a patient without a number":     {false, false, texts + `,"patient":{"id":"synthetic"}`},
		"no patient":                     {true, true, texts + `,"patient":null`},
		"the analysis is gone":           {false, false, texts + `,"has":{"content":false,"transcription":true}`},
		"some flags":                     {true, true, texts + `,"has":{"content":true}`},
		"signed alone":                   {true, false, texts + `,"has":{"signed":true}`},
		"the same time":                  {true, true, texts + `,"updated_at":"2024-05-01T10:11:12Z"`},
		"a clock a little behind":        {true, true, texts + `,"updated_at":"2024-05-01T10:11:10Z"`},
		"an earlier state":               {false, false, texts + `,"updated_at":"2024-05-01T09:11:12Z"`},
		"an earlier time without a zone": {true, true, texts + `,"updated_at":"2024-05-01 05:11:12"`},
	} {
		client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				return madeResponse(r, http.StatusOK, read), nil
			}
			return madeResponse(r, http.StatusOK, `{"id":9,`+tc.response+`}`), nil
		}))
		note, err := client.Notes.Get(t.Context(), 9)
		require.NoError(t, err)
		conditions := []clinicaldoc.CallOption{clinicaldoc.IfUnchanged(note), clinicaldoc.IfVersion(note.Version())}
		for _, condition := range conditions {
			_, err = client.Notes.Sign(t.Context(), 9, condition)
			if errors.Is(err, clinicaldoc.ErrUnexpectedResponse) {
				assert.Contains(t, tc.response, `"signed":false`, name) // and says so, with or without a condition
			} else {
				assertWritten(t, tc.sign, err, name+": Sign")
			}
			_, err = client.Notes.Update(t.Context(), 9, updateParams{Name: new("Visit")}, condition)
			assertWritten(t, tc.update, err, name+": Update")
		}
		_, err = client.Notes.Update(t.Context(), 9, updateParams{Name: new("Visit")})
		require.NoError(t, err, "without a condition nothing is compared")
	}
}

// assertWritten wants no error, or a conflict that carries the note and says that the write was carried out.
func assertWritten(t *testing.T, fine bool, err error, what string) {
	t.Helper()
	if fine {
		assert.NoError(t, err, what)
		return
	}
	conflict, ok := errors.AsType[*clinicaldoc.ConflictError](err)
	if !assert.True(t, ok, "%s: %v", what, err) {
		return
	}
	assert.EqualValues(t, 9, conflict.Current.ID)
	assert.Contains(t, err.Error(), "the change was made", what)
	assert.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown, what)
}

// A note that gets a patient between the read and the write is about somebody whom the caller has not seen.
func TestIfUnchanged_NoticesANewPatient(t *testing.T) {
	t.Parallel()
	client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		patient := `null`
		if r.Method == http.MethodPut {
			patient = `{"id":8}`
		}
		note := `{"id":9,"name":"Visit","patient":` + patient + `,"updated_at":"2024-05-01T10:11:12Z"}`
		return madeResponse(r, http.StatusOK, note), nil
	}))
	note := must(client.Notes.Get(t.Context(), 9))(t)
	_, err := client.Notes.Sign(t.Context(), 9, clinicaldoc.IfUnchanged(note))
	assertWritten(t, false, err, "a new patient")
}

func TestConditions_OneAtATime(t *testing.T) {
	t.Parallel()
	note := &clinicaldoc.ProgressNote{ID: 9, Name: "Visit"}
	unchanged := clinicaldoc.IfUnchanged(note)
	version := clinicaldoc.IfVersion(note.Version())
	pairs := [][]clinicaldoc.CallOption{
		{unchanged, version}, {version, unchanged}, {version, version}, {unchanged, unchanged},
	}
	for name, call := range edits() {
		for _, two := range pairs {
			err := call(t.Context(), serve(t), two...)
			require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, name)
			assert.Contains(t, err.Error(), "one condition")
		}
	}
}

// notCompared are the fields of a note that IfUnchanged leaves out, and why.
var notCompared = map[string]string{
	"Template":                 "what a note was made with does not change what it says",
	"Audio":                    "its URL and times change with every read",
	"TeamID":                   "of the record, not of what is reviewed",
	"UserID":                   "who made the note",
	"User":                     "who made the note, in more words",
	"TranscriptionStartedAt":   "processing; its result is compared",
	"TranscriptionCompletedAt": "processing; its result is compared",
	"AnalysisStartedAt":        "processing; its result is compared",
	"AnalysisCompletedAt":      "processing; its result is compared",
	"ErrorState":               "processing; its result is compared",
	"CreatedAt":                "it does not change",
	"Extra":                    "may hold counters or times of reads; a patient_id in it is compared",
}

// A field that is added to ProgressNote is compared, or named above: nobody's change may go unnoticed by oversight.
func TestVersion_CoversEveryFieldOrNamesIt(t *testing.T) {
	t.Parallel()
	note := clinicaldoc.ProgressNote{ID: 7, Name: "Visit", UpdatedAt: moment(1, 0)}
	for field := range reflect.TypeFor[clinicaldoc.ProgressNote]().Fields() {
		if !field.IsExported() {
			continue
		}
		for _, change := range otherValues(t, field.Type) {
			changed := note
			reflect.ValueOf(&changed).Elem().FieldByIndex(field.Index).Set(change)
			if notCompared[field.Name] == "" {
				assert.NotEqual(t, note.Version(), changed.Version(), "%s: compare it, or name it above", field.Name)
			} else {
				assert.Equal(t, note.Version(), changed.Version(), "%s: it is compared, remove it above", field.Name)
			}
		}
	}
}

// otherValues are values of a type, none of which a note of the test above has.
func otherValues(t *testing.T, of reflect.Type) (values []reflect.Value) {
	t.Helper()
	switch reflect.Zero(of).Interface().(type) {
	case int64:
		return []reflect.Value{reflect.ValueOf(int64(8))}
	case string:
		return []reflect.Value{reflect.ValueOf("changed")}
	case *string:
		return []reflect.Value{reflect.ValueOf(new("changed"))}
	case time.Time:
		return []reflect.Value{reflect.ValueOf(moment(2, 0))}
	case clinicaldoc.Object:
		return []reflect.Value{reflect.ValueOf(object(t, `{"id":8}`))}
	case *clinicaldoc.Template:
		return []reflect.Value{reflect.ValueOf(&clinicaldoc.Template{ID: 8})}
	case *clinicaldoc.AudioInfo:
		return []reflect.Value{reflect.ValueOf(&clinicaldoc.AudioInfo{Size: 8})}
	case clinicaldoc.Completion:
		for field := range of.Fields() {
			flags := reflect.New(of).Elem()
			if field.Type.Kind() == reflect.Bool {
				flags.FieldByIndex(field.Index).SetBool(true)
				values = append(values, flags)
			}
		}
		return values
	}
	require.Fail(t, "no value of this type is known here", "%s", of)
	return nil
}

// The texts of a note and of an update are the same: a text that is added to one of them is added to the other.
func TestUpdateNoteParams_HaveEveryTextOfANote(t *testing.T) {
	t.Parallel()
	var ofNote, ofParams []string
	for field := range reflect.TypeFor[clinicaldoc.ProgressNote]().Fields() {
		if field.Type.Kind() == reflect.String {
			ofNote = append(ofNote, field.Name)
		}
	}
	for field := range reflect.TypeFor[updateParams]().Fields() {
		if field.Type == reflect.TypeFor[*string]() {
			ofParams = append(ofParams, field.Name)
		}
	}
	assert.Equal(t, ofNote, ofParams)
	for _, name := range ofNote {
		var params updateParams
		reflect.ValueOf(&params).Elem().FieldByName(name).Set(reflect.ValueOf(new("\xff")))
		_, err := serve(t).Notes.Update(t.Context(), 7, params)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		assert.Contains(t, err.Error(), "Notes.Update: "+name)
	}
}

// sneakingTransport lets somebody change the transcription just before a write.
type sneakingTransport struct{ noteServerTransport }

func (s sneakingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		s.server.mu.Lock()
		s.server.note.Transcription = "sneaked in"
		s.server.mu.Unlock()
	}
	return s.noteServerTransport.RoundTrip(r)
}

func TestIfUnchanged_InvalidNote_IsRejected(t *testing.T) {
	t.Parallel()
	client := serve(t)
	note := &clinicaldoc.ProgressNote{ID: 9}
	for name, call := range edits() {
		for _, wrong := range []*clinicaldoc.ProgressNote{nil, {ID: 10}} {
			require.ErrorIs(t, call(t.Context(), client, clinicaldoc.IfUnchanged(wrong)),
				clinicaldoc.ErrInvalidArgument, name)
		}
	}
	for _, e := range endpoints() {
		if strings.HasPrefix(e.route, "/v1/progress-notes/{id}") && e.method != http.MethodGet {
			continue
		}
		_, err := e.call(t.Context(), client, clinicaldoc.IfUnchanged(note))
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, e.operation)
		require.ErrorContains(t, err, "IfUnchanged")
	}
}

func TestDelete_LostResponse_IsRetried(t *testing.T) {
	t.Parallel()
	missing := socketStatus(http.StatusNotFound, `{"message":"Resource not found"}`)
	gone := socketStatus(http.StatusGone, `{"message":"Resource not found"}`)
	deleted := socketStatus(http.StatusOK, `{"message":"deleted"}`)
	limited := socketStatus(http.StatusTooManyRequests, `{}`)
	failed := socketStatus(http.StatusBadGateway, "")
	type test struct {
		steps    []http.HandlerFunc
		requests int
		want     error
	}
	subtests(t, map[string]test{
		"lost, then missing":          {[]http.HandlerFunc{socketLost(t), missing}, 2, nil},
		"bad gateway, then missing":   {[]http.HandlerFunc{failed, missing}, 2, nil},
		"lost, limited, then missing": {[]http.HandlerFunc{socketLost(t), limited, missing}, 3, nil},
		"lost, then gone":             {[]http.HandlerFunc{socketLost(t), gone}, 2, nil},
		"lost, then deleted":          {[]http.HandlerFunc{socketLost(t), deleted}, 2, nil},
		"missing":                     {[]http.HandlerFunc{missing}, 1, clinicaldoc.ErrNotFound},
		"limited, then missing":       {[]http.HandlerFunc{limited, missing}, 2, clinicaldoc.ErrNotFound},
		"failing to the end":          {[]http.HandlerFunc{failed}, 4, clinicaldoc.ErrServer},
	}, func(t *testing.T, tc test) {
		for _, remove := range []func(*clinicaldoc.Client, context.Context) (*clinicaldoc.Confirmation, error){
			func(c *clinicaldoc.Client, ctx context.Context) (*clinicaldoc.Confirmation, error) {
				return c.Notes.Delete(ctx, 9)
			},
			func(c *clinicaldoc.Client, ctx context.Context) (*clinicaldoc.Confirmation, error) {
				return c.Tokens.Revoke(ctx, 9)
			},
		} {
			script := newSocketSteps(tc.steps...)
			confirmation, err := remove(script.client(t), socketContext(t))
			if tc.want == nil {
				require.NoError(t, err)
				assert.NotNil(t, confirmation)
			} else {
				require.ErrorIs(t, err, tc.want)
				assert.Equal(t, tc.requests > 2, errors.Is(err, clinicaldoc.ErrOutcomeUnknown))
			}
			assert.Len(t, script.requests(), tc.requests)
		}
	})
	_, err := newSocketSteps(gone).client(t).Notes.Delete(socketContext(t), 9)
	require.Error(t, err, "nothing was lost, so nothing was deleted")
	require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
}

func TestDelete_NeverSent_MissingIsAnError(t *testing.T) {
	t.Parallel()
	var dials atomic.Int32
	script := newSocketSteps(socketStatus(http.StatusNotFound, `{"message":"Resource not found"}`))
	srv := socketHandler(t, script.ServeHTTP)
	tr := socketTransport(t)
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials.Add(1) == 1 {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	_, err := socketClient(t, srv.URL, over(tr)).Notes.Delete(socketContext(t), 9)
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
}

// signable is a service with one note. The n-th PUT is answered by the n-th step; a GET tells the note's state.
type signable struct {
	mu               sync.Mutex
	complete, signed bool
	missing          bool // GET fails
	busy             bool // GET is asked to wait
	log              []string
	puts             int
	steps            []signStep
}

// signStep answers a PUT.
type signStep = func(s *signable, w http.ResponseWriter, r *http.Request)

func newSignable(steps ...signStep) *signable { return &signable{steps: steps} }

func (s *signable) client(t *testing.T, opts ...clinicaldoc.Option) *clinicaldoc.Client {
	t.Helper()
	return socketClient(t, socketHandler(t, s.ServeHTTP).URL, opts...)
}

func (s *signable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, r.Method)
	if r.Method == http.MethodPut {
		step := s.steps[min(s.puts, len(s.steps)-1)]
		s.puts++
		step(s, w, r)
		return
	}
	if s.busy {
		socketStatus(http.StatusTooManyRequests, `{}`)(w, r)
		return
	}
	if s.missing {
		socketStatus(http.StatusForbidden, `{"message":"synthetic"}`)(w, r)
		return
	}
	socketStatus(http.StatusOK, s.note())(w, r)
}

func (s *signable) note() string {
	return fmt.Sprintf(
		`{"id":9,"name":"Synthetic note","team_id":1,"user_id":1,"updated_at":"2026-01-02T03:04:05Z","has":{"content":%t,"transcription":%t,"signed":%t}}`, s.complete, s.complete, s.signed)
}

func answered(code int, message string) signStep {
	return func(_ *signable, w http.ResponseWriter, r *http.Request) {
		socketStatus(code, fmt.Sprintf(`{"message":%q}`, message))(w, r)
	}
}

// signLost breaks the connection, having signed the note before or not.
// signedBut signs the note and answers with something else.
func signedBut(code int, body string, header ...string) signStep {
	return func(s *signable, w http.ResponseWriter, r *http.Request) {
		s.signed = true
		socketStatus(code, body, header...)(w, r)
	}
}

func signLost(t *testing.T, sign bool) signStep {
	t.Helper()
	return func(s *signable, w http.ResponseWriter, _ *http.Request) {
		s.signed = s.signed || sign
		socketReset(t, w)
	}
}

func TestSign_LostResponse_IsFoundOrRetried(t *testing.T) {
	t.Parallel()
	type test struct {
		incomplete bool
		steps      []signStep
		opts       []clinicaldoc.CallOption
		puts       int
		want       []error // none: signed
	}
	subtests(t, map[string]test{
		"signed all the same, without retries": {steps: []signStep{signLost(t, true)},
			opts: []clinicaldoc.CallOption{clinicaldoc.WithoutRetry()}, puts: 1},
		"signed, and a bad gateway answers": {steps: []signStep{signedBut(http.StatusBadGateway, "")}, puts: 1},
		"signed, and no note answers":       {steps: []signStep{signedBut(http.StatusOK, "<html></html>")}, puts: 1},
		"signed, and a redirect answers": {
			steps: []signStep{signedBut(http.StatusFound, "", "Location", "/home")}, puts: 1,
		},
		"not complete": {incomplete: true, steps: []signStep{signLost(t, false)}, puts: 1,
			want: []error{clinicaldoc.ErrNoteIncomplete}},
		"failing to the end": {steps: []signStep{answered(http.StatusBadGateway, "")}, puts: 4,
			want: []error{clinicaldoc.ErrServer}},
	}, func(t *testing.T, tc test) {
		service := &signable{complete: !tc.incomplete, steps: tc.steps}
		note, err := service.client(t).Notes.Sign(socketContext(t), 9, tc.opts...)
		requireSigned(t, note, err, tc.want)
		assert.Equal(t, tc.puts, service.puts)
	})
}

// After a refusal Sign reads the note. What it reads decides whether the error matches ErrNoteIncomplete; the status
// and the message of the refusal do not. If the note cannot be read, the refusal is returned as it is.
func TestSign_Refused_NoteDecidesWhetherItIsIncomplete(t *testing.T) {
	t.Parallel()
	const saysIncomplete = "A note without complete transcription and analysis cannot be signed."
	type test struct {
		message              string
		complete, unreadable bool // the note
		wantIncomplete       bool
	}
	subtests(t, map[string]test{
		"says incomplete, note is incomplete":     {message: saysIncomplete, wantIncomplete: true},
		"says incomplete, note is complete":       {message: saysIncomplete, complete: true},
		"says incomplete, note cannot be read":    {message: saysIncomplete, unreadable: true},
		"says another thing, note is incomplete":  {message: "synthetic", wantIncomplete: true},
		"says another thing, note is complete":    {message: "synthetic", complete: true},
		"says another thing, note cannot be read": {message: "synthetic", unreadable: true},
	}, func(t *testing.T, tt test) {
		for _, code := range []int{400, 403, 409, 422, 423, 500} {
			for _, opts := range [][]clinicaldoc.CallOption{nil, {clinicaldoc.WithoutRetry()}} {
				service := newSignable(answered(code, tt.message))
				service.complete = tt.complete
				service.missing = tt.unreadable
				_, err := service.client(t).Notes.Sign(socketContext(t), 9, opts...)
				refusal := requireAs[*clinicaldoc.Error](t, err)
				assert.Equal(t, code, refusal.StatusCode)
				assert.Equal(t, tt.message, refusal.Message)
				assert.Equal(t, tt.wantIncomplete, errors.Is(err, clinicaldoc.ErrNoteIncomplete), code)
				if code < 500 { // a PUT that failed with 500 may be repeated
					assert.Equal(t, []string{"PUT", "GET"}, service.log, code)
				}
			}
		}
	})
}

// Sign reads the note only if that can tell more than the response did.
func TestSign_NothingToLearn_ReadsNothing(t *testing.T) {
	t.Parallel()
	const limited = http.StatusTooManyRequests
	type test struct {
		steps          []signStep
		complete, busy bool // the note; a GET is asked to wait
		opts           []clinicaldoc.CallOption
		want           []error
		log            []string
	}
	subtests(t, map[string]test{
		"unauthorized": {
			steps: []signStep{answered(401, "")}, want: []error{clinicaldoc.ErrUnauthorized}, log: []string{"PUT"},
		},
		"not found": {
			steps: []signStep{answered(404, "")}, want: []error{clinicaldoc.ErrNotFound}, log: []string{"PUT"},
		},
		"redirected": {
			steps: []signStep{answered(307, "")}, want: []error{clinicaldoc.ErrUnexpectedResponse},
			log: []string{"PUT"},
		},
		"asked to wait": {
			steps: []signStep{answered(limited, "")}, want: []error{clinicaldoc.ErrRateLimited},
			log: []string{"PUT", "PUT"},
		},
		"lost, then asked to wait, which is not a retry": {
			steps: []signStep{signLost(t, false), answered(limited, ""), answered(limited, "")}, complete: true,
			want: []error{clinicaldoc.ErrRateLimited, clinicaldoc.ErrOutcomeUnknown},
			log:  []string{"PUT", "GET", "PUT", "GET", "PUT"},
		},
		"lost, and the read asked to wait": {
			steps: []signStep{answered(502, "")}, complete: true, busy: true,
			want: []error{clinicaldoc.ErrOutcomeUnknown}, log: []string{"PUT", "GET", "GET"},
		},
		"refused, and the read asked to wait, without retries": {
			steps: []signStep{answered(403, "")}, busy: true,
			opts: []clinicaldoc.CallOption{clinicaldoc.WithoutRetry()},
			want: []error{clinicaldoc.ErrForbidden}, log: []string{"PUT", "GET"},
		},
		"an argument is invalid": {
			opts: []clinicaldoc.CallOption{clinicaldoc.WithHeader("Authorization", "synthetic")},
			want: []error{clinicaldoc.ErrInvalidArgument},
		},
	}, func(t *testing.T, tt test) {
		service := newSignable(tt.steps...)
		service.complete = tt.complete
		service.busy = tt.busy
		once := clinicaldoc.RetryPolicy{MaxRetries: 1, MinWait: socketPolicy.MinWait, MaxWait: socketPolicy.MaxWait}
		_, err := service.client(t, clinicaldoc.WithRetry(once)).Notes.Sign(socketContext(t), 9, tt.opts...)
		for _, want := range tt.want {
			require.ErrorIs(t, err, want)
		}
		assert.Equal(t, tt.log, service.log)
	})
}

func TestVersion_AnyChange_ChangesIt(t *testing.T) {
	t.Parallel()
	var note clinicaldoc.ProgressNote
	require.NoError(t, json.Unmarshal([]byte(`{"id":5,"name":"a","transcription":"b\r\nc","analysis":"d","patient":{"id":7},
		"has":{"content":true,"transcription":true},"team_id":1,"user_id":1,"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05.123456Z"}`), &note))
	version := note.Version()
	assert.Len(t, version, 20)
	encoded := must(json.Marshal(note))(t)
	var again clinicaldoc.ProgressNote
	require.NoError(t, json.Unmarshal(encoded, &again))
	assert.Equal(t, version, again.Version())

	same := func(change func(*clinicaldoc.ProgressNote)) bool {
		changed := note
		change(&changed)
		return changed.Version() == version
	}
	assert.True(t, same(func(n *clinicaldoc.ProgressNote) { n.Transcription = "b\nc" }), "line ends are alike")
	assert.True(t, same(func(n *clinicaldoc.ProgressNote) { n.UpdatedAt = n.UpdatedAt.In(time.FixedZone("", 3600)) }))
	for what, change := range map[string]func(*clinicaldoc.ProgressNote){
		"id":            func(n *clinicaldoc.ProgressNote) { n.ID++ },
		"name":          func(n *clinicaldoc.ProgressNote) { n.Name = "a " },
		"transcription": func(n *clinicaldoc.ProgressNote) { n.Transcription = "" },
		"analysis":      func(n *clinicaldoc.ProgressNote) { n.Analysis = "D" },
		"a text's end":  func(n *clinicaldoc.ProgressNote) { n.Name, n.Transcription = "ab", "\r\nc" },
		"texts moved": func(n *clinicaldoc.ProgressNote) {
			n.Transcription, n.Analysis = n.Analysis,
				n.Transcription
		},
		"content":     func(n *clinicaldoc.ProgressNote) { n.Has.Content = false },
		"transcribed": func(n *clinicaldoc.ProgressNote) { n.Has.Transcription = false },
		"signed":      func(n *clinicaldoc.ProgressNote) { n.Has.Signed = true },
		"patient": func(n *clinicaldoc.ProgressNote) {
			require.NoError(t,
				json.Unmarshal([]byte(`{"id":8}`), &n.Patient))
		},
		"no patient": func(n *clinicaldoc.ProgressNote) { n.Patient = clinicaldoc.Object{} },
		"updated_at": func(n *clinicaldoc.ProgressNote) { n.UpdatedAt = n.UpdatedAt.Add(time.Microsecond) },
	} {
		assert.False(t, same(change), what)
	}
}

// The service does not describe a patient: one without a number is told from others all the same, and from none.
func TestVersion_PatientWithoutAnID_Counts(t *testing.T) {
	t.Parallel()
	versions := map[string]string{}
	for _, patient := range []string{`null`, `{"reference":"synthetic-a"}`, `{"reference":"synthetic-b"}`,
		`{"id":7,"reference":"synthetic-a"}`} {
		var note, again clinicaldoc.ProgressNote
		require.NoError(t, json.Unmarshal(
			[]byte(`{"id":9,"name":"n","created_at":"2026-01-02T03:04:05Z","patient":`+patient+`}`), &note))
		assert.Empty(t, versions[note.Version()], patient)
		versions[note.Version()] = patient
		encoded := must(json.Marshal(note))(t)
		require.NoError(t, json.Unmarshal(encoded, &again))
		assert.Equal(t, note.Version(), again.Version())
	}
	for _, none := range []string{`{}`, `[]`} {
		var note clinicaldoc.ProgressNote
		require.NoError(t,
			json.Unmarshal([]byte(`{"id":9,"name":"n","created_at":"2026-01-02T03:04:05Z","patient":`+none+`}`), &note))
		assert.Equal(t, `null`, versions[note.Version()], "it is nobody")
	}
}

func TestIfVersion_OtherVersion_IsAConflict(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	id := srv.AddNote(clinicaldoctest.Note{PatientID: 7, Stage: clinicaldoctest.StageComplete, Stuck: true})
	client, ctx := srv.Client(), t.Context()
	note := must(client.Notes.Get(ctx, id))(t)
	updated, err := client.Notes.Update(ctx, id, updateParams{Analysis: new("reviewed")},
		clinicaldoc.IfVersion(note.Version()))
	require.NoError(t, err)
	require.NotEqual(t, note.Version(), updated.Version())

	srv.ForgetRequests()
	_, err = client.Notes.Sign(ctx, id, clinicaldoc.IfVersion(note.Version()))
	conflict := requireAs[*clinicaldoc.ConflictError](t, err)
	assert.Equal(t, updated.Version(), conflict.Current.Version())
	_, err = client.Notes.Delete(ctx, id, clinicaldoc.IfVersion(note.Version()))
	require.ErrorIs(t, err, clinicaldoc.ErrConflict)
	for _, request := range srv.Requests() {
		assert.Equal(t, http.MethodGet, request.Method, "nothing was sent")
	}
	signed, err := client.Notes.Sign(ctx, id, clinicaldoc.IfVersion(conflict.Current.Version()))
	require.NoError(t, err)
	assert.True(t, signed.Has.Signed)

	for _, wrong := range []error{
		func() error { _, err := client.Notes.Get(ctx, id, clinicaldoc.IfVersion("x")); return err }(),
		func() error { _, err := client.Notes.Delete(ctx, id, clinicaldoc.IfVersion("")); return err }(),
	} {
		require.ErrorIs(t, wrong, clinicaldoc.ErrInvalidArgument)
	}
}

// Whether members that are not described were written can be told only by the note's own.
func TestUpdate_LostResponseWithExtra(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		echoed string // by the read after the lost response
		puts   int
	}{
		"carried out":                       {`"status":"final"`, 1},
		"not carried out":                   {`"status":"draft"`, 2},
		"the service does not give it back": {`"team_id":1`, 2},
	} {
		puts := 0
		client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			note := `{"id":7,"name":"n","analysis":"a","updated_at":"2024-05-01T10:11:12Z",` + tc.echoed + `}`
			if r.Method == http.MethodPut {
				puts++
				_, _ = io.Copy(io.Discard, r.Body)
				if puts == 1 {
					return nil, io.ErrUnexpectedEOF
				}
			}
			return madeResponse(r, http.StatusOK, note), nil
		}), clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 2, MinWait: 1, MaxWait: 1}))
		_, err := client.Notes.Update(t.Context(), 7, updateParams{Extra: map[string]any{"status": "final"}})
		require.NoError(t, err, name)
		assert.Equal(t, tc.puts, puts, name)
	}
}
