package jsonscan

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

const (
	pathDepth    = 8  // levels of a path that errors show; no document of the API comes near it
	maxKeyLength = 40 // of keys that they show
	maxWarnings  = 10 // that are kept of a document that is wrong throughout
)

// Errors of a document have fixed texts, because documents are confidential.
const (
	unexpected = "unexpected character or end"
	badEscape  = "invalid escape sequence"
	tooDeep    = "nested too deeply"
	errStopped = redact.Text("reading was stopped")
)

// FailExpecting records that the current value, be it consumed or not, is not what its reader wants: its path, as in
// data[3].audio.size, and its kind, never the value. It has no effect after an error.
func (d *Decoder) FailExpecting(want string) {
	got := kinds[d.byteAt(d.value)]
	switch {
	case got == Invalid:
		d.failSyntax(d.value, unexpected)
	case d.err == nil: // otherwise the path may lead to a key that is not there
		d.fail(d.mismatch(want, got))
	}
}

// Warn records, as Fail does, that the current value is not what its reader expects, but continues after it.
func (d *Decoder) Warn(want string) {
	got := kinds[d.byteAt(d.value)]
	if d.err != nil || got == Invalid {
		d.FailExpecting(want)
		return
	}
	d.PassedOver++
	if len(d.Warnings) < maxWarnings {
		d.Warnings = append(d.Warnings, string(d.mismatch(want, got)))
	}
	d.skipUnread()
}

// mismatch returns the text of an error about the current value.
func (d *Decoder) mismatch(want string, got Kind) redact.Text {
	return redact.Text(strings.TrimPrefix(d.currentPath()+": want "+want+", got "+got.String(), ": "))
}

// Stop leaves the rest of the document unread and unchecked: every loop ends, and End returns an error.
func (d *Decoder) Stop() { d.fail(errStopped) }

// Err returns the first error.
func (d *Decoder) Err() error { return d.err }

// End must be the last call: views that were returned are not valid afterwards. It returns the first error, which may
// be that the document's value was not consumed, or that anything except white space follows.
func (d *Decoder) End() error {
	d.Flush()
	if s := d.scratch; s != nil && cap(s.block) <= maxKeptScratch {
		scratches.Put(s)
	}
	d.scratch = nil
	d.skipSpace()
	isUnread := d.pos == d.value
	hasMore := d.pos < len(d.data)
	if isUnread || hasMore {
		d.failSyntax(d.pos, unexpected)
	}
	return d.err
}

// expect reports whether the next value is of kind want and records the error if it is not.
func (d *Decoder) expect(want Kind) bool {
	if d.Kind() == want {
		return true
	}
	d.FailExpecting(want.String())
	return false
}

// failSyntax records an error at an offset, if it is the first one.
func (d *Decoder) failSyntax(offset int, problem string) {
	if d.err == nil {
		d.fail(redact.Text("invalid JSON at byte " + strconv.Itoa(offset) + ": " + problem))
	}
}

// fail records the first error and moves to the end of the document. So other methods need not check for an error
// first.
func (d *Decoder) fail(err error) {
	if d.err == nil {
		d.err = err
		d.pos = len(d.data)
	}
}

// track records where the innermost loop is: the offset of its key, or ^index of its element, which is negative.
func (d *Decoder) track(step int) {
	if d.depth <= pathDepth {
		d.path[d.depth-1] = step
	}
}

// currentPath returns the path of the current value, such as data[3].audio.size. Only few values need one, so it is
// built from the tracked steps.
func (d *Decoder) currentPath() string {
	var path strings.Builder
	for _, step := range d.path[:min(d.depth, pathDepth)] {
		if index := ^step; index >= 0 {
			path.WriteString("[" + strconv.Itoa(index) + "]")
			continue
		}
		if path.Len() > 0 {
			path.WriteByte('.')
		}
		key, _, _ := bytes.Cut(d.data[step+1:], []byte{'"'})
		if !redact.IsIdentifier(string(key), maxKeyLength, "_.-") {
			key = []byte{'?'} // it may contain confidential data
		}
		path.Write(key)
	}
	if d.depth > pathDepth {
		path.WriteString("...")
	}
	return path.String()
}
