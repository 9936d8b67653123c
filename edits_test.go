package clinicaldoc_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestUpdate_LostResponse_OverwritesNobodysEdit(t *testing.T) {
	t.Parallel()
	const clinicians = "the clinician's words"
	conflict := []error{clinicaldoc.ErrConflict, clinicaldoc.ErrOutcomeUnknown}
	unread := []error{clinicaldoc.ErrForbidden, clinicaldoc.ErrOutcomeUnknown}
	badGateway := writeFault{acts: true, status: http.StatusBadGateway}
	limited := writeFault{status: http.StatusTooManyRequests}
	type test struct {
		faults []writeFault
		edited bool          // a clinician edits the note after the last of them
		clock  time.Duration // how far the service's clock is ahead
		reads  []int
		puts   int
		text   string // the analysis in the end
		errors []error
	}
	subtests(t, map[string]test{
		"carried out":     {faults: []writeFault{actedThenLost}, puts: 1, text: "ours"},
		"not carried out": {faults: []writeFault{lostWrite}, puts: 2, text: "ours"},
		"carried out, and trimmed": {faults: []writeFault{{acts: true,
			then: func(n *servedNote) { n.Analysis = "  ours\n" }}}, puts: 1, text: "  ours\n"},
		"carried out, then edited": {faults: []writeFault{actedThenLost}, edited: true, puts: 1, text: clinicians,
			errors: conflict},
		"not carried out, but edited": {faults: []writeFault{lostWrite}, edited: true, puts: 1, text: clinicians,
			errors: conflict},
		"edited, the service's clock an hour late": {faults: []writeFault{actedThenLost}, edited: true,
			clock: -time.Hour, puts: 1, text: clinicians, errors: conflict},
		"edited, the service's clock an hour fast": {faults: []writeFault{actedThenLost}, edited: true,
			clock: time.Hour, puts: 1, text: clinicians, errors: conflict},
		"edited within the second, by our clock": {faults: []writeFault{{then: func(n *servedNote) {
			n.Analysis = clinicians
			n.UpdatedAt = time.Now().Truncate(time.Second).UTC()
		}}}, clock: time.Hour, puts: 1, text: clinicians, errors: conflict},
		"no updated_at to go by": {faults: []writeFault{{then: func(n *servedNote) { n.UpdatedAt = time.Time{} }}},
			puts: 1, text: "first thoughts", errors: conflict},
		"the read fails": {faults: []writeFault{actedThenLost}, edited: true, reads: []int{http.StatusForbidden},
			puts: 1, text: clinicians, errors: unread},
		"a 502, and the read fails": {faults: []writeFault{badGateway}, edited: true,
			reads: []int{http.StatusForbidden}, puts: 1, text: clinicians, errors: append(unread, clinicaldoc.ErrServer)},
		"a 502 that was carried out, then edited": {faults: []writeFault{badGateway}, edited: true, puts: 1,
			text: clinicians, errors: append(conflict, clinicaldoc.ErrServer)},
		"a 429 needs no read": {faults: []writeFault{limited}, edited: true, puts: 2, text: "ours"},
		"lost, then 403": {faults: []writeFault{lostWrite, {status: http.StatusForbidden}}, puts: 2,
			text: "first thoughts", errors: unread},
		"lost, then 404": {faults: []writeFault{lostWrite, {status: http.StatusNotFound}}, puts: 2,
			text: "first thoughts", errors: []error{clinicaldoc.ErrNotFound, clinicaldoc.ErrOutcomeUnknown}},
		"lost, then 429 and edited": {faults: []writeFault{lostWrite, limited}, edited: true, puts: 2, text: clinicians,
			errors: conflict},
		"an incomplete note": {faults: []writeFault{{then: func(n *servedNote) {
			n.Has.Content, n.Has.Transcription, n.Transcription = false, false, ""
		}}}, puts: 2, text: "ours"},
	}, func(t *testing.T, tt test) {
		d := newNoteServer()
		d.clock = tt.clock
		d.reads = tt.reads
		d.faults = slices.Clone(tt.faults)
		if tt.edited {
			d.faults[len(d.faults)-1].then = d.byClinician
		}
		note, err := d.client(t).Notes.Update(socketContext(t), 9, updateParams{Analysis: new("ours")})
		if len(tt.errors) == 0 {
			require.NoError(t, err)
			assert.Equal(t, "ours", strings.TrimSpace(note.Analysis))
		}
		requireAll(t, err, tt.errors)
		if conflict, ok := errors.AsType[*clinicaldoc.ConflictError](err); ok {
			assert.Equal(t, tt.text, conflict.Current.Analysis)
			assert.NotContains(t, err.Error(), "words")
		}
		assert.Len(t, d.written, tt.puts)
		assert.Equal(t, tt.text, d.note.Analysis, "nobody's edit is overwritten")
	})
}

