// Package service is the server that all contenders talk to, in a process of its own, so that a contender's allocations
// and CPU time are its own.
package service

import (
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/synthetic"
)

// Token is what every contender authenticates with.
const Token = "1|synthetic-benchmark-token"

// Deleted is the message about a deleted note.
const Deleted = "The synthetic note was deleted."

// Prefixes of the base URL change how the service behaves.
const (
	Slow    = "/slow"    // every answer takes Latency longer
	Long    = "/long"    // the list has LongPages pages
	Sparse  = "/sparse"  // as Long, and ids are Distance apart
	Bare    = "/bare"    // rows of the list tell neither texts nor stages
	Drained = "/drained" // uploads are read and not looked at, as fast as it goes
)

// The sizes of the lists, and the latency under the prefix Slow.
const (
	Pages     = 50
	LongPages = 10_000
	Distance  = 97
	Latency   = 20 * time.Millisecond
)

// note is rendered once: only ids differ between notes that were not edited.
var (
	template = synthetic.NewNote(0)
	rendered = template.AppendJSON(nil)[len(`{"id":0`):]
)

// documents keeps what was rendered, so that the server's own work weighs little in what is measured.
var documents sync.Map

// rendering is a key of documents: a page of the list or an edited note.
type rendering struct {
	page, size int
	path       string
	id         int64
	edit       synthetic.Update
	signed     bool
}

func render(key rendering, document func() []byte) []byte {
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
	api := http.NewServeMux()
	api.HandleFunc("GET /v1/progress-notes/{id}", func(w http.ResponseWriter, r *http.Request) {
		if id, ok := noteID(w, r); ok {
			answer(w, appendNote(make([]byte, 0, len(rendered)+32), id))
		}
	})
	api.HandleFunc("PUT /v1/progress-notes/{id}", update)
	api.HandleFunc("PUT /v1/progress-notes/{id}/sign", func(w http.ResponseWriter, r *http.Request) {
		if id, ok := noteID(w, r); ok {
			answer(w, render(rendering{id: id, signed: true}, func() []byte {
				note := template
				note.ID, note.Has = id, &synthetic.Has{Content: new(true), Transcription: new(true), Signed: new(true)}
				return note.AppendJSON(nil)
			}))
		}
	})
	api.HandleFunc("DELETE /v1/progress-notes/{id}", func(w http.ResponseWriter, r *http.Request) {
		if _, ok := noteID(w, r); ok {
			answer(w, []byte(`{"message":"`+Deleted+`"}`))
		}
	})
	api.HandleFunc("GET /v1/progress-notes", list(listing{Pages, 1, appendNote}))
	api.HandleFunc("POST /v1/progress-notes", create)

	long := http.NewServeMux()
	long.HandleFunc("GET /v1/progress-notes", list(listing{LongPages, 1, appendNote}))
	sparse := http.NewServeMux()
	sparse.HandleFunc("GET /v1/progress-notes", list(listing{LongPages, Distance, appendNote}))
	bare := http.NewServeMux()
	bare.Handle("/", api)
	bare.HandleFunc("GET /v1/progress-notes", list(listing{Pages, 1, appendRow}))
	drained := http.NewServeMux()
	drained.HandleFunc("POST /v1/progress-notes", drain)
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(Latency)
		api.ServeHTTP(w, r)
	})

	all := http.NewServeMux()
	all.Handle("/", api)
	for prefix, h := range map[string]http.Handler{Slow: slow, Long: long, Sparse: sparse, Bare: bare, Drained: drained} {
		all.Handle(prefix+"/", http.StripPrefix(prefix, h))
	}
	all.HandleFunc("GET /connections", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, secured.Load())
	})
	return authenticated(withoutGitLabPrefix(all))
}

// secured counts the connections to the secure address.
var secured atomic.Int64

func authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+Token {
			refuse(w, http.StatusUnauthorized, "Unauthenticated.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// withoutGitLabPrefix removes what GitLab's client puts between the base URL and the path.
func withoutGitLabPrefix(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = strings.Replace(r.URL.Path, "/api/v4", "", 1)
		r.URL.RawPath = ""
		next.ServeHTTP(w, r)
	})
}

