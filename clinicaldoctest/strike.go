package clinicaldoctest

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// strike is a fault that meets a request.
type strike struct {
	*armedFault
	state *state
	w     http.ResponseWriter
	r     *http.Request
	serve http.HandlerFunc
}

func (x strike) answer() {
	contentType := "text/html; charset=UTF-8"
	if strings.HasPrefix(x.Fault.body, "{") {
		contentType = "application/json"
	}
	x.w.Header().Set("Content-Type", contentType)
	if x.Fault.body != "" {
		x.w.Header().Set("Content-Length", strconv.Itoa(len(x.Fault.body)))
	}
	x.w.WriteHeader(x.Fault.number)
	_, _ = io.WriteString(x.w, x.Fault.body)
}

func (x strike) tooManyRequests() {
	now := x.state.now()
	verdict{limit: 60, refused: true, reset: now.Add(x.Fault.length), now: now}.describe(x.w.Header())
	writeAnswer(x.w, tooManyAttempts())
}

// throttle serves a number of requests in each window of time, and rejects the others with 429.
func (x strike) throttle() {
	const everybody = 0 // one limit for all users
	verdict := x.limiter.take(everybody, x.Fault.number, x.Fault.length, x.state.now())
	verdict.describe(x.w.Header())
	if verdict.refused {
		writeAnswer(x.w, tooManyAttempts())
		return
	}
	x.serve(x.w, x.r)
}

func (x strike) delay() {
	x.pause()
	x.serve(x.w, x.r)
}

func (x strike) reset() { resetConnection(x.w, x.r) }

func (x strike) resetAfterRequest() {
	_, _ = io.Copy(io.Discard, x.r.Body)
	resetConnection(x.w, x.r)
}

func (x strike) resetAfterCommit() {
	x.serve(unsentWriter{header: http.Header{}}, x.r)
	resetConnection(x.w, x.r)
}

func (x strike) truncate() {
	x.serve(&truncatingWriter{ResponseWriter: x.w, left: x.Fault.number}, x.r)
}

func (x strike) truncateChunked() {
	x.serve(&truncatingWriter{ResponseWriter: x.w, left: x.Fault.number, chunked: true}, x.r)
}

func (x strike) slow() {
	x.serve(&slowWriter{ResponseWriter: x.w, size: x.Fault.number, pause: x.pause}, x.r)
}

// silent stops all traffic on the connection until its client goes away or the server closes.
func (x strike) silent() {
	if conn := connOf(x.r); conn != nil {
		conn.silent.Store(true)
	}
	select {
	case <-x.r.Context().Done():
	case <-x.state.srv.closing.Done():
	}
	panic(http.ErrAbortHandler)
}

func (x strike) lagging() {
	x.serve(x.w, x.r.WithContext(context.WithValue(x.r.Context(), lagKey{}, x.Fault.length)))
}

func (x strike) vanish() {
	x.changeAfterList(func(shown *shownList) {
		count := min(x.Fault.number, len(shown.ids))
		x.state.deleteNotes(shown.ids[:count])
	})
}

func (x strike) arrive() {
	x.changeAfterList(func(shown *shownList) {
		for range x.Fault.number {
			x.state.addNote(Note{UserID: shown.userID, PatientID: max(shown.patientID, 0), Name: "Arrived"})
		}
	})
}

// changeAfterList serves a list and changes the notes before the response leaves. The list records what it shows in the
// shownList of the request's context.
func (x strike) changeAfterList(change func(*shownList)) {
	shown := &shownList{}
	w := &lateWriter{ResponseWriter: x.w, before: func() {
		isList := shown.userID != 0
		if isList {
			change(shown)
		}
	}}
	x.serve(w, x.r.WithContext(context.WithValue(x.r.Context(), shownKey{}, shown)))
}

// pause waits. It aborts the request if its client goes away or the server closes.
func (x strike) pause() {
	timer := time.NewTimer(x.Fault.length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-x.r.Context().Done():
		panic(http.ErrAbortHandler)
	case <-x.state.srv.closing.Done():
		panic(http.ErrAbortHandler)
	}
}

// resetConnection drops the request's connection, so the client sees a reset instead of the connection's regular end.
func resetConnection(w http.ResponseWriter, r *http.Request) {
	dropped, _, err := http.NewResponseController(w).Hijack()
	if err != nil { // it is HTTP/2, and the connection's other requests end too
		if conn := connOf(r); conn != nil {
			_ = conn.SetLinger(0)
			_ = conn.Close()
		}
		panic(http.ErrAbortHandler)
	}
	if lingering, ok := rawConn(dropped).(interface{ SetLinger(sec int) error }); ok {
		_ = lingering.SetLinger(0)
	}
	_ = rawConn(dropped).Close() // and not the connection above it, which would send TLS's close_notify
}

// shownList is what a list has shown, and to which user. It is zero if the request was not for a list.
type shownList struct {
	userID, patientID int64
	ids               []int64 // of the notes
}

// add records a page of notes that was shown to the user.
func (l *shownList) add(page []*note, userID, patientID int64) {
	for _, n := range page {
		l.ids = append(l.ids, n.id)
	}
	l.userID = userID
	l.patientID = patientID
}

// shownKey is where a request's context holds its shownList.
type shownKey struct{}

// headerWriter sends a fault's headers in place of others.
type headerWriter struct {
	http.ResponseWriter
	header http.Header
	sent   bool
}

// Unwrap lets http.ResponseController flush and hijack.
func (w *headerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *headerWriter) WriteHeader(status int) {
	w.sent = true
	for key, values := range w.header {
		if slices.Equal(values, []string{""}) {
			values = nil
		}
		w.Header()[key] = values
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *headerWriter) Write(p []byte) (int, error) {
	if !w.sent {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

// unsentWriter swallows an answer.
type unsentWriter struct{ header http.Header }

func (w unsentWriter) Header() http.Header         { return w.header }
func (w unsentWriter) WriteHeader(int)             {}
func (w unsentWriter) Write(p []byte) (int, error) { return len(p), nil }

// truncatingWriter drops the connection once enough of the body is out.
type truncatingWriter struct {
	http.ResponseWriter
	left    int
	chunked bool
}

func (w *truncatingWriter) WriteHeader(status int) {
	if w.chunked {
		w.Header().Del("Content-Length")
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *truncatingWriter) Write(p []byte) (int, error) {
	if len(p) <= w.left {
		w.left -= len(p)
		return w.ResponseWriter.Write(p)
	}
	_, _ = w.ResponseWriter.Write(p[:w.left])
	_ = http.NewResponseController(w.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}

// slowWriter sends a body in pieces.
type slowWriter struct {
	http.ResponseWriter
	size  int
	pause func()
}

func (w *slowWriter) Write(p []byte) (int, error) {
	written := 0
	for piece := range slices.Chunk(p, w.size) {
		n, err := w.ResponseWriter.Write(piece)
		written += n
		if err != nil {
			return written, err
		}
		if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil {
			return written, err
		}
		w.pause()
	}
	return written, nil
}

// lateWriter does something before a response leaves.
type lateWriter struct {
	http.ResponseWriter
	before func()
}

func (w *lateWriter) WriteHeader(status int) {
	w.before()
	w.ResponseWriter.WriteHeader(status)
}