// requireAll demands that an error matches all of these.
func requireAll(t *testing.T, err error, wanted []error) {
	t.Helper()
	for _, want := range wanted {
		require.ErrorIs(t, err, want)
	}
}

// A change after the call began, though before the lost attempt, is one that the caller cannot have read.
func TestEdits_ChangeSinceTheFirstAttempt_IsAConflict(t *testing.T) {
	t.Parallel()
	const note = `{"id":9,"name":"n","analysis":"the clinician's words",
		"has":{"content":true,"transcription":true},"updated_at":%q}`
	timedSubtests(t, named("update", "sign"), func(t *testing.T, edit string) {
		edited, writes := time.Time{}, 0
		client := timedClient(t, func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				return madeResponse(r, http.StatusOK, fmt.Sprintf(note, edited.Format(time.RFC3339))), nil
			}
			if writes++; writes == 1 {
				edited = time.Now().UTC()
				return madeResponse(r, http.StatusTooManyRequests, `{}`, "Retry-After", "5"), nil
			}
			return madeResponse(r, http.StatusBadGateway, `{}`), nil
		})
		err := edits()[edit](t.Context(), client)
		require.ErrorIs(t, err, clinicaldoc.ErrConflict)
		require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		assert.Equal(t, 2, writes)
	})
}

// A time without a zone may be the local time of any place. So five hours ago may be now.
func TestUpdate_TimeWithoutAZone_MayBeAChange(t *testing.T) {
	t.Parallel()
	const note = `{"data":{"id":9,"name":"n","analysis":"the clinician's words","updated_at":%q,
		"created_at":"1999-12-30T00:00:00Z"}}`
	for updated, conflict := range map[string]bool{
		"1999-12-31 19:00:02": true, "1999-12-31T19:00:02.000000": true,
		"1999-12-31T19:00:02Z": false, "1999-12-31T19:00:02+02:00": false, "1999-12-31 19:00:02-03:00": false,
		"1999-12-30 20:00:00": false,
	} {
		timedSubtest(t, updated, func(t *testing.T) { // at midnight of the year 2000
			writes := 0
			client := timedClient(t, func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodGet {
					return madeResponse(r, http.StatusOK, fmt.Sprintf(note, updated)), nil
				}
				writes++
				return madeResponse(r, http.StatusBadGateway, `{}`), nil
			})
			_, err := client.Notes.Update(t.Context(), 9, updateParams{Analysis: new("ours")})
			assert.Equal(t, conflict, errors.Is(err, clinicaldoc.ErrConflict), err)
			assert.Equal(t, conflict, writes == 1)
		})
	}
}

// A time may be a date alone, of any place. So it may be a change of today.
func TestUpdate_DateAlone_MayBeAChange(t *testing.T) {
	t.Parallel()
	for updated, conflict := range map[string]bool{
		"2000-01-01": true, "1999-12-31": false,
		"2000-01-01T00:00:00.000000Z": true, "2000-01-01T00:00:00+02:00": true, "1999-12-31T00:00:00Z": false,
		"2000-01-01T00:00:01Z": false,
	} {
		timedSubtest(t, updated, func(t *testing.T) {
			time.Sleep(20 * time.Hour) // since midnight of the year 2000
			writes := 0
			client := timedClient(t, func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodGet {
					const note = `{"id":9,"name":"the clinician's","updated_at":%q}`
					return madeResponse(r, http.StatusOK, fmt.Sprintf(note, updated)), nil
				}
				writes++
				return madeResponse(r, http.StatusBadGateway, `{}`), nil
			})
			_, err := client.Notes.Update(t.Context(), 9, updateParams{Name: new("ours")})
			assert.Equal(t, conflict, errors.Is(err, clinicaldoc.ErrConflict), err)
			assert.Equal(t, conflict, writes == 1)
		})
	}
}

// A program without a time may send the beginning of its clock, which does not show that nothing was changed.
func TestUpdate_TimeThatStandsForNone_MayBeAChange(t *testing.T) {
	t.Parallel()
	for _, updated := range []string{"1970-01-01 00:00:00", "1970-01-01T00:00:00.000000Z", "0001-01-01T00:00:00+01:00"} {
		timedSubtest(t, updated, func(t *testing.T) {
			writes := 0
			client := timedClient(t, func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodGet {
					const note = `{"id":9,"name":"the clinician's","updated_at":%q}`
					return madeResponse(r, http.StatusOK, fmt.Sprintf(note, updated)), nil
				}
				writes++
				return madeResponse(r, http.StatusBadGateway, `{}`), nil
			})
			_, err := client.Notes.Update(t.Context(), 9, updateParams{Name: new("ours")})
			require.ErrorIs(t, err, clinicaldoc.ErrConflict)
			assert.Equal(t, 1, writes)
		})
	}
}

