package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
	"time"
)

const (
	token   = "1|synthetic-benchmark-token" // that every client authenticates with
	deleted = "The synthetic note was deleted."

	pages   = 50
	latency = 20 * time.Millisecond
)

// Prefixes of the base URL change how the service behaves.
const (
	slow    = "/slow"    // every response takes latency longer
	drained = "/drained" // uploads are read and not looked at, as fast as it goes
)

// handler serves the endpoints that are measured. It renders its responses beforehand, so that its own work weighs
// little. Of notes only the id differs.
func handler() http.Handler {
	const one = collection + "/{id}"
	plain, edited, signed := newNote(0), newNote(0), newNote(0)
	edited.Name = edit.Name
	edited.Analysis = edit.Analysis
	signed.Has.Signed = true
	whole := plain.json()
	lists := make([][]byte, pages)
	for i := range lists {
		lists[i] = renderPage(i+1, whole)
	}
	api := http.NewServeMux()
	note := func(document []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { respond(w, appendNote(nil, r.PathValue("id"), document)) }
	}
	api.HandleFunc("GET "+one, note(whole))
	api.HandleFunc("PUT "+one+"/sign", note(signed.json()))
	update := note(edited.json())
	api.HandleFunc("PUT "+one, func(w http.ResponseWriter, r *http.Request) {
		var sent noteUpdate
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil || sent != edit || r.ContentLength < 0 {
			http.Error(w, "the body is not the update", http.StatusUnprocessableEntity)
			return
		}
		update(w, r)
	})
	api.HandleFunc("DELETE "+one, func(w http.ResponseWriter, _ *http.Request) {
		respond(w, []byte(`{"message":"`+deleted+`"}`))
	})
	api.HandleFunc("GET "+collection, func(w http.ResponseWriter, r *http.Request) {
		page, err := strconv.Atoi(cmp.Or(r.FormValue("page"), "1"))
		isPage := err == nil && page >= 1 && page <= pages
		if !isPage || r.FormValue("per_page") != strconv.Itoa(pageSize) {
			http.Error(w, "there is no such page", http.StatusUnprocessableEntity)
			return
		}
		respond(w, lists[page-1])
	})
	api.HandleFunc("POST "+collection, serveCreate)

	all := http.NewServeMux()
	all.Handle("/", api)
	all.Handle(slow+"/", http.StripPrefix(slow, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(latency)
		api.ServeHTTP(w, r)
	})))
	all.HandleFunc("POST "+drained+collection, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{r.Body}, make([]byte, 256<<10)); err == nil {
			respond(w, appendNote(nil, "1", whole))
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "unauthenticated", http.StatusUnauthorized)
			return
		}
		all.ServeHTTP(w, r)
	})
}

// appendNote appends the note, which has the id 0, with another one.
func appendNote(b []byte, id string, note []byte) []byte {
	return append(append(append(b, `{"id":`...), id...), note[len(`{"id":0`):]...)
}

// renderPage makes a page of notes numbered through, so every page holds others.
func renderPage(page int, note []byte) []byte {
	b := []byte(`{"data":[`)
	for i := range pageSize {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendNote(b, strconv.Itoa(1+(page-1)*pageSize+i), note)
	}
	b = append(b, `],"links":{"first":"http:\/\/example.invalid\/v1\/progress-notes?page=1","prev":null},`...)
	return fmt.Appendf(b, `"meta":{"current_page":%d,"last_page":%d,"per_page":%d,"total":%d}}`,
		page, pages, pageSize, pages*pageSize)
}

// serveCreate checks that the form arrived complete and unchanged.
func serveCreate(w http.ResponseWriter, r *http.Request) {
	created := newNote(1)
	form, err := r.MultipartReader()
	for err == nil {
		var part *multipart.Part
		if part, err = form.NextPart(); err == nil {
			err = readPart(part, &created)
		}
	}
	if !errors.Is(err, io.EOF) {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	respond(w, created.json())
}

// readPart puts what the part holds into the note: the title, or the recording's size.
func readPart(part *multipart.Part, created *note) error {
	if part.FormName() == "name" {
		name, err := io.ReadAll(part)
		created.Name = string(name)
		return err
	}
	got, size, err := checksum(part)
	want, _, _ := checksum(recording{size}.reader())
	if got != want || part.FileName() == "" {
		return errors.New("the recording is not what was sent")
	}
	created.Audio.Size = size
	return err
}

// respond sends a document. Most are long enough that net/http sends them in chunks, without a Content-Length.
func respond(w http.ResponseWriter, document []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Request-Id", "synthetic-request")
	_, _ = w.Write(document)
}