func noteID(w http.ResponseWriter, r *http.Request) (int64, bool) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		refuse(w, http.StatusNotFound, "Not found.")
	}
	return id, err == nil
}

func update(w http.ResponseWriter, r *http.Request) {
	id, ok := noteID(w, r)
	if !ok {
		return
	}
	var edit synthetic.Update
	if err := json.NewDecoder(r.Body).Decode(&edit); err != nil || r.ContentLength < 0 {
		refuse(w, http.StatusUnprocessableEntity, "The body is not an update.")
		return
	}
	answer(w, render(rendering{id: id, edit: edit}, func() []byte {
		note := template
		note.ID, note.Name, note.Analysis = id, edit.Name, &edit.Analysis
		return note.AppendJSON(nil)
	}))
}

// listing is a list of so many pages, whose ids are so far apart.
type listing struct {
	pages    int
	distance int64
	row      func([]byte, int64) []byte
}

// appendRow is a row that tells nothing of a note but that it is there.
func appendRow(b []byte, id int64) []byte {
	return fmt.Appendf(b, `{"id":%d,"name":"Synthetic note","created_at":"2024-05-01T10:11:12.000000Z"}`, id)
}

// list answers with notes numbered through, so that every page holds others.
func list(l listing) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		page, err1 := strconv.Atoi(r.FormValue("page"))
		size, err2 := strconv.Atoi(r.FormValue("per_page"))
		if r.FormValue("page") == "" {
			page, err1 = 1, nil
		}
		if err1 != nil || err2 != nil || page < 1 || size < 1 || size > 100 {
			refuse(w, http.StatusUnprocessableEntity, "The query is invalid.")
			return
		}
		if l.pages == LongPages {
			answer(w, l.render(page, size)) // too many to keep
			return
		}
		answer(w, render(rendering{page: page, size: size, path: r.RequestURI}, func() []byte { return l.render(page, size) }))
	}
}

func (l listing) render(page, size int) []byte {
	b := make([]byte, 0, size*(len(rendered)+16)+512)
	b = append(b, `{"data":[`...)
	for i := range size {
		if i > 0 {
			b = append(b, ',')
		}
		b = l.row(b, 1+int64((page-1)*size+i)*l.distance)
	}
	b = append(b, `],"links":{"first":"http:\/\/example.invalid\/v1\/progress-notes?page=1","prev":null},`...)
	return fmt.Appendf(b, `"meta":{"current_page":%d,"last_page":%d,"per_page":%d,"total":%d}}`, page, l.pages, size, l.pages*size)
}

// create checks that the form arrived whole and unchanged.
func create(w http.ResponseWriter, r *http.Request) {
	form, err := r.MultipartReader()
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, "The body is no form.")
		return
	}
	note := template
	for {
		part, err := form.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil || !readPart(part, &note) {
			refuse(w, http.StatusUnprocessableEntity, "The form is broken.")
			return
		}
	}
	answer(w, note.AppendJSON(nil))
}

// readPart puts what the part holds into the note: the title, or the recording's size.
func readPart(part *multipart.Part, note *synthetic.Note) bool {
	if part.FormName() == "name" {
		name, err := io.ReadAll(part)
		note.Name, note.ID = string(name), 1
		return err == nil
	}
	if part.FormName() != "file" {
		return true
	}
	got, size, err := synthetic.Checksum(part)
	want, _, _ := synthetic.Checksum(synthetic.Recording{Size: size}.Reader())
	audio := *note.Audio
	audio.Size = &size
	note.Audio = &audio
	return err == nil && got == want && part.FileName() != ""
}

func drain(w http.ResponseWriter, r *http.Request) {
	if _, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{r.Body}, make([]byte, 256<<10)); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	answer(w, appendNote(nil, 1))
}

// answer sends a document; it is long enough that net/http sends it in chunks, without a Content-Length.
func answer(w http.ResponseWriter, document []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Request-Id", "synthetic-request")
	_, _ = w.Write(document)
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": message})
}