// A text in an unknown form looks empty, so another one would look the same.
func TestIfUnchanged_TextThatCannotBeRead_SendsNothing(t *testing.T) {
	t.Parallel()
	timedSubtests(t, named("update", "sign", "delete"), func(t *testing.T, edit string) {
		analysis, writes := "what was read", 0
		client := timedClient(t, func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet {
				writes++
			}
			const note = `{"id":9,"name":"n","analysis":{"plan":%q},"has":{"content":true,"transcription":true}}`
			return madeResponse(r, http.StatusOK, fmt.Sprintf(note, analysis)), nil
		})
		read := must(client.Notes.Get(t.Context(), 9))(t)
		analysis = "the clinician's words"
		err := edits()[edit](t.Context(), client, clinicaldoc.IfUnchanged(read))
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
		assert.Zero(t, writes)
	})
}

// A text that came after the lost attempt, in an unknown form, is a change.
func TestIfUnchanged_UnreadableTextAfterALostResponse_IsAConflict(t *testing.T) {
	t.Parallel()
	timedSubtest(t, "an object", func(t *testing.T) {
		analysis, writes := `""`, 0
		client := timedClient(t, func(r *http.Request) (*http.Response, error) {
			const note = `{"id":9,"name":"n","analysis":%s}`
			if r.Method == http.MethodGet {
				return madeResponse(r, http.StatusOK, fmt.Sprintf(note, analysis)), nil
			}
			writes++
			analysis = `{"plan":"the clinician's words"}`
			return madeResponse(r, http.StatusBadGateway, `{}`), nil
		})
		read := must(client.Notes.Get(t.Context(), 9))(t)
		_, err := client.Notes.Update(t.Context(), 9, updateParams{Name: new("ours")}, clinicaldoc.IfUnchanged(read))
		require.ErrorIs(t, err, clinicaldoc.ErrConflict)
		assert.Equal(t, 1, writes)
	})
}

// A text in an unknown form looks empty, but has not been emptied.
func TestUpdate_EmptiedTextThatCannotBeRead_IsRetried(t *testing.T) {
	t.Parallel()
	timedSubtest(t, "an object", func(t *testing.T) {
		writes := 0
		client := timedClient(t, func(r *http.Request) (*http.Response, error) {
			const note = `{"id":9,"name":"n","analysis":%s,"updated_at":"1999-12-01T10:11:12Z"}`
			if r.Method == http.MethodGet {
				return madeResponse(r, http.StatusOK, fmt.Sprintf(note, `{"plan":"words"}`)), nil
			}
			if writes++; writes == 1 {
				return madeResponse(r, http.StatusBadGateway, `{}`), nil
			}
			return madeResponse(r, http.StatusOK, fmt.Sprintf(note, `""`)), nil
		})
		must(client.Notes.Update(t.Context(), 9, updateParams{Analysis: new("")}))(t)
		assert.Equal(t, 2, writes)
	})
}

// An update counts as carried out only if the note has each text that was sent, an emptied one too.
func TestUpdate_NotCarriedOut_IsRetried(t *testing.T) {
	t.Parallel()
	subtests(t, map[string]updateParams{
		"name":             {Name: new("ours")},
		"transcription":    {Transcription: new("ours")},
		"analysis":         {Analysis: new("ours")},
		"emptied analysis": {Analysis: new("")},
	}, func(t *testing.T, params updateParams) {
		d := newNoteServer()
		client, read := d.clientAndNote(t)
		d.faults = []writeFault{lostWrite}
		must(client.Notes.Update(socketContext(t), 9, params, clinicaldoc.IfUnchanged(read)))(t)
		assert.Len(t, d.written, 2)
	})
}

