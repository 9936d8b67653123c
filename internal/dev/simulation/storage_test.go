package simulation

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// storage is how recordings are kept, for those who read them back to compare them.
type storage struct {
	good    bool // it keeps recordings as they are sent, and works 99 times of 100
	form    formKind
	which   formats       // that it changes
	later   bool          // only when the note is processed; if that fails it stays as it was sent
	refused bool          // its addresses are such as the SDK never uses
	ready   time.Duration // the longest until a recording can be read
	expires time.Duration // until it cannot any more; 0: never
	fails   int           // so many requests of 100
	again   bool          // somebody uploads some of the recordings once more
}

// formKind is what a service makes of a recording.
type formKind int

const (
	kept       formKind = iota
	remuxed             // of the same length
	transcoded          // of another
)

// formats are the recordings that a service changes.
type formats int

const (
	allFormats formats = iota
	allButMP3
	halfOfWAV
)

func goodStorage() storage { return storage{good: true, fails: 1} }

func newStorage(d *draws, sizes sizeKind) (s storage) {
	switch choice := d.below(10); {
	case choice == 0:
		s.form = remuxed
	case choice == 1 || sizes == reencoded:
		s.form = transcoded
	}
	if d.chance(1.0 / 3) {
		s.ready = 30*time.Second + d.within(20*time.Minute)
	}
	if d.chance(1.0 / 13) {
		s.expires = time.Minute + d.within(2*time.Hour)
	}
	switch d.below(10) {
	case 0:
		s.fails = 100
	case 1:
		s.fails = 30
	}
	s.again = d.chance(0.15)
	if d.chance(0.4) {
		return goodStorage()
	}
	return s
}

// compares reports whether a recording is read in order to compare it.
func (r request) compares() bool {
	return r.call != nil && (r.call.op == "find" || r.call.op == "ingest") && (r.storage || r.addresses())
}

// fromStorage is what storage makes of a recording, and of a request for it.
func (t *trip) fromStorage(resp *http.Response) *http.Response {
	s, r := t.world.design.storage, t.request
	t.world.count("requests for recordings", 1)
	if r.addresses() {
		f := t.world.service.fact(r.id())
		if f == nil || resp.StatusCode != http.StatusOK {
			return resp
		}
		age := time.Since(f.born)
		switch {
		case age < time.Duration(float64(s.ready)*drawsAt(t.world.seed, uint64(f.id), hashOf("ready")).float()):
			return respond(http.StatusNotFound, "application/json", `{"message":"Resource not found"}`)
		case s.expires > 0 && age > s.expires:
			return respond(http.StatusGone, "application/json", `{"message":"Gone"}`)
		}
		body, _ := io.ReadAll(resp.Body)
		t.world.service.notePlace(body, f)
		if s.refused {
			body = bytes.ReplaceAll(body, []byte(storageURL), []byte("http://"+storageHost)) // which the SDK does not use
			if t.fault < 0 {
				r.call.refuseAddress(f)
			}
		}
		resp.Body = io.NopCloser(bytes.NewReader(body))
		resp.ContentLength = int64(len(body))
		return resp
	}
	if t.extent%100 < s.fails {
		return respond(http.StatusServiceUnavailable, "application/xml", "<Error/>")
	}
	f := t.world.service.recordingAt(r.path)
	changed := t.world.service.reencodes(f, resp.Header.Get("Content-Type"))
	if f != nil {
		t.checkRival(f, !changed)
	}
	if resp.StatusCode != http.StatusOK || !changed {
		return resp
	}
	recording, _ := io.ReadAll(resp.Body)
	recording[0], recording[len(recording)-1] = recording[0]^1, recording[len(recording)-1]^1
	if s.form == transcoded {
		recording = append(recording, "transcoded"...)
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(recording)), int64(len(recording))
	resp.Header.Set("Content-Length", fmt.Sprint(len(recording)))
	return resp
}

// uploadAgain is somebody who uploads the recording of a note once more, some time later.
func (s *service) uploadAgain(r request, n clinicaldoctest.Note) {
	d := drawsAt(s.world.seed, uint64(n.ID), hashOf("again"))
	if !s.world.design.storage.again || r.call == nil || !d.chance(0.5) {
		return
	}
	r.header = maps.Clone(r.header)
	r.header.Set("Authorization", "Bearer "+colleagueToken)
	number := r.call.program.number + 256
	r.call = nil
	s.world.running.Go(func() {
		time.Sleep(time.Second + d.within(pick(d, time.Minute, 20*time.Minute)))
		s.world.slot(number)
		resp := s.serve(r) //nolint:bodyclose // it is in memory
		s.world.say("again", "the recording of note %d is uploaded once more: %d", n.ID, resp.StatusCode)
		s.world.count("recordings uploaded again by others", 1)
	})
}
