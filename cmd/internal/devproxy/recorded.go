package devproxy

import (
	"bytes"
	"cmp"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxArchive  = 256 << 20 // of a file of requests
	maxSearched = 1 << 20   // of each body
)

// handleRequests serves what is kept of requests.
func (in *inspector) handleRequests(mux *http.ServeMux) {
	mux.HandleFunc("GET "+pagePath+"requests", in.serveList)
	mux.HandleFunc("DELETE "+pagePath+"requests", func(w http.ResponseWriter, _ *http.Request) {
		in.traffic.forget()
		in.events.publish("reset", struct{}{})
		respond(w, http.StatusOK, struct{}{})
	})
	mux.HandleFunc("GET "+pagePath+"requests/{id}", in.one(func(w http.ResponseWriter, _ *http.Request, kept *request) {
		opened := kept.detail
		if kept.record != nil {
			opened = kept.record.open(kept, in.controls.names(), !in.traffic.upstream())
		}
		respond(w, http.StatusOK, struct {
			*request
			detail
		}{kept, opened})
	}))
	for _, ofResponse := range []bool{false, true} {
		path := pagePath + map[bool]string{
			false: "requests/{id}/request/body", true: "requests/{id}/response/body",
		}[ofResponse]
		mux.HandleFunc("GET "+path, in.one(func(w http.ResponseWriter, r *http.Request, kept *request) {
			serveBody(w, r, kept, ofResponse)
		}))
	}
	mux.HandleFunc("GET "+pagePath+"requests/{id}/parts/{number}", in.one(servePart))
	mux.HandleFunc("POST "+pagePath+"requests/{id}/replay", in.one(in.serveReplay))
	mux.HandleFunc("GET "+pagePath+"har", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Disposition", `attachment; filename="requests.har"`)
		respond(w, http.StatusOK, archive(in.traffic.list(0, keptRequests)))
	})
	mux.HandleFunc("POST "+pagePath+"har", in.serveLoad)
}

// serveList lists requests: those after one, or the ids of those that hold a text.
func (in *inspector) serveList(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	after, _ := strconv.ParseInt(query.Get("after"), 10, 64) // 0: from the first
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil || limit < 1 {
		limit = keptRequests
	}
	list := in.traffic.list(after, limit)
	text := []byte(strings.ToLower(query.Get("text")))
	if len(text) == 0 {
		respond(w, http.StatusOK, list)
		return
	}
	found := []int64{}
	for _, kept := range list {
		if kept.record != nil && kept.record.holds(text) {
			found = append(found, kept.ID)
		}
	}
	respond(w, http.StatusOK, found)
}

// holds reports whether a text in small letters is in the path, a header or a body.
func (rec *record) holds(text []byte) bool {
	if strings.Contains(strings.ToLower(rec.uri), string(text)) {
		return true
	}
	for _, side := range []struct {
		header http.Header
		body   *body
	}{{rec.requestHeader, rec.requestBody}, {rec.responseHeader, rec.responseBody}} {
		content, _ := side.body.bytes()
		content = unpack(side.header, content)
		if bytes.Contains(bytes.ToLower(content[:min(len(content), maxSearched)]), text) ||
			strings.Contains(strings.ToLower(strings.Join(headerLines(side.header), "\n")), string(text)) {
			return true
		}
	}
	return false
}

// one serves one request that is kept.
func (in *inspector) one(serve func(http.ResponseWriter, *http.Request, *request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
		kept := in.traffic.opened(id)
		if err != nil || kept == nil {
			refuse(w, http.StatusNotFound, "that request is no longer kept")
			return
		}
		serve(w, r, kept)
	}
}

// serveBody gives a body as it was, or unpacked to be read.
func serveBody(w http.ResponseWriter, r *http.Request, kept *request, ofResponse bool) {
	if kept.record == nil {
		refuse(w, http.StatusNotFound, "bodies of a real service are not kept; -show-bodies does that")
		return
	}
	content, _ := kept.record.requestBody.bytes()
	header := kept.record.requestHeader
	if ofResponse {
		content, _ = kept.record.responseBody.bytes()
		header = kept.record.responseHeader
	}
	if !r.URL.Query().Has("raw") {
		content = unpack(header, content)
	}
	serveBytes(w, r, header.Get("Content-Type"), content)
}

func servePart(w http.ResponseWriter, r *http.Request, kept *request) {
	number, err := strconv.Atoi(r.PathValue("number"))
	if kept.record != nil && err == nil {
		content, _ := kept.record.requestBody.bytes()
		if parts := partsOf(kept.record.requestHeader, content); number >= 0 && number < len(parts) {
			serveBytes(w, r, parts[number].Type, parts[number].content)
			return
		}
	}
	refuse(w, http.StatusNotFound, "there is no such part")
}

// serveBytes gives bytes to a page that reads or plays them: nothing that a browser would show or run by itself.
func serveBytes(w http.ResponseWriter, r *http.Request, contentType string, content []byte) {
	mediaType, _, _ := mime.ParseMediaType(contentType)
	switch {
	case strings.HasPrefix(mediaType, "audio/"):
	case strings.HasPrefix(http.DetectContentType(content), "audio/"): // sent as if it were anything
		mediaType = http.DetectContentType(content)
	default:
		mediaType = "text/plain; charset=utf-8"
	}
	w.Header().Set("Content-Type", mediaType)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// serveReplay sends a request again, as it was or edited, and returns the one that it became.
func (in *inspector) serveReplay(w http.ResponseWriter, r *http.Request, kept *request) {
	text, err := readAll(w, r, 2*maxBody)
	if err != nil {
		refuse(w, http.StatusBadRequest, "the body could not be read, or is too large")
		return
	}
	change, err := decode[edited](text)
	if err == nil && kept.record == nil {
		err = in.controls.replay(r.Context(), nil, change) // which says why not
	} else if err == nil {
		err = in.controls.replay(r.Context(), kept, change)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	respond(w, http.StatusOK, map[string]int64{"id": in.traffic.lastReplayOf(kept.ID)})
}

// lastReplayOf returns the newest request that repeats one.
func (t *traffic) lastReplayOf(id int64) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range slices.Backward(t.kept) {
		if r.Replays == id {
			return r.ID
		}
	}
	return 0
}

func (in *inspector) serveLoad(w http.ResponseWriter, r *http.Request) {
	if in.traffic.bodies == nil {
		refuse(
			w, http.StatusBadRequest,
			"requests can be loaded only if bodies are kept: by the local server, or with -show-bodies",
		)
		return
	}
	text, err := readAll(w, r, maxArchive)
	count := 0
	if err == nil {
		count, err = in.traffic.load(text)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, cmp.Or(err.Error(), "the file could not be read"))
		return
	}
	respond(w, http.StatusOK, map[string]int{"loaded": count})
}
