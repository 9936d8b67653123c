package faultmatrix

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// strike is a connection in the hands of a fault; its methods are what faults are made of.
type strike struct {
	front   *front
	conn    net.Conn
	raw     net.Conn // below TLS
	in      *bufio.Reader
	request *http.Request
	body    []byte // once taken
	warm    bool
	keep    bool // the connection serves further requests
	silent  bool // nobody reads from it any more, and nobody closes it
}

// take reads the rest of the request.
func (s *strike) take() {
	if s.body != nil {
		return
	}
	s.invite()
	body := bytes.NewBuffer(make([]byte, 0, max(0, s.request.ContentLength)+bytes.MinRead))
	_, _ = body.ReadFrom(s.request.Body)
	s.body = body.Bytes()
}

// invite lets an announced body come.
func (s *strike) invite() {
	if s.request.Header.Get("Expect") != "" {
		s.send("HTTP/1.1 100 Continue\r\n\r\n")
	}
}

// carryOut lets the box act on the whole request, and keeps the answer back.
func (s *strike) carryOut() answer {
	s.take()
	return s.front.world.forward(s.request.Method, s.request.URL.RequestURI(), s.request.Header, s.body)
}

func (s *strike) send(text string) { _, _ = io.WriteString(s.conn, text) }

// write sends a whole answer.
func (s *strike) write(a answer) {
	framing := a.length()
	if a.status == http.StatusNoContent {
		framing = "X-Synthetic: 1"
	}
	if s.request.Close {
		framing += "\r\nConnection: close"
	}
	s.send(a.head(framing))
	if s.request.Method != http.MethodHead {
		_, _ = s.conn.Write(a.body)
	}
}

// reset drops the connection so that the SDK sees a reset, not an end.
func (s *strike) reset() {
	if tcp, is := s.raw.(*net.TCPConn); is {
		_ = tcp.SetLinger(0)
	}
	_ = s.raw.Close()
}

// untilClosed waits for the SDK to close the connection.
func (s *strike) untilClosed() { _, _ = io.Copy(io.Discard, s.in) }

// untilOver keeps the connection and reads nothing from it.
func (s *strike) untilOver() { <-s.front.world.over }

// hangUp ends the answer and waits until the SDK has read it, as servers do that close with care.
func (s *strike) hangUp() {
	if tcp, is := s.raw.(*net.TCPConn); is && !s.front.secure {
		_ = tcp.CloseWrite()
		s.untilClosed()
	}
}

// endless writes until the SDK has had enough.
func (s *strike) endless(piece string) {
	piece = strings.Repeat(piece, 1+4096/len(piece))
	for {
		if _, err := io.WriteString(s.conn, piece); err != nil {
			return
		}
	}
}

// says is a strike that takes the request and answers with a status, a body and headers.
func says(status int, body string, header ...string) func(*strike) {
	return func(s *strike) {
		s.take()
		s.write(made(status, body, header...))
		s.keep = !s.request.Close
	}
}

// made is an answer that the box knows nothing of.
func made(status int, body string, header ...string) answer {
	a := answer{status, http.Header{"X-Request-Id": {"synthetic-1"}, "Content-Type": {"application/json"}}, []byte(body)}
	for i := 0; i+1 < len(header); i += 2 {
		a.header[header[i]] = []string{header[i+1]}
	}
	return a
}

// chunk is one piece of a chunked body.
func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }
