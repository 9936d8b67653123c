package devproxy

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	maxBody   = 32 << 20 // of one body are kept
	maxBodies = 96 << 20 // of all bodies
	maxText   = 4 << 10  // of a part are shown at once
)

// bodies keeps what was sent, within bounds: for a new body the oldest is forgotten. The zero value is ready.
type bodies struct {
	mu   sync.Mutex
	used int
	kept []*body // oldest first
}

// body is a copy of a body, which may still be on its way. A nil one keeps nothing.
type body struct {
	of      *bodies
	content []byte
	cut     bool // more came than is kept
	gone    bool // forgotten
}

func (b *bodies) new() *body { return &body{of: b} }

// Write keeps a copy of a piece, and never fails.
func (c *body) Write(piece []byte) (int, error) {
	if c == nil || len(piece) == 0 {
		return len(piece), nil
	}
	b := c.of
	b.mu.Lock()
	defer b.mu.Unlock()
	room := maxBody - len(c.content)
	if c.cut || c.gone {
		room = 0
	}
	c.cut = c.cut || len(piece) > room
	added := piece[:min(len(piece), room)]
	for b.used+len(added) > maxBodies && len(b.kept) > 0 && b.kept[0] != c {
		b.kept[0].forget()
		b.kept = b.kept[1:]
	}
	if b.used+len(added) > maxBodies { // everything is this one, or on its way
		c.cut, added = true, nil
	}
	if len(c.content) == 0 && len(added) > 0 {
		b.kept = append(b.kept, c)
	}
	c.content = append(c.content, added...)
	b.used += len(added)
	return len(piece), nil
}

// forget gives the memory back; the caller holds the lock.
func (c *body) forget() {
	c.of.used -= len(c.content)
	c.content, c.gone = nil, true
}

// drop forgets bodies whose requests are not kept any more.
func (b *bodies) drop(dropped ...*body) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range dropped {
		if c != nil && !c.gone {
			c.forget()
		}
	}
	for len(b.kept) > 0 && b.kept[0].gone {
		b.kept = b.kept[1:]
	}
}

// bytes returns what is kept, and whether that is all.
func (c *body) bytes() (content []byte, whole bool) {
	if c == nil {
		return nil, false
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.content, !c.cut && !c.gone
}

// shownBody is what a page is told of a body before it fetches it.
type shownBody struct {
	Type   string `json:"type"`
	Kept   int    `json:"kept"`
	Whole  bool   `json:"whole"`
	Text   bool   `json:"text"` // it can be shown as text
	Packed bool   `json:"packed,omitempty"`
}

func (c *body) shown(header http.Header) *shownBody {
	if c == nil {
		return nil
	}
	content, whole := c.bytes()
	unpacked := unpack(header, content)
	start := unpacked[:min(len(unpacked), maxShaped)]
	for range utf8.UTFMax { // it may end within a letter
		if !utf8.Valid(start) && len(start) < len(unpacked) {
			start = start[:len(start)-1]
		}
	}
	return &shownBody{
		Type: header.Get("Content-Type"), Kept: len(content), Whole: whole, Packed: len(unpacked) != len(content),
		Text: utf8.Valid(start) && !bytes.ContainsRune(start, 0),
	}
}

// unpack returns a body as it was before compression, or as it is.
func unpack(header http.Header, content []byte) []byte {
	if !strings.EqualFold(header.Get("Content-Encoding"), "gzip") {
		return content
	}
	if unpacked, err := gunzip(content); err == nil {
		return unpacked
	}
	return content
}

// part is a part of a form.
type part struct {
	Name    string `json:"name"`
	File    string `json:"file,omitempty"`
	Type    string `json:"type,omitempty"`
	Size    int    `json:"size"`
	Text    string `json:"text,omitempty"` // of a short text
	content []byte
}

// partsOf returns the parts of a form, as far as they are kept.
func partsOf(header http.Header, content []byte) (parts []part) {
	mediaType, parameters, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/form-data" || parameters["boundary"] == "" {
		return nil
	}
	for reader := multipart.NewReader(bytes.NewReader(content), parameters["boundary"]); len(parts) < maxShapeLines; {
		next, err := reader.NextRawPart()
		if err != nil {
			return parts
		}
		text, _ := io.ReadAll(next) // of a part that breaks off, what is there
		p := part{
			Name: next.FormName(), File: next.FileName(), Type: next.Header.Get("Content-Type"), Size: len(text),
			content: text,
		}
		if len(text) <= maxText && utf8.Valid(text) && !bytes.ContainsRune(text, 0) && p.File == "" {
			p.Text = string(text)
		}
		parts = append(parts, p)
	}
	return parts
}
