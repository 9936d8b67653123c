package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// listening is what a call that listens to a recording meets.
type listening struct {
	version   byte // of the recording, as it lies in storage now
	addresses int  // that it asked for
}

// tapeSize is more than a stream reads ahead at first.
const tapeSize = 200_000

// tape brings a note of long ago with a long recording.
func (s *service) tape() int64 {
	n := clinicaldoctest.Note{Name: nameMark + " on tape", PatientID: 1, CreatedAt: s.primary.Now().Add(-9 * day), Audio: []byte("a tape, " + sound(tapeSize)), Transcription: textMark, Analysis: textMark}
	id := s.primary.AddNote(n)
	if s.replica != nil {
		n.ID = id
		s.replica.AddNote(n)
	}
	s.notes[id] = &fact{id: id, patient: n.PatientID, born: time.Now().Add(-time.Hour)}
	return id
}

// recording is that of a note, as it was uploaded; nil if there is none.
func (s *service) recording(id int64) []byte {
	ask := func(r request) []byte {
		r.method, r.header = http.MethodGet, http.Header{}
		if !r.storage {
			r.header.Set("Authorization", "Bearer "+firstToken)
		}
		resp := handle(s.primary, r) //nolint:bodyclose // it is in memory
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK {
			return nil
		}
		return body
	}
	var address struct{ Data, URL any }
	_ = json.Unmarshal(ask(request{path: fmt.Sprintf("/v1/progress-notes/%d/audio-url", id)}), &address)
	if wrapped, ok := address.Data.(map[string]any); ok {
		address.URL = wrapped["url"]
	}
	text, _ := address.URL.(string)
	u, err := url.Parse(text)
	if err != nil || text == "" {
		return nil
	}
	return ask(request{path: u.Path, query: u.RawQuery, storage: true})
}

// ofVersion is a recording as it is after it was replaced so many times.
func ofVersion(recording []byte, version byte) []byte {
	replaced := bytes.Clone(recording)
	for i := range replaced {
		replaced[i] ^= version
	}
	return replaced
}

// played is what storage gives a listener, with another recording than was uploaded where that was replaced. A blunt storage
// gives a part of the new one to who wants to go on with the old one.
func (t *trip) played(serve func(request) *http.Response) *http.Response {
	r := t.request
	if r.call.op != "listen" || !r.storage {
		return serve(r)
	}
	version := r.call.tapeVersion()
	tag := fmt.Sprintf(`"version-%d"`, version)
	wanted := r.header.Get("If-Range")
	r.header = maps.Clone(r.header)
	r.header.Del("If-Range")
	if wanted != "" && wanted != tag && !t.world.design.blunt {
		r.header.Del("Range")
	}
	resp := serve(r)
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPartialContent {
		body, _ := io.ReadAll(resp.Body)
		resp.Body = io.NopCloser(bytes.NewReader(ofVersion(body, version)))
		resp.Header.Set("ETag", tag)
	}
	return resp
}

func (c *call) tapeVersion() byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// replaceTape is somebody who uploads another recording for the note.
func (c *call) replaceTape() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	c.program.world.say("tape", "the recording of note %d is replaced", c.note)
	c.program.world.count("reached: a recording was replaced while somebody listened", 1)
}

// met is what a call has met so far: faults, and those among them that are responses of storage that break off. A read
// that follows is a call by itself, and may ask at once.
func (c *call) met() (faults, breaks int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.notBefore)
	return c.faults, c.breaks
}

// listener holds what a stream gives against the recording.
type listener struct {
	*program
	call     *call
	want     []byte // the recording as it was opened
	opened   byte   // its version then
	problems []error
}

