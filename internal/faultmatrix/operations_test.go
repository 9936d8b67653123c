package faultmatrix

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// kind says what a repetition of an operation does, and where it goes.
type kind int

const (
	reads   kind = iota
	repeats      // the same end state as once
	creates      // a second thing
	storage      // a read that goes to the storage
)

// operation is one column of the matrix.
type operation struct {
	name   string
	sdk    string // as Attempt.Operation tells it
	kind   kind
	method string
	path   func(*world) string
	// call makes the call and returns a check of its result.
	call func(context.Context, *world) (right func() bool, err error)
	// done tells how often the operation is in place, as the box has it; nil for reads.
	done func(*world) int
	// methodOnly marks a column that exists for its HTTP method.
	methodOnly bool
}

const (
	canary        = "canary" // stands in every secret and every text about a patient
	plainUpload   = 512 << 10
	announcedSize = 5 << 18 // above the size from which uploads are announced
	patientID     = 7
	exports       = "/v1/exports" // an endpoint that only Do can reach
	newName       = "new canary name"
	createdName   = "created canary note"
)

func operations() []operation {
	return []operation{
		createOf("Create", plainUpload),
		createOf("Create+", announcedSize),
		{
			name: "List", sdk: "Notes.List", kind: reads, method: http.MethodGet, path: fixed("/v1/progress-notes"),
			call: func(ctx context.Context, w *world) (func() bool, error) {
				page, err := w.client.Notes.List(ctx, clinicaldoc.ListNotesParams{PatientID: patientID})
				return func() bool { return len(page.Items) == len(w.notes) }, err
			},
		},
		{name: "All", sdk: "Notes.List", kind: reads, method: http.MethodGet, path: fixed("/v1/progress-notes"), call: listAll},
		{
			name: "Get", sdk: "Notes.Get", kind: reads, method: http.MethodGet, path: ofNote(""),
			call: func(ctx context.Context, w *world) (func() bool, error) {
				note, err := w.client.Notes.Get(ctx, w.note)
				return func() bool { return note.ID == w.note && strings.Contains(note.Name, canary) }, err
			},
		},
		{
			name: "Update", sdk: "Notes.Update", kind: repeats, method: http.MethodPut, path: ofNote(""),
			call: func(ctx context.Context, w *world) (func() bool, error) {
				note, err := w.client.Notes.Update(ctx, w.note, clinicaldoc.UpdateNoteParams{Name: new(newName)})
				return func() bool { return note.ID == w.note && note.Name == newName }, err
			},
			done: func(w *world) int { return w.count(func(n clinicaldoctest.Note) bool { return n.Name == newName }) },
		},
		{
			name: "Delete", sdk: "Notes.Delete", kind: repeats, method: http.MethodDelete, path: ofNote(""),
			call: func(ctx context.Context, w *world) (func() bool, error) {
				confirmation, err := w.client.Notes.Delete(ctx, w.note)
				return func() bool { return confirmation != nil }, err
			},
			done: func(w *world) int {
				return 1 - w.count(func(n clinicaldoctest.Note) bool { return n.ID == w.note })
			},
		},
		{
			name: "Sign", sdk: "Notes.Sign", kind: repeats, method: http.MethodPut, path: ofNote("/sign"),
			call: func(ctx context.Context, w *world) (func() bool, error) {
				note, err := w.client.Notes.Sign(ctx, w.note)
				return func() bool { return note.ID == w.note && note.Has.Signed }, err
			},
			done: func(w *world) int {
				return w.count(func(n clinicaldoctest.Note) bool { return n.Stage == clinicaldoctest.StageSigned })
			},
		},
		{
			name: "AudioURL", sdk: "Notes.AudioURL", kind: reads, method: http.MethodGet, path: ofNote("/audio-url"),
			call: func(ctx context.Context, w *world) (func() bool, error) {
				address, err := w.client.Notes.AudioURL(ctx, w.note)
				return func() bool { return strings.Contains(address.URL, "X-Amz-Signature") }, err
			},
		},
		{
			name: "Download", sdk: "Notes.DownloadAudio", kind: storage, method: http.MethodGet, path: func(w *world) string { return w.audioPath() },
			call: func(ctx context.Context, w *world) (func() bool, error) {
				var got bytes.Buffer
				n, err := w.client.Notes.DownloadAudio(ctx, w.note, &got, clinicaldoc.DownloadParams{})
				return func() bool { return bytes.Equal(got.Bytes(), w.recording) && n == int64(got.Len()) }, err
			},
		},
		{
			name: "Tokens", sdk: "Tokens.List", kind: reads, method: http.MethodGet, path: fixed("/v1/auth/tokens"),
			call: func(ctx context.Context, w *world) (func() bool, error) {
				tokens, err := w.client.Tokens.List(ctx)
				return func() bool { return len(tokens) == 2 }, err
			},
		},
		{
			name: "Revoke", sdk: "Tokens.Revoke", kind: repeats, method: http.MethodDelete,
			path: func(w *world) string { return fmt.Sprint("/v1/auth/tokens/", w.token.ID) },
			call: func(ctx context.Context, w *world) (func() bool, error) {
				confirmation, err := w.client.Tokens.Revoke(ctx, w.token.ID)
				return func() bool { return confirmation != nil }, err
			},
			done: (*world).revoked,
		},
		{
			name: "Me", sdk: "Users.Me", kind: reads, method: http.MethodGet, path: fixed("/user"),
			call: func(ctx context.Context, w *world) (func() bool, error) {
				user, err := w.client.Users.Me(ctx)
				return func() bool { return user.ID == w.user.ID }, err
			},
		},
		doOf("DoGET", http.MethodGet, "/user", reads, nil),
		doOf("DoPOST", http.MethodPost, exports, creates, map[string]string{"name": createdName}),
		doOf("DoHEAD", http.MethodHead, "/user", reads, nil),
		doOf("DoPATCH", http.MethodPatch, exports, creates, map[string]string{"name": createdName}),
	}
}