func TestSign_LostResponse_SignsNothingElse(t *testing.T) {
	t.Parallel()
	unavailable := writeFault{status: http.StatusServiceUnavailable}
	unknown := clinicaldoc.ErrOutcomeUnknown
	noRetry := []clinicaldoc.CallOption{clinicaldoc.WithoutRetry()}
	type test struct {
		faults []writeFault
		edited bool // a clinician edits the note after the last of them
		reads  []int
		opts   []clinicaldoc.CallOption
		puts   int
		errors []error // none: the note is signed
	}
	subtests(t, map[string]test{
		"signed":                  {faults: []writeFault{actedThenLost}, puts: 1},
		"signed, without retries": {faults: []writeFault{actedThenLost}, opts: noRetry, puts: 1},
		"signed, then edited":     {faults: []writeFault{actedThenLost}, edited: true, puts: 1},
		"signed, then a 502":      {faults: []writeFault{{acts: true, status: http.StatusBadGateway}}, puts: 1},
		"signed, then a redirect": {faults: []writeFault{{acts: true, status: http.StatusFound}}, puts: 1},
		"signed, then a page": {
			faults: []writeFault{{acts: true, status: http.StatusOK, body: "<html></html>"}}, puts: 1,
		},
		"not signed":             {faults: []writeFault{lostWrite}, puts: 2},
		"rate limited, then not": {faults: []writeFault{{status: http.StatusTooManyRequests}}, puts: 2},
		"failing to the end": {faults: slices.Repeat([]writeFault{unavailable}, 4), puts: 4,
			errors: []error{clinicaldoc.ErrServer, unknown}},
		"the text changed": {faults: []writeFault{unavailable}, edited: true, puts: 1,
			errors: []error{clinicaldoc.ErrConflict, unknown}},
		"the note cannot be read": {faults: []writeFault{unavailable}, reads: []int{403, 403}, puts: 1,
			errors: []error{clinicaldoc.ErrForbidden, unknown}},
		"the note is gone": {faults: []writeFault{unavailable}, reads: []int{404, 404}, puts: 1,
			errors: []error{clinicaldoc.ErrNotFound, unknown}},
		"the note is not complete": {
			faults: []writeFault{{status: 503, then: func(n *servedNote) { n.Has.Content = false }}}, puts: 1,
			errors: []error{clinicaldoc.ErrNoteIncomplete, clinicaldoc.ErrServer, unknown},
		},
		"no updated_at to go by": {
			faults: []writeFault{{then: func(n *servedNote) { n.UpdatedAt = time.Time{} }}}, puts: 1,
			errors: []error{clinicaldoc.ErrConflict, unknown},
		},
	}, func(t *testing.T, tt test) {
		d := newNoteServer()
		d.reads = tt.reads
		d.faults = slices.Clone(tt.faults)
		if tt.edited {
			d.faults[len(d.faults)-1].then = d.byClinician
		}
		note, err := d.client(t).Notes.Sign(socketContext(t), 9, tt.opts...)
		requireAll(t, err, tt.errors)
		if len(tt.errors) == 0 {
			require.NoError(t, err)
			assert.True(t, note.Has.Signed)
		}
		assert.Len(t, d.written, tt.puts)
		assert.Equal(t, len(tt.errors) == 0, d.note.Has.Signed)
	})
}

