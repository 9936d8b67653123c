package faultmatrix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	// like names the column whose promises hold here too, where a row has none for this one.
	like string
	// named marks a column that only rows know which name it.
	named bool
	// guarded marks an edit that reads the note first: faults strike after that.
	guarded bool
	// listed marks a walk through two pages or more: faults strike the second.
	listed bool
	// refuses marks a create whose BeforeCommit always refuses: there is never a note.
	refuses bool
	// large marks a create that is announced.
	large bool
}

const (
	canary        = "canary"      // stands in every secret and every text about a patient
	plainUpload   = 384 << 10     // more than the sockets' buffers hold
	announcedSize = 1<<20 + 4<<10 // above the size from which uploads are announced
	patientID     = 7
	exports       = "/v1/exports" // an endpoint that only Do can reach
	newName       = "new canary name"
	createdName   = "created canary note"
)

func operations() []operation {
	return []operation{
		createOf("Create", plainUpload, nil),
		createOf("Create+", announcedSize, nil),
		createOf("Create!", plainUpload, (*world).agree),
		createOf("Create+!", announcedSize, (*world).agree),
		createOf("Create-", plainUpload, (*world).refuse),
		createOf("Create+-", announcedSize, (*world).refuse),
		readOf("List", "Notes.List", fixed("/v1/progress-notes"), func(ctx context.Context, w *world) (func() bool, error) {
			page, err := w.client.Notes.List(ctx, clinicaldoc.ListNotesParams{PatientID: patientID})
			return func() bool { return len(page.Items) == len(w.notes) }, err
		}),
		allOf("All", clinicaldoc.ListNotesParams{}),
		allOf("AllAhead", clinicaldoc.ListNotesParams{Prefetch: 2}),
		allOf("AllVerify", clinicaldoc.ListNotesParams{Verify: true}),
		readOf("Get", "Notes.Get", ofNote(""), func(ctx context.Context, w *world) (func() bool, error) {
			note, err := w.client.Notes.Get(ctx, w.note)
			return func() bool { return note.ID == w.note && strings.Contains(note.Name, canary) }, err
		}),
		update(), guarded(update()),
		remove(), guarded(remove()),
		sign(), guarded(sign()),
		readOf("AudioURL", "Notes.AudioURL", ofNote("/audio-url"), func(ctx context.Context, w *world) (func() bool, error) {
			address, err := w.client.Notes.AudioURL(ctx, w.note)
			return func() bool { return strings.Contains(address.URL, "X-Amz-Signature") }, err
		}),
		downloadOf("Download", clinicaldoc.DownloadParams{}),
		downloadOf("DownloadAny", clinicaldoc.DownloadParams{IgnoreSize: true}),
		openOf(),
		readOf("Tokens", "Tokens.List", fixed("/v1/auth/tokens"), func(ctx context.Context, w *world) (func() bool, error) {
			tokens, err := w.client.Tokens.List(ctx)
			return func() bool { return len(tokens) == 2 }, err
		}),
		{
			name: "Revoke", sdk: "Tokens.Revoke", kind: repeats, method: http.MethodDelete,
			path: func(w *world) string { return fmt.Sprint("/v1/auth/tokens/", w.token.ID) },
			call: func(ctx context.Context, w *world) (func() bool, error) {
				confirmation, err := w.client.Tokens.Revoke(ctx, w.token.ID)
				return func() bool { return confirmation != nil }, err
			},
			done: (*world).revoked,
		},
		readOf("Me", "Users.Me", fixed("/user"), func(ctx context.Context, w *world) (func() bool, error) {
			user, err := w.client.Users.Me(ctx)
			return func() bool { return user.ID == w.user.ID }, err
		}),
		doOf("DoGET", http.MethodGet, "/user", reads, nil),
		doOf("DoPOST", http.MethodPost, exports, creates, map[string]string{"name": createdName}),
		doOf("DoHEAD", http.MethodHead, "/user", reads, nil),
		doOf("DoPATCH", http.MethodPatch, exports, creates, map[string]string{"name": createdName}),
	}
}

// readOf is a read of the service's.
func readOf(name, sdk string, path func(*world) string, call func(context.Context, *world) (func() bool, error)) operation {
	return operation{name: name, sdk: sdk, kind: reads, method: http.MethodGet, path: path, call: call}
}

// createOf is a Create with a recording of the given size and, unless it is nil, a BeforeCommit.
func createOf(name string, size int64, beforeCommit func(*world) error) operation {
	return operation{
		name: name, like: strings.TrimRight(name, "!-"), refuses: strings.HasSuffix(name, "-"), large: size == announcedSize,
		sdk: "Notes.Create", kind: creates, method: http.MethodPost, path: fixed("/v1/progress-notes"),
		call: func(ctx context.Context, w *world) (func() bool, error) {
			params := clinicaldoc.CreateNoteParams{
				Name: createdName, PatientID: patientID, PromptID: 3, Audio: clinicaldoc.AudioBytes(canary+".wav", tape()[:size]),
			}
			if beforeCommit != nil {
				params.BeforeCommit = func(context.Context) error { return beforeCommit(w) }
			}
			note, err := w.client.Notes.Create(ctx, params)
			return func() bool { return note.Name == createdName && w.holdsRecording(note.ID, size) }, err
		},
		done: func(w *world) int { return len(w.created()) },
	}
}

