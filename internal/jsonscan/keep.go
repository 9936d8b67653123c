package jsonscan

import (
	"bytes"
	"encoding/json"
	"sync"
)

// scratch is memory that a decoder borrows when it first needs some.
type scratch struct {
	block []byte // the texts that wait for Flush; scanString decodes the next one into the memory after them
	kept  []kept // where they belong
}

type kept struct {
	to  *string
	end int // offset in block; the text starts where the one before ends
}

// scratches keeps them from one document to the next; huge ones are not kept.
var scratches = sync.Pool{New: func() any { return &scratch{kept: make([]kept, 0, maxKept)} }}

const (
	maxKeptScratch = 1 << 20
	maxKept        = 16 // texts of a block; notes have fewer, and a document that repeats its keys has no end of them
)

// borrow returns the decoder's scratch, which it takes from the pool if there is none yet.
func (d *Decoder) borrow() *scratch {
	if d.scratch == nil {
		d.scratch, _ = scratches.Get().(*scratch)
	}
	return d.scratch
}

// Intern stores the text in *to at the next Flush, which it calls itself once maxKept texts wait. Texts between two
// calls of Flush share one allocation, which lives as long as any of them.
func (d *Decoder) Intern(to *string, text []byte) {
	s := d.borrow()
	if s.isAfterBlock(text) { // scanString decoded it there: no copy is needed
		s.block = s.block[:len(s.block)+len(text)]
	} else {
		s.block = append(s.block, text...)
	}
	s.kept = append(s.kept, kept{to, len(s.block)})
	if len(s.kept) == maxKept {
		d.Flush()
	}
}

// isAfterBlock reports whether the text is already in the memory that follows the block, where scanString writes it.
func (s *scratch) isAfterBlock(text []byte) bool {
	end := len(s.block)
	if len(text) == 0 || end == cap(s.block) {
		return false
	}
	withNextByte := s.block[:end+1]
	return &text[0] == &withNextByte[end]
}

// Canonical returns a JSON value in the form that json.Marshal gives it. The result is valid until the next call.
func (d *Decoder) Canonical(raw []byte) []byte {
	s := d.borrow()
	all := bytes.NewBuffer(s.block) // then the compact value, then the escaped one
	if isCanonical(raw) || json.Compact(all, raw) != nil {
		return raw
	}
	startOfCompact := len(s.block)
	startOfEscaped := all.Len()
	json.HTMLEscape(all, all.Bytes()[startOfCompact:])
	s.block = all.Bytes()[:startOfCompact]
	return all.Bytes()[startOfEscaped:]
}

// isCanonical reports whether json.Marshal would certainly leave a valid json.RawMessage as it is: it removes white
// space and escapes some characters. Most values have neither, and copying them would take a fifth of the time of a
// page.
func isCanonical(raw []byte) bool {
	inText := false
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			inText = !inText
		case ' ', '\t', '\n', '\r':
			if !inText {
				return false
			}
		case '<', '>', '&', 0xe2: // what json.Marshal escapes; the last one begins U+2028 and U+2029
			return false
		}
	}
	return true
}

// Flush stores the texts that Intern received, the last one if several are for the same *to. End calls it too.
func (d *Decoder) Flush() {
	if d.scratch == nil || len(d.scratch.kept) == 0 {
		return
	}
	s := d.scratch
	block := string(s.block)
	start := 0
	for _, k := range s.kept {
		*k.to = block[start:k.end]
		start = k.end
	}
	clear(s.kept) // otherwise the pool would keep records in memory
	s.kept = s.kept[:0]
	s.block = s.block[:0]
}