// A success whose note is not signed is an error, unless the note is signed when it is read again.
func TestSign_SuccessThatTheNoteDenies_IsAnError(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		answered, read clinicaldoc.Stage
		want           []error
	}{
		{stageTranscribed, stageTranscribed, []error{clinicaldoc.ErrNoteIncomplete, clinicaldoc.ErrOutcomeUnknown}},
		{stageComplete, stageComplete, []error{clinicaldoc.ErrUnexpectedResponse, clinicaldoc.ErrOutcomeUnknown}},
		{stageComplete, stageSigned, nil}, // the response was of a moment before
	} {
		client := serve(t,
			call{method: http.MethodPut, url: notesPath + "/9/sign", response: noteIn(9, tt.answered)},
			call{url: notesPath + "/9", response: noteIn(9, tt.read)})
		note, err := client.Notes.Sign(t.Context(), 9)
		requireAll(t, err, tt.want)
		if tt.want == nil {
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
			d.faults = []writeFault{lostWrite}
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
	d.faults = []writeFault{actedThenLost, {status: http.StatusNotFound}}
	out := map[string]any{"kept": true}
	require.NoError(t, d.client(t).Do(socketContext(t), http.MethodDelete, "/v1/teams/9", nil, &out))
	assert.Equal(t, map[string]any{"kept": true}, out)
}

func TestRevoke_TokenInUseAfterALostResponse_Succeeds(t *testing.T) {
	t.Parallel()
	d := newNoteServer()
	d.faults = []writeFault{actedThenLost, {status: http.StatusUnauthorized}}
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
	d.faults = []writeFault{actedThenLost, {status: http.StatusUnauthorized}}
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
				client, read := d.clientAndNote(t)
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
	for name, faults := range map[string][]writeFault{"at once": nil, "after a lost response": {actedThenLost}} {
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

// A program edits and signs a note within one second. The client recognizes its own edit, and does not report a
// conflict.
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

// Another user changes the note in the second of this client's edit. Whatever they change, the change is not taken for
// the edit.
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

// Many goroutines edit with one client, which remembers its edits. The race detector checks the access to them.
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
	limited := http.StatusTooManyRequests
	type test struct {
		edit    string
		fault   writeFault
		age     time.Duration // of the note; 0: two hours
		clock   time.Duration // how far the service's clock is ahead
		reads   []int
		want    error
		written int
	}
	subtests(t, map[string]test{
		"an update that was not carried out":  {edit: "update", written: 2},
		"a deletion that was carried out":     {edit: "delete", fault: actedThenLost, written: 1},
		"it cannot be read before it is sent": {edit: "update", reads: []int{403}, want: clinicaldoc.ErrForbidden},
		"a deletion of what cannot be read": {edit: "delete", reads: []int{0, 403}, want: clinicaldoc.ErrForbidden,
			written: 1},
		"a deletion that never arrived, then a replica without the new note": {edit: "delete",
			age: 40 * time.Second, reads: []int{0, 404}, want: clinicaldoc.ErrOutcomeUnknown, written: 1},
		"the same, the service's clock an hour behind": {edit: "delete", age: time.Hour + 40*time.Second,
			clock: -time.Hour, reads: []int{0, 404}, want: clinicaldoc.ErrOutcomeUnknown, written: 1},
		"somebody else deleted it": {edit: "delete", fault: writeFault{status: limited}, reads: []int{0, 404},
			want: clinicaldoc.ErrNotFound, written: 1},
		"somebody else wrote the same": {edit: "update", fault: writeFault{status: limited,
			then: func(n *servedNote) { n.Analysis = "ours" }}, want: clinicaldoc.ErrConflict, written: 1},
		"an update that was carried out, and another text changed": {edit: "update", fault: writeFault{acts: true,
			then: func(n *servedNote) { n.Transcription = "other words" }}, want: clinicaldoc.ErrConflict, written: 1},
	}, func(t *testing.T, tt test) {
		d := newNoteServer()
		d.clock = tt.clock
		d.age = cmp.Or(tt.age, d.age)
		client, read := d.clientAndNote(t)
		d.faults = []writeFault{tt.fault}
		d.reads = tt.reads
		err := edits()[tt.edit](socketContext(t), client, clinicaldoc.IfUnchanged(read))
		require.ErrorIs(t, err, tt.want)
		assert.Len(t, d.written, tt.written)
		if conflict, ok := errors.AsType[*clinicaldoc.ConflictError](err); ok {
			assert.Equal(t, d.note.Transcription, conflict.Current.Transcription)
			assert.Equal(t, tt.fault.acts, strings.Contains(err.Error(), "the change was made"), err)
		}
	})
}

func TestIfUnchanged_EditedBeforeARetry_IsAConflict(t *testing.T) {
	t.Parallel()
	for name, call := range edits() {
		for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			t.Run(name+" "+http.StatusText(status), func(t *testing.T) {
				t.Parallel()
				d := newNoteServer()
				client, read := d.clientAndNote(t)
				d.faults = []writeFault{{status: status, then: d.byClinician}}
				d.reads = []int{0, 0, http.StatusForbidden}
				err := call(socketContext(t), client, clinicaldoc.IfUnchanged(read))
				require.ErrorIs(t, err, clinicaldoc.ErrConflict)
				assert.Len(t, d.reads, 1, "the note is read before each attempt, and not after the conflict")
				assert.Equal(t, status == http.StatusServiceUnavailable, errors.Is(err, clinicaldoc.ErrOutcomeUnknown))
				assert.Equal(t, status == http.StatusTooManyRequests, errors.Is(err, clinicaldoc.ErrRateLimited))
				assert.Len(t, d.written, 1)
				assert.Equal(t, "the clinician's words", d.note.Analysis)
			})
		}
	}
}

// The IDs of some services' patients are not integers. They are compared as they were sent.
func TestIfUnchanged_PatientWithoutAnID_IsCompared(t *testing.T) {
	t.Parallel()
	type test struct {
		read, written string
		isSame        bool
	}
	subtests(t, map[string]test{
		"the same reference":    {`"patient":{"id":"synthetic-a"}`, `"patient":{"id":"synthetic-a"}`, true},
		"another reference":     {`"patient":{"id":"synthetic-a"}`, `"patient":{"id":"synthetic-b"}`, false},
		"the same patient_id":   {`"patient_id":"synthetic-a"`, `"patient_id": "synthetic-a"`, true},
		"another patient_id":    {`"patient_id":"synthetic-a"`, `"patient_id":"synthetic-b"`, false},
		"one of two is another": {`"patient":{"id":5},"patient_id":6`, `"patient":{"id":5},"patient_id":7`, false},
		"no patient comes back": {`"patient_id":"synthetic-a"`, `"created_at":"2024-05-01T10:11:12Z"`, true},
	}, func(t *testing.T, tt test) {
		client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			patient := tt.read
			if r.Method == http.MethodPut {
				patient = tt.written
			}
			return madeResponse(r, http.StatusOK, `{"id":9,"name":"Visit",`+patient+`}`), nil
		}))
		note := must(client.Notes.Get(t.Context(), 9))(t)
		_, err := client.Notes.Update(t.Context(), 9, updateParams{Name: new("Visit")}, clinicaldoc.IfUnchanged(note))
		if tt.isSame {
			require.NoError(t, err)
			return
		}
		require.ErrorIs(t, err, clinicaldoc.ErrPatientMismatch)
	})
}