func update() operation {
	return operation{
		name: "Update", sdk: "Notes.Update", kind: repeats, method: http.MethodPut, path: ofNote(""),
		call: func(ctx context.Context, w *world) (func() bool, error) {
			note, err := w.client.Notes.Update(ctx, w.note, clinicaldoc.UpdateNoteParams{Name: new(newName)}, w.guard...)
			return func() bool { return note.ID == w.note && note.Name == newName }, err
		},
		done: func(w *world) int { return w.count(func(n clinicaldoctest.Note) bool { return n.Name == newName }) },
	}
}

func remove() operation {
	return operation{
		name: "Delete", sdk: "Notes.Delete", kind: repeats, method: http.MethodDelete, path: ofNote(""),
		call: func(ctx context.Context, w *world) (func() bool, error) {
			confirmation, err := w.client.Notes.Delete(ctx, w.note, w.guard...)
			return func() bool { return confirmation != nil }, err
		},
		done: func(w *world) int {
			return 1 - w.count(func(n clinicaldoctest.Note) bool { return n.ID == w.note })
		},
	}
}

func sign() operation {
	return operation{
		name: "Sign", sdk: "Notes.Sign", kind: repeats, method: http.MethodPut, path: ofNote("/sign"),
		call: func(ctx context.Context, w *world) (func() bool, error) {
			note, err := w.client.Notes.Sign(ctx, w.note, w.guard...)
			return func() bool { return note.ID == w.note && note.Has.Signed }, err
		},
		done: func(w *world) int {
			return w.count(func(n clinicaldoctest.Note) bool { return n.Stage == clinicaldoctest.StageSigned })
		},
	}
}

// guarded is the edit with IfUnchanged and the note as the caller read it, out of reach of the fault.
func guarded(op operation) operation {
	edit := op.call
	op.name, op.like, op.guarded = op.name+"=", op.name, true
	op.call = func(ctx context.Context, w *world) (func() bool, error) {
		read, err := w.box.Client().Notes.Get(ctx, w.note)
		if err != nil {
			return nil, err
		}
		w.guard = []clinicaldoc.CallOption{clinicaldoc.IfUnchanged(read)}
		if w.fault.afterRead != nil {
			w.fault.afterRead(w)
		}
		return edit(ctx, w)
	}
	return op
}

func downloadOf(name string, params clinicaldoc.DownloadParams) operation {
	return operation{
		name: name, like: "Download", sdk: "Notes.DownloadAudio", kind: storage, method: http.MethodGet, path: fixed(audioPrefix),
		call: func(ctx context.Context, w *world) (func() bool, error) {
			var got bytes.Buffer
			n, err := w.client.Notes.DownloadAudio(ctx, w.note, &got, params)
			return func() bool { return bytes.Equal(got.Bytes(), w.recording) && n == int64(got.Len()) }, err
		},
	}
}

// openOf opens the recording, which is one request, as a download is; the bytes that came with it are compared.
func openOf() operation {
	op := downloadOf("Open", clinicaldoc.DownloadParams{})
	op.sdk, op.call = "Notes.OpenAudio", func(ctx context.Context, w *world) (func() bool, error) {
		stream, err := w.client.Notes.OpenAudio(ctx, w.note)
		if err != nil {
			return nil, err
		}
		got := make([]byte, 1000)
		n, err := io.ReadFull(stream, got)
		return func() bool {
			return bytes.HasPrefix(w.recording, got[:n]) && stream.Size() == int64(len(w.recording))
		}, errors.Join(err, stream.Close())
	}
	return op
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

// allOf ranges over pages of two; whatever ends it, the rows before are right and the error comes once.
func allOf(name string, params clinicaldoc.ListNotesParams) operation {
	op := operation{name: name, sdk: "Notes.List", kind: reads, method: http.MethodGet, path: fixed("/v1/progress-notes"), listed: true, named: name != "All"}
	op.call = func(ctx context.Context, w *world) (func() bool, error) {
		params := params
		params.PatientID, params.PerPage, params.Sort = patientID, 2, w.sort
		seen := map[int64]bool{}
		var failures []error
		twice, afterEnd := false, false
		for note, err := range w.client.Notes.All(ctx, params) {
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
		return func() bool { return w.heldThroughout(seen) }, nil
	}
	return op
}

func fixed(path string) func(*world) string { return func(*world) string { return path } }

func ofNote(suffix string) func(*world) string {
	return func(w *world) string { return fmt.Sprint("/v1/progress-notes/", w.note, suffix) }
}