// listen opens the recording of a note and reads it here and there, with pauses in which URLs expire and recordings are replaced.
func (p *program) listen(ctx context.Context, d *draws, id int64) {
	c := p.begin("listen").on(id)
	c.version = byte(d.below(2))
	ctx, cancel := c.context(ctx)
	defer cancel()
	l := &listener{program: p, call: c, want: ofVersion(p.world.service.recording(id), c.version), opened: c.version}
	stream, err := p.client.Notes.OpenAudio(ctx, id)
	l.judge(err, 0, 0)
	if err == nil {
		c.getsRecording(id)
		l.read(ctx, d, stream)
		_ = stream.Close()
		p.world.count("reached: a recording was listened to", 1)
	}
	c.end(errors.Join(l.problems...))
	if c.addresses > 1 {
		p.world.count("reached: a listener got a fresh URL", 1)
	}
}

func (l *listener) read(ctx context.Context, d *draws, stream *clinicaldoc.AudioStream) {
	if l.want != nil && stream.Size() != int64(len(l.want)) {
		l.world.violate("recording", "note %d: %d bytes instead of %d", l.call.note, stream.Size(), len(l.want))
	}
	pause := pick(d, time.Second, 3*time.Minute, 20*time.Minute)
	for range 2 + d.below(6) {
		_ = wait(ctx, d.within(pause))
		if d.chance(0.1) && time.Now().Before(l.world.calm) {
			l.call.replaceTape()
		}
		at, size := int64(d.below(int(stream.Size())+2)), 1+d.below(pick(d, 50, 1000, int(stream.Size())))
		if d.chance(0.5) {
			l.hear(at, size, func(p []byte) (int, error) {
				_, err := stream.Seek(at, io.SeekStart)
				if err != nil {
					return 0, err
				}
				n, err := io.ReadFull(stream, p)
				if errors.Is(err, io.ErrUnexpectedEOF) {
					err = io.EOF
				}
				return n, err
			})
			continue
		}
		var all sync.WaitGroup
		l.call.parallel = l.world.design.prefetch // a coin nobody can load, as in other worlds that ask ahead
		for i := range 3 {
			if at := at / int64(i+1); i == 0 || l.call.parallel {
				all.Go(func() { l.hear(at, size, func(p []byte) (int, error) { return stream.ReadAt(p, at) }) })
			}
		}
		all.Wait()
	}
}

// hear reads a part of the recording: what comes is the recording's, and all of it unless there is an error.
func (l *listener) hear(at int64, size int, read func([]byte) (int, error)) {
	faults, breaks := l.call.met()
	got := make([]byte, size)
	n, err := read(got)
	if errors.Is(err, io.EOF) && l.want != nil && at+int64(n) == max(at, int64(len(l.want))) {
		err = nil // the end of the recording
	} else if err == nil && n < size {
		l.world.violate("recording", "note %d: %d of %d bytes at %d, and no error", l.call.note, n, size, at)
	}
	if l.want != nil && n > 0 && (at+int64(n) > int64(len(l.want)) || !bytes.Equal(got[:n], l.want[at:at+int64(n)])) {
		l.world.violate("recording", "note %d: %d bytes at %d that are not its recording's", l.call.note, n, at)
	}
	l.judge(err, faults, breaks)
}

// judge looks whether a read could have gone better, by what was met before it and since.
func (l *listener) judge(err error, faults, breaks int) {
	c, w := l.call, l.world
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		return
	}
	l.problems = append(l.problems, err)
	faults, breaks = c.faults-faults, c.breaks-breaks
	replaced := c.version != l.opened
	f := w.service.fact(c.note)
	switch {
	case errors.Is(err, clinicaldoc.ErrAudioChanged) && !replaced:
		w.violate("recording", "that of note %d is said to have changed", c.note)
	case l.want == nil, f == nil, !f.died().IsZero(), replaced, c.shifted: // an error is what there is to say
	case faults == 0 && !c.parallel, faults == breaks && breaks <= maxRetries && !c.parallel:
		w.violate("useless", "the recording of note %d cannot be read after %d breaks: %v", c.note, breaks, err)
	}
}