// Extra may move the note to another patient. The written note must then name that one.
func TestIfUnchanged_ExtraNamesAPatient_IsExpectedAfterwards(t *testing.T) {
	t.Parallel()
	const read = `{"id":9,"name":"Visit","patient":{"id":7},"patient_id":7}`
	for _, tt := range []struct {
		extra   map[string]any
		written string
		isFine  bool
	}{
		{map[string]any{"patient_id": 8}, `"patient":{"id":8}`, true},
		{map[string]any{"patient_id": 8}, `"patient_id":8`, true},
		{map[string]any{"patient_id": 8}, ``, true},
		{map[string]any{"patient_id": 8}, `"patient":{"id":7}`, false},
		{map[string]any{"patient_id": 8}, `"patient":{"id":6}`, false},
		{map[string]any{"patient": map[string]any{"id": 8}}, `"patient":{"id":8,"name":"Synthetic"}`, true},
		{map[string]any{"patient": map[string]any{"id": 8}}, `"patient":{"id":7}`, false},
		{map[string]any{"patient_id": nil}, `"patient":null`, true},
		{map[string]any{"patient_id": nil}, `"patient":{"id":7}`, false},
		{map[string]any{"team": 8}, `"patient":{"id":8}`, false},
	} {
		client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				return madeResponse(r, http.StatusOK, read), nil
			}
			return madeResponse(r, http.StatusOK, strings.TrimSuffix(`{"id":9,"name":"Visit",`+tt.written, ",")+`}`), nil
		}))
		note := must(client.Notes.Get(t.Context(), 9))(t)
		_, err := client.Notes.Update(t.Context(), 9, updateParams{Extra: tt.extra}, clinicaldoc.IfUnchanged(note))
		if tt.isFine {
			require.NoError(t, err, "%v", tt)
		} else {
			require.ErrorIs(t, err, clinicaldoc.ErrPatientMismatch, "%v", tt)
		}
	}
}

// The response to a conditional write is compared in all that IfUnchanged compares. What it leaves out is not.
func TestIfUnchanged_WrittenNote_IsCompared(t *testing.T) {
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
		"nothing but texts": {true, true, texts},
		"no texts":          {true, true, `"name":"Visit"`},
		"no name": {true, true,
			`"transcription":"first words","analysis":"first thoughts","created_at":"2024-05-01T10:11:12Z"`},
		"space at a text's ends":         {true, true, strings.Replace(texts, "first words", ` first words\n`, 1)},
		"another name":                   {false, false, strings.Replace(texts, "Visit", "Other", 1)},
		"another transcription":          {false, false, strings.Replace(texts, "first words", "other", 1)},
		"an emptied transcription":       {false, false, strings.Replace(texts, "first words", "", 1)},
		"another analysis":               {false, false, strings.Replace(texts, "first thoughts", "other", 1)},
		"an emptied analysis":            {false, false, strings.Replace(texts, "first thoughts", "", 1)},
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
	assert.Contains(t, err.Error(), "the service or somebody", what)
	assert.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown, what)
}

