package jsonscan

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

const (
	// pathDepth is how many levels of a path errors show; no document of the API comes near it.
	pathDepth = 8
	// maxKeyLength and plainKeyChars tell which keys errors show.
	maxKeyLength  = 40
	plainKeyChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
)

// The texts of SyntaxError.Problem are fixed, since documents are confidential.
const (
	unexpected = "unexpected character or end"
	badEscape  = "invalid escape sequence"
	tooDeep    = "nested too deeply"
)

// SyntaxError reports a document that is not valid JSON, or nested too deeply.
type SyntaxError struct {
	Offset  int    // where the problem was found, in bytes
	Problem string // a fixed text, never part of the document
}

// Error names the problem and its offset.
func (e *SyntaxError) Error() string {
	return "invalid JSON at byte " + strconv.Itoa(e.Offset) + ": " + e.Problem
}

// SafeText is the error's text: it may be printed.
func (e *SyntaxError) SafeText() string { return e.Error() }

// TypeError reports a value of another type than the reader wants.
type TypeError struct {
	Path   string // the keys and indexes that lead to the value, as in data[3].audio.size
	Want   string
	Got    Kind
	Offset int // where the value starts, in bytes
}

// Error names the path and the types, never the value.
func (e *TypeError) Error() string {
	text := "want " + e.Want + ", got " + e.Got.String()
	if e.Path == "" {
		return text
	}
	return e.Path + ": " + text
}

// SafeText is the error's text: it may be printed.
func (e *TypeError) SafeText() string { return e.Error() }

// Fail records that the current value, be it consumed or not, is not what its reader wants. It has no effect after an error.
func (d *Decoder) Fail(want string) {
	if d.err != nil {
		return
	}
	got := d.kindAt(d.value)
	if got == Invalid {
		d.failSyntax(d.value, unexpected)
		return
	}
	d.fail(&TypeError{Path: d.currentPath(), Want: want, Got: got, Offset: d.value})
}

// maxWarnings bounds what is kept of a document that is wrong throughout.
const maxWarnings = 10

// Warn records, as Fail does, that the current value is not what its reader wants, but lets the reading go on behind it.
func (d *Decoder) Warn(want string) {
	got := d.kindAt(d.value)
	if d.err != nil || got == Invalid {
		d.Fail(want)
		return
	}
	if len(d.warnings) < maxWarnings {
		d.warnings = append(d.warnings, &TypeError{Path: d.currentPath(), Want: want, Got: got, Offset: d.value})
	}
	d.skipUnread()
}

// Warnings returns the first of the values that were passed over; nil when there were none.
func (d *Decoder) Warnings() []*TypeError {
	return d.warnings
}

var errStopped = errors.New("reading was stopped")

// Stop leaves the rest of the document unread and unchecked: every loop ends, and End returns an error.
func (d *Decoder) Stop() {
	if d.err == nil {
		d.fail(errStopped)
	}
}

// Err returns the first error.
func (d *Decoder) Err() error {
	return d.err
}

// End returns the first error, or an error unless the value of the document has been consumed and only white space follows. It
// is the last call: views that were returned are not valid afterwards.
func (d *Decoder) End() error {
	d.Flush()
	d.putBack()
	d.skipSpace()
	if d.pos == d.value || d.pos < len(d.data) {
		d.failSyntax(d.pos, unexpected)
	}
	return d.err
}

// expect reports whether the next value is of kind want and records the error if it is not.
func (d *Decoder) expect(want Kind) bool {
	switch d.Kind() {
	case want:
		return true
	case Invalid:
		d.failSyntax(d.pos, unexpected)
	default:
		d.Fail(want.String())
	}
	return false
}

func (d *Decoder) failSyntax(offset int, problem string) {
	if d.err == nil {
		d.fail(&SyntaxError{Offset: offset, Problem: problem})
	}
}

// fail records err and leaves nothing to read, so that no other method needs to look for an error first.
func (d *Decoder) fail(err error) {
	d.err, d.pos = err, len(d.data)
}

// track records the key offset or inverted index of the innermost loop's member.
func (d *Decoder) track(step int) {
	if d.depth <= pathDepth {
		d.path[d.depth-1] = step
	}
}

// currentPath builds the path only once it is needed, from the tracked steps.
func (d *Decoder) currentPath() string {
	var path strings.Builder
	for _, step := range d.path[:min(d.depth, pathDepth)] {
		if step < 0 {
			path.WriteString("[" + strconv.Itoa(^step) + "]")
			continue
		}
		if path.Len() > 0 {
			path.WriteByte('.')
		}
		path.WriteString(d.presentableKey(step))
	}
	if d.depth > pathDepth {
		path.WriteString("...")
	}
	return path.String()
}

// presentableKey returns the key at offset, or "?" if it may hold anything but a plain identifier.
func (d *Decoder) presentableKey(offset int) string {
	start := offset + 1
	end, _ := plainRun(d.data, start)
	key := d.data[start:end]
	if d.byteAt(end) != '"' || len(key) == 0 || len(key) > maxKeyLength || len(bytes.Trim(key, plainKeyChars)) > 0 {
		return "?"
	}
	return string(key)
}
