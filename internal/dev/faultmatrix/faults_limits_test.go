package faultmatrix

import (
	"bytes"
	"compress/gzip"
	"strings"
	"sync"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// bomb is small on the wire and large in memory.
var bomb = sync.OnceValue(func() string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	piece := []byte(strings.Repeat(" ", 1<<20))
	for range 8 {
		_, _ = w.Write(piece)
	}
	_ = w.Close()
	return b.String()
})

// nested is valid JSON that no stack should follow to its bottom.
var nested = sync.OnceValue(func() string {
	const levels = 20_000
	return `{"id":1,"url":"https://` + canary + `.test","data":[],"tokens":[],"deep":` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + "}"
})

// limits are answers that never end, or are larger than anybody wants.
func limits() []fault {
	small := setting{maxResponse: 256 << 10}
	tooMuch := safeToRepeat(fails(1, clinicaldoc.ErrUnexpectedResponse), unknown(1, clinicaldoc.ErrUnexpectedResponse))
	invalid := everywhere(fails(1, clinicaldoc.ErrValidation).withStatus(422))
	broken := safeToRepeat(fails(4), unknown(1))
	noGzip := broken
	noGzip.storage = fails(1, clinicaldoc.ErrUnexpectedResponse) // it was asked for plain bytes
	endless := func(head, piece string) func(*strike) {
		return func(s *strike) { s.take(); s.send(head); s.endless(piece) }
	}
	const ok, bad = "HTTP/1.1 200 OK\r\n", "HTTP/1.1 422 Unprocessable Content\r\n"
	return []fault{
		{name: "gzip bomb", setting: small, strike: func(s *strike) { says(200, bomb(), "Content-Encoding", "gzip")(s) }, promises: tooMuch},
		{name: "gzip bomb in an error", setting: small, strike: func(s *strike) { says(422, bomb(), "Content-Encoding", "gzip")(s) }, promises: invalid},
		{name: "gzip cut", setting: small, times: forEver, strike: func(s *strike) { says(200, bomb()[:200], "Content-Encoding", "gzip")(s) }, promises: noGzip},
		{name: "gzip that is none", setting: small, times: forEver, strike: says(200, canary, "Content-Encoding", "gzip"), promises: noGzip},
		{name: "endless body", setting: small, strike: endless(ok+"Connection: close\r\n\r\n", " "), promises: tooMuch},
		{name: "endless chunks", setting: small, strike: endless(ok+"Transfer-Encoding: chunked\r\n\r\n", chunk("[[[[[[[[")), promises: tooMuch},
		{name: "endless length", setting: small, strike: endless(ok+"Content-Length: 9223372036854775807\r\nContent-Type: application/json\r\n\r\n", " "), promises: tooMuch},
		{name: "endless body of an error", setting: small, strike: endless(bad+"Connection: close\r\n\r\n", canary), promises: invalid},
		{name: "endless header", setting: small, times: forEver, strike: endless(ok, "X-Synthetic: "+canary+"\r\n"), promises: broken},
		{name: "endless header line", setting: small, times: forEver, strike: endless(ok+"X-Synthetic: ", canary), promises: broken},
		{name: "endless 103", setting: small, times: forEver, strike: endless("", "HTTP/1.1 103 Early Hints\r\nLink: <"+canary+">\r\n\r\n"), promises: broken},
		{name: "deep nesting", setting: small, strike: func(s *strike) { says(200, nested())(s) }, promises: tooMuch},
		{name: "deep nesting in an error", setting: small, strike: func(s *strike) { says(422, nested())(s) }, promises: invalid},
	}
}