// A note that gets a patient between the read and the write is not the note that the caller has seen.
func TestIfUnchanged_PatientOfTheWrittenNote_IsCompared(t *testing.T) {
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

func TestConditions_Two_AreRejected(t *testing.T) {
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

// Each field of ProgressNote is compared, or is named in notCompared. So a field that is added later cannot be
// forgotten.
func TestVersion_EveryField_IsCoveredOrNamed(t *testing.T) {
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

// After a refusal Sign reads the note. What it reads decides whether the error matches ErrNoteIncomplete; the status
// and the message of the refusal do not. If the note cannot be read, the refusal is returned as it is.
func TestSign_Refused_NoteDecidesWhetherItIsIncomplete(t *testing.T) {
	t.Parallel()
	const saysIncomplete = "A note without complete transcription and analysis cannot be signed."
	type test struct {
		message        string
		complete       bool
		reads          []int
		wantIncomplete bool
	}
	subtests(t, map[string]test{
		"says incomplete, note is incomplete":     {message: saysIncomplete, wantIncomplete: true},
		"says incomplete, note is complete":       {message: saysIncomplete, complete: true},
		"says incomplete, note cannot be read":    {message: saysIncomplete, reads: []int{403, 403}},
		"says another thing, note is incomplete":  {message: "synthetic", wantIncomplete: true},
		"says another thing, note is complete":    {message: "synthetic", complete: true},
		"says another thing, note cannot be read": {message: "synthetic", reads: []int{403, 403}},
	}, func(t *testing.T, tt test) {
		for _, code := range []int{400, 403, 409, 422, 423, 500} {
			for _, opts := range [][]clinicaldoc.CallOption{nil, {clinicaldoc.WithoutRetry()}} {
				d := newNoteServer()
				d.note.Has.Content = tt.complete
				d.reads = tt.reads
				d.faults = slices.Repeat([]writeFault{{status: code, body: `{"message":"` + tt.message + `"}`}}, 4)
				_, err := d.client(t).Notes.Sign(socketContext(t), 9, opts...)
				refusal := requireAs[*clinicaldoc.Error](t, err)
				assert.Equal(t, code, refusal.StatusCode)
				assert.Equal(t, tt.message, refusal.Message)
				assert.Equal(t, tt.wantIncomplete, errors.Is(err, clinicaldoc.ErrNoteIncomplete), code)
				if code < 500 { // a PUT that failed with 500 may be repeated
					assert.Equal(t, []string{"PUT", "GET"}, d.requests, code)
				}
			}
		}
	})
}

// Sign reads the note only if that can tell more than the response did.
func TestSign_NothingToLearn_ReadsNothing(t *testing.T) {
	t.Parallel()
	limited := writeFault{status: http.StatusTooManyRequests}
	type test struct {
		faults   []writeFault
		reads    []int
		opts     []clinicaldoc.CallOption
		want     []error
		requests []string
	}
	subtests(t, map[string]test{
		"unauthorized": {faults: []writeFault{{status: 401}}, want: []error{clinicaldoc.ErrUnauthorized},
			requests: []string{"PUT"}},
		"not found": {faults: []writeFault{{status: 404}}, want: []error{clinicaldoc.ErrNotFound},
			requests: []string{"PUT"}},
		"redirected": {faults: []writeFault{{status: 307}}, want: []error{clinicaldoc.ErrUnexpectedResponse},
			requests: []string{"PUT"}},
		"asked to wait": {faults: []writeFault{limited, limited}, want: []error{clinicaldoc.ErrRateLimited},
			requests: []string{"PUT", "PUT"}},
		"lost, then asked to wait, which is not a retry": {
			faults:   []writeFault{lostWrite, limited, limited},
			want:     []error{clinicaldoc.ErrRateLimited, clinicaldoc.ErrOutcomeUnknown},
			requests: []string{"PUT", "GET", "PUT", "GET", "PUT"},
		},
		"lost, and the read asked to wait": {
			faults: []writeFault{{status: 502}}, reads: []int{429, 429}, want: []error{clinicaldoc.ErrOutcomeUnknown},
			requests: []string{"PUT", "GET", "GET"},
		},
		"refused, and the read asked to wait, without retries": {
			faults: []writeFault{{status: 403}}, reads: []int{429},
			opts: []clinicaldoc.CallOption{clinicaldoc.WithoutRetry()}, want: []error{clinicaldoc.ErrForbidden},
			requests: []string{"PUT", "GET"},
		},
		"an argument is invalid": {
			opts: []clinicaldoc.CallOption{clinicaldoc.WithHeader("Authorization", "synthetic")},
			want: []error{clinicaldoc.ErrInvalidArgument},
		},
	}, func(t *testing.T, tt test) {
		d := newNoteServer()
		d.faults = tt.faults
		d.reads = tt.reads
		once := clinicaldoc.RetryPolicy{MaxRetries: 1, MinWait: socketPolicy.MinWait, MaxWait: socketPolicy.MaxWait}
		_, err := d.client(t, clinicaldoc.WithRetry(once)).Notes.Sign(socketContext(t), 9, tt.opts...)
		requireAll(t, err, tt.want)
		assert.Equal(t, tt.requests, d.requests)
	})
}

func TestVersion_AnyChange_ChangesIt(t *testing.T) {
	t.Parallel()
	var note, again clinicaldoc.ProgressNote
	require.NoError(t, json.Unmarshal([]byte(`{"id":5,"name":"a","transcription":"b\r\nc","analysis":"d",
		"patient":{"id":7},"has":{"content":true,"transcription":true},"team_id":1,"user_id":1,
		"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05.123456Z"}`), &note))
	version := note.Version()
	assert.Len(t, version, 20)
	encoded := must(json.Marshal(note))(t)
	require.NoError(t, json.Unmarshal(encoded, &again))
	assert.Equal(t, version, again.Version())

	type change = func(*clinicaldoc.ProgressNote)
	same := func(change change) bool {
		changed := note
		change(&changed)
		return changed.Version() == version
	}
	assert.True(t, same(func(n *clinicaldoc.ProgressNote) { n.Transcription = "b\nc" }), "line ends are alike")
	assert.True(t, same(func(n *clinicaldoc.ProgressNote) { n.UpdatedAt = n.UpdatedAt.In(time.FixedZone("", 3600)) }))
	for what, change := range map[string]change{
		"a space":       func(n *clinicaldoc.ProgressNote) { n.Name = "a " },
		"an empty text": func(n *clinicaldoc.ProgressNote) { n.Transcription = "" },
		"upper case":    func(n *clinicaldoc.ProgressNote) { n.Analysis = "D" },
		"a text's end":  func(n *clinicaldoc.ProgressNote) { n.Name, n.Transcription = "ab", "\r\nc" },
		"texts swapped": func(n *clinicaldoc.ProgressNote) { n.Transcription, n.Analysis = n.Analysis, n.Transcription },
		"not complete":  func(n *clinicaldoc.ProgressNote) { n.Has.Content = false },
		"patient":       func(n *clinicaldoc.ProgressNote) { n.Patient = object(t, `{"id":8}`) },
		"no patient":    func(n *clinicaldoc.ProgressNote) { n.Patient = clinicaldoc.Object{} },
		"a microsecond": func(n *clinicaldoc.ProgressNote) { n.UpdatedAt = n.UpdatedAt.Add(time.Microsecond) },
	} {
		assert.False(t, same(change), what)
	}
}

// The service does not describe a patient. A patient without a number is still distinguished from other patients, and
// from no patient.
func TestVersion_PatientWithoutAnID_Counts(t *testing.T) {
	t.Parallel()
	versions := map[string]string{}
	for _, patient := range []string{
		`null`,
		`{"reference":"synthetic-a"}`,
		`{"reference":"synthetic-b"}`,
		`{"id":7,"reference":"synthetic-a"}`,
		`null,"patient_id":"synthetic-a"`,
		`null,"patient_id":"synthetic-b"`,
		`{"id":5},"patient_id":6`,
		`{"id":5},"patient_id":7`,
	} {
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

// Whether the members of Extra were written is visible only in the members of the note.
func TestUpdate_LostResponseWithExtra_IsFoundOrRetried(t *testing.T) {
	t.Parallel()
	const beyondFloat64 = int64(1<<53 + 1)
	for name, tc := range map[string]struct {
		sent   any    // as the status
		echoed string // by the read after the lost response
		puts   int
	}{
		"carried out":                        {"final", `"status":"final"`, 1},
		"not carried out":                    {"final", `"status":"draft"`, 2},
		"the service does not give it back":  {"final", `"team_id":1`, 2},
		"a number":                           {7, `"status":7`, 1},
		"a number in another form":           {7, `"status":7.0`, 1},
		"a fraction in another form":         {0.5, `"status":5e-1`, 1},
		"a number as a text":                 {7, `"status":"7"`, 2},
		"a large number":                     {beyondFloat64, `"status":9007199254740993`, 1},
		"the float64 of a large number":      {beyondFloat64, `"status":9007199254740992`, 2},
		"that float64 in another form":       {beyondFloat64, `"status":9007199254740992.0`, 2},
		"a number above all float64":         {json.Number("1e400"), `"status":2e400`, 2},
		"the same number above all float64":  {json.Number("1e400"), `"status":1e400`, 1},
		"a list":                             {[]any{7, nil}, `"status":[7,null]`, 1},
		"another list":                       {[]any{7, nil}, `"status":[7]`, 2},
		"an object in another order":         {map[string]any{"a": 1, "b": true}, `"status":{"b":true,"a":1}`, 1},
		"an object with one member more":     {map[string]any{"a": 1}, `"status":{"a":1,"b":true}`, 2},
		"null":                               {nil, `"status":null`, 1},
		"null, and the member is left out":   {nil, `"team_id":1`, 2},
		"an object in the place of a number": {7, `"status":{}`, 2},
	} {
		read := `{"id":7,"name":"n","analysis":"a","updated_at":"2024-05-01T10:11:12Z",` + tc.echoed + `}`
		puts, err := updateWithLostResponse(t, map[string]any{"status": tc.sent}, read)
		require.NoError(t, err, name)
		assert.Equal(t, tc.puts, puts, name)
	}
}

// A service may accept members that are described only for reading.
func TestUpdate_LostResponseWithDescribedMember_IsFound(t *testing.T) {
	t.Parallel()
	changedSince := time.Now().Add(time.Hour).UTC().Format(time.RFC3339) // however long the test takes
	read := `{"id":7,"name":"n","user_id":4,"error_state":null,"updated_at":"` + changedSince + `"}`
	puts, err := updateWithLostResponse(t, map[string]any{"user_id": 4, "error_state": nil}, read)
	require.NoError(t, err)
	assert.Equal(t, 1, puts)

	puts, err = updateWithLostResponse(t, map[string]any{"user_id": 5}, read)
	require.ErrorIs(t, err, clinicaldoc.ErrConflict)
	assert.Equal(t, 1, puts)
}

// updateWithLostResponse makes an update with these further members. Its first response is lost, and the service
// answers every other request with the note. The result is how many updates were sent.
func updateWithLostResponse(t *testing.T, extra map[string]any, note string) (puts int, err error) {
	t.Helper()
	client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPut {
			puts++
			_, _ = io.Copy(io.Discard, r.Body)
			if puts == 1 {
				return nil, io.ErrUnexpectedEOF
			}
		}
		return madeResponse(r, http.StatusOK, note), nil
	}), clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 2, MinWait: 1, MaxWait: 1}))
	_, err = client.Notes.Update(t.Context(), 7, updateParams{Extra: extra})
	return puts, err
}
