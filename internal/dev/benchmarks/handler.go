package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
	"sync"
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

// A note is rendered once: only ids differ between notes that were not edited.
var (
	template = newNote(0)
	rendered = template.json()[len(`{"id":0`):]
)

// documents keeps what was rendered, so the server's own work weighs little in what is measured.
var documents sync.Map

func render(key string, document func() []byte) []byte {
	if kept, ok := documents.Load(key); ok {
		return kept.([]byte) //nolint:errcheck,forcetypeassert // nothing else is stored
	}
	rendered := document()
	documents.Store(key, rendered)
	return rendered
}

func appendNote(b []byte, id int64) []byte {
	b = append(b, `{"id":`...)
	b = strconv.AppendInt(b, id, 10)
	return append(b, rendered...)
}

// handler serves the endpoints that are measured.
func handler() http.Handler {
	const one = "/v1/progress-notes/{id}"
	api := http.NewServeMux()
	api.HandleFunc("GET "+one, withID(func(w http.ResponseWriter, _ *http.Request, id int64) {
		respond(w, appendNote(make([]byte, 0, len(rendered)+32), id))
	}))
	api.HandleFunc("PUT "+one, withID(serveUpdate))
	api.HandleFunc("PUT "+one+"/sign", withID(func(w http.ResponseWriter, r *http.Request, id int64) {
		respond(w, render(r.RequestURI, func() []byte {
			signed := template
			signed.ID = id
			signed.Has.Signed = true
			return signed.json()
		}))
	}))
	api.HandleFunc("DELETE "+one, withID(func(w http.ResponseWriter, _ *http.Request, _ int64) {
		respond(w, []byte(`{"message":"`+deleted+`"}`))
	}))
	api.HandleFunc("GET "+collection, serveList)
	api.HandleFunc("POST "+collection, serveCreate)
	delayed := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(latency)
		api.ServeHTTP(w, r)
	})

	all := http.NewServeMux()
	all.Handle("/", api)
	all.Handle(slow+"/", http.StripPrefix(slow, delayed))
	all.HandleFunc("POST "+drained+collection, serveDrain)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			refuse(w, http.StatusUnauthorized, "Unauthenticated.")
			return
		}
		all.ServeHTTP(w, r)
	})
}

func withID(serve func(http.ResponseWriter, *http.Request, int64)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
		if err != nil {
			refuse(w, http.StatusNotFound, "Not found.")
			return
		}
		serve(w, r, id)
	}
}

func serveUpdate(w http.ResponseWriter, r *http.Request, id int64) {
	var sent noteUpdate
	if err := json.NewDecoder(r.Body).Decode(&sent); err != nil || r.ContentLength < 0 {
		refuse(w, http.StatusUnprocessableEntity, "The body is not an update.")
		return
	}
	respond(w, render(r.RequestURI+sent.Name+sent.Analysis, func() []byte {
		edited := template
		edited.ID = id
		edited.Name = sent.Name
		edited.Analysis = sent.Analysis
		return edited.json()
	}))
}

// serveList responds with notes numbered through, so every page holds others.
func serveList(w http.ResponseWriter, r *http.Request) {
	page, err := strconv.Atoi(cmp.Or(r.FormValue("page"), "1"))
	size, sizeErr := strconv.Atoi(r.FormValue("per_page"))
	if err != nil || sizeErr != nil || min(page, size) < 1 || size > 100 {
		refuse(w, http.StatusUnprocessableEntity, "The query is invalid.")
		return
	}
	respond(w, render(r.RequestURI, func() []byte { return renderPage(page, size) }))
}

func renderPage(page, size int) []byte {
	b := make([]byte, 0, size*(len(rendered)+16)+512)
	b = append(b, `{"data":[`...)
	for i := range size {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendNote(b, 1+int64((page-1)*size+i))
	}
	b = append(b, `],"links":{"first":"http:\/\/example.invalid\/v1\/progress-notes?page=1","prev":null},`...)
	return fmt.Appendf(b, `"meta":{"current_page":%d,"last_page":%d,"per_page":%d,"total":%d}}`,
		page, pages, size, pages*size)
}

// serveCreate checks that the form arrived complete and unchanged.
func serveCreate(w http.ResponseWriter, r *http.Request) {
	form, err := r.MultipartReader()
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, "The body is not a form.")
		return
	}
	created := template
	for {
		part, err := form.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil || !readPart(part, &created) {
			refuse(w, http.StatusUnprocessableEntity, "The form is broken.")
			return
		}
	}
	respond(w, created.json())
}

// readPart puts what the part holds into the note: the title, or the recording's size.
func readPart(part *multipart.Part, created *note) bool {
	if part.FormName() == "name" {
		name, err := io.ReadAll(part)
		created.Name = string(name)
		created.ID = 1
		return err == nil
	}
	if part.FormName() != "file" {
		return true
	}
	got, size, err := checksum(part)
	want, _, _ := checksum(recording{size}.reader())
	audio := *created.Audio
	audio.Size = size
	created.Audio = &audio
	return err == nil && got == want && part.FileName() != ""
}

func serveDrain(w http.ResponseWriter, r *http.Request) {
	if _, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{r.Body}, make([]byte, 256<<10)); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	respond(w, appendNote(nil, 1))
}

// respond sends a document. Most are long enough that net/http sends them in chunks, without a Content-Length.
func respond(w http.ResponseWriter, document []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Request-Id", "synthetic-request")
	_, _ = w.Write(document)
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": message})
}
