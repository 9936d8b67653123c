// Package fileheader reads and writes the first line of files that a later process continues: journals, exports,
// stores. The line contains the format, the service and the user. A file of another version, service or user is
// rejected.
package fileheader

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Why something cannot be continued.
var (
	ErrNoHeader     = redact.New("no header")
	ErrLaterVersion = redact.New("written by a later version")
	ErrOtherService = redact.New("belongs to another service")
	ErrOtherUser    = redact.New("belongs to another user")
)

// Header is the content of the first line.
type Header struct {
	Kind    string // a word for what follows, such as clinicaldoc-ingest
	Version int    // of its format, from 1 on
	Service string // its name as [exchange.Service] gives it
	UserID  int64  // who made it; 0: not known
	Headers string // what [Fingerprint] returned for the client that made it; empty: not known
}

// NoHeaders is the [Fingerprint] of a client without its own headers.
const NoHeaders = "none"

// HeadersOf returns a fingerprint of the headers that a *clinicaldoc.Client sends with every request, which may select
// a tenant. It is empty if there are none, and does not count headers that name a single request. Package clinicaldoc
// sets it.
var HeadersOf func(client any) string

// Fingerprint returns a hash of a client's headers. It is never empty.
func Fingerprint(client any) string { return cmp.Or(HeadersOf(client), NoHeaders) }

const (
	userMember    = "user="
	headersMember = "headers="
)

// String returns the line, without a newline: kind, version, service and, if they are known, the user and the headers.
func (h Header) String() string {
	line := h.Kind + " " + strconv.Itoa(h.Version) + " " + h.Service
	if h.UserID != 0 {
		line += " " + userMember + strconv.FormatInt(h.UserID, 10)
	}
	if h.Headers != "" {
		line += " " + headersMember + h.Headers
	}
	return line
}

// Parse reads what String wrote. It returns an error matching [ErrNoHeader] for anything else. Of a line that a later
// version may have written, it reads what it knows.
func Parse(kind, line string) (Header, error) {
	words := strings.Split(line, " ")
	if len(words) < 2 || words[0] != kind {
		return Header{}, redact.Fail("it does not begin with "+kind, ErrNoHeader)
	}
	version, err := strconv.Atoi(words[1])
	if err != nil || version < 1 {
		return Header{}, redact.Fail("its header contains no version", ErrNoHeader)
	}
	h := Header{Kind: kind, Version: version}
	if len(words) > 2 {
		h.Service = words[2]
	}
	for _, word := range words[min(len(words), 3):] {
		if id, ok := strings.CutPrefix(word, userMember); ok {
			h.UserID, _ = strconv.ParseInt(id, 10, 64)
		}
		if headers, ok := strings.CutPrefix(word, headersMember); ok {
			h.Headers = headers
		}
	}
	return h, nil
}

// Check returns an error if a program that writes the header own must not continue a file with the header h. It accepts
// earlier versions; the caller rejects those that it cannot read. If either side does not know the user or the headers,
// these are not compared.
func (h Header) Check(own Header) error {
	switch {
	case h.Kind != own.Kind, h.Version < 1, h.Version <= own.Version && h.Service == "":
		return redact.Fail("it has no header of "+own.Kind, ErrNoHeader)
	case h.Version > own.Version:
		return redact.Fail("a later version of this program wrote it; update this program", ErrLaterVersion)
	case exchange.Service(h.Service) != exchange.Service(own.Service):
		return redact.Fail("it belongs to "+h.Service+", and this is "+own.Service, ErrOtherService)
	case differ(h.UserID, own.UserID):
		users := fmt.Sprintf("it belongs to user %d, and this is user %d", h.UserID, own.UserID)
		return redact.Fail(users, ErrOtherUser)
	case differ(h.Headers, own.Headers):
		return redact.Fail(
			"it was begun with different headers, which may select another tenant", ErrOtherService)
	}
	return nil
}

// differ reports whether two values are known, and not the same. The zero value is not known.
func differ[T comparable](a, b T) bool {
	var unknown T
	if a == unknown || b == unknown {
		return false
	}
	return a != b
}

// Completes reports whether h knows the user or the headers, and bound, which may be continued by h, does not. A client
// without headers does not count as such: it changes nothing that an earlier version wrote.
func (h Header) Completes(bound Header) bool {
	addsUser := h.UserID != 0 && bound.UserID == 0
	hasHeaders := !slices.Contains([]string{"", NoHeaders}, h.Headers)
	addsHeaders := hasHeaders && bound.Headers == ""
	return addsUser || addsHeaders
}
