package faultmatrix

import (
	"io"
	"net/http"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// cut takes some of an upload and breaks the connection.
func cut(s *strike) {
	s.invite()
	_, _ = io.CopyN(io.Discard, s.request.Body, 64<<10)
	s.reset()
}

// early answers before an upload was read. Small bodies are read, or the answer could be lost on the way.
func early(status int, linger bool) func(*strike) {
	return func(s *strike) {
		if s.request.ContentLength < 64<<10 {
			s.take()
		}
		a := made(status, `{"message":"`+canary+`"}`)
		s.send(a.head(a.length() + "\r\nConnection: close"))
		s.send(string(a.body))
		if linger {
			s.hangUp()
		}
	}
}

func uploadFaults() []fault {
	uploads := func(p promise) promises { return promises{}.with(p, "Create", "Create+") }
	rows := []fault{
		{name: "upload cut once", strike: cut, promises: uploads(succeeds(2))},
		{name: "upload cut every time", strike: cut, times: forEver, promises: uploads(fails(2))},
		{
			name: "417 once", strike: says(http.StatusExpectationFailed, "{}"),
			promises: everywhere(fails(1).withStatus(http.StatusExpectationFailed)).with(succeeds(1).wire(2, 2), "Create+"),
		},
		{
			name: "417 for ever", strike: says(http.StatusExpectationFailed, "{}"), times: forEver,
			promises: everywhere(fails(1).withStatus(http.StatusExpectationFailed)).with(fails(1).wire(2, 2).withStatus(http.StatusExpectationFailed), "Create+"),
		},
	}
	for _, refusal := range []struct {
		status int
		is     error
		name   string
	}{
		{http.StatusRequestEntityTooLarge, clinicaldoc.ErrTooLarge, "early 413"},
		{http.StatusUnauthorized, clinicaldoc.ErrUnauthorized, "early 401"},
	} {
		told := everywhere(fails(1, refusal.is).withStatus(refusal.status))
		if refusal.status == http.StatusUnauthorized {
			told = told.with(fails(2, refusal.is).withStatus(refusal.status), "Download") // a fresh address is worth a try
		}
		rows = append(rows,
			fault{name: refusal.name + " with linger", strike: early(refusal.status, true), times: forEver, promises: told},
			// Without, a reset may overtake the answer to an upload that was not announced.
			fault{name: refusal.name + " without linger", strike: early(refusal.status, false), times: forEver, promises: told.with(fails(1).upTo(2), "Create")},
		)
	}
	return rows
}