// createOf is a Create with a recording of the given size.
func createOf(name string, size int64) operation {
	return operation{
		name: name, sdk: "Notes.Create", kind: creates, method: http.MethodPost, path: fixed("/v1/progress-notes"),
		call: func(ctx context.Context, w *world) (func() bool, error) {
			note, err := w.client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{
				Name: createdName, PatientID: patientID, PromptID: 3, Audio: clinicaldoc.AudioBytes(canary+".wav", tape()[:size]),
			})
			return func() bool { return note.Name == createdName && note.Audio.Size == size }, err
		},
		done: func(w *world) int { return w.count(func(n clinicaldoctest.Note) bool { return n.Name == createdName }) },
	}
}

// doOf is a call of Do with a method.
func doOf(name, method, path string, k kind, body any) operation {
	op := operation{name: name, sdk: "Do", kind: k, method: method, path: fixed(path), methodOnly: method == http.MethodHead || method == http.MethodPatch}
	op.call = func(ctx context.Context, w *world) (func() bool, error) {
		if method == http.MethodHead {
			return func() bool { return true }, w.client.Do(ctx, method, path, nil, nil)
		}
		var out any
		err := w.client.Do(ctx, method, path, body, &out)
		return func() bool { object, is := out.(map[string]any); return is && object["id"] != nil }, err
	}
	if k == creates {
		op.done = func(w *world) int { return int(w.exported.Load()) }
	}
	return op
}

// listAll ranges over two pages; whatever ends it, the rows before are right and the error comes once.
func listAll(ctx context.Context, w *world) (func() bool, error) {
	seen := map[int64]bool{}
	var failures []error
	twice, afterEnd := false, false
	for note, err := range w.client.Notes.All(ctx, clinicaldoc.ListNotesParams{PatientID: patientID, PerPage: 2}) {
		afterEnd = afterEnd || len(failures) > 0
		if err != nil {
			failures = append(failures, err)
			continue
		}
		twice = twice || seen[note.ID]
		seen[note.ID] = true
	}
	switch {
	case twice || afterEnd || len(failures) > 1:
		return nil, fmt.Errorf("the iterator went on after %v, or gave a row twice", failures)
	case len(failures) == 1:
		return nil, failures[0]
	}
	return func() bool { return len(seen) == len(w.notes) }, nil
}

func fixed(path string) func(*world) string { return func(*world) string { return path } }

func ofNote(suffix string) func(*world) string {
	return func(w *world) string { return fmt.Sprint("/v1/progress-notes/", w.note, suffix) }
}
