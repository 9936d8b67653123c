package faultmatrix

import (
	"net/http"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// lostAnswers break off, or garble, the answer to a request that arrived as a whole.
func lostAnswers() []fault {
	notDone := safeToRepeat(succeeds(2), unknown(1))
	done := seenToBeDone(notDone)
	// What came is whole as far as HTTP can tell, so that nothing is gained by asking again.
	garbled := safeToRepeat(fails(1, clinicaldoc.ErrUnexpectedResponse), unknown(1, clinicaldoc.ErrUnexpectedResponse)).with(succeeds(1), "Sign", "Sign=")
	cutFile := garbled
	cutFile.storage = succeeds(2)
	// Without the note's size nothing proves where a recording ends.
	noEnd := fails(1, clinicaldoc.ErrUnexpectedResponse)
	extended := garbled
	extended.storage = promise{} // nothing tells bytes too many from a longer recording
	half := func(a answer) string { return string(a.body[:len(a.body)/2]) }
	var rows []fault
	for _, row := range []struct {
		name     string
		sent     func(answer) string
		end      func(*strike)
		promises promises
	}{
		{"cut within its status line", func(answer) string { return "HTTP/1.1 20" }, (*strike).hangUp, done},
		{"cut within its header", func(a answer) string { return a.head("X-Synthetic: 1")[:20] }, (*strike).hangUp, done},
		{"cut after its header", func(a answer) string { return a.head(a.length()) }, (*strike).hangUp, done},
		{"cut within its body", func(a answer) string { return a.head(a.length()) + half(a) }, (*strike).hangUp, done},
		{"reset within its body", func(a answer) string { return a.head(a.length()) + half(a) }, (*strike).reset, done},
		{
			"cut within a chunked body",
			func(a answer) string { return a.head("Transfer-Encoding: chunked") + chunk(half(a)) }, (*strike).hangUp, done,
		},
		{
			"without length, whole", func(a answer) string { return a.head("Connection: close") + string(a.body) },
			(*strike).hangUp, everywhere(succeeds(1)).with(noEnd, "DownloadAny"),
		},
		{
			"without length, cut", func(a answer) string { return a.head("Connection: close") + half(a) },
			(*strike).hangUp, cutFile.with(noEnd, "DownloadAny"),
		},
	} {
		strike := func(s *strike) {
			s.send(row.sent(s.carryOut()))
			row.end(s)
		}
		rows = append(rows, fault{name: "answer " + row.name, commits: true, strike: strike, promises: row.promises})
	}
	return append(rows, []fault{
		{name: "answer lost, not carried out, reset", strike: func(s *strike) { s.take(); s.reset() }, promises: notDone},
		{name: "answer lost, not carried out, closed", strike: (*strike).take, promises: notDone},
		{name: "answer lost, carried out, reset", commits: true, strike: func(s *strike) { s.carryOut(); s.reset() }, promises: done},
		{name: "answer lost, carried out, closed", commits: true, strike: func(s *strike) { s.carryOut() }, promises: done},
		{name: "answer lost every time, carried out", commits: true, times: forEver, strike: func(s *strike) { s.carryOut(); s.reset() }, promises: seenToBeDone(safeToRepeat(fails(4), unknown(1)))},
		{name: "answer is not HTTP", strike: func(s *strike) { s.take(); s.send("SSH-2.0-" + canary + "\r\n\r\n") }, promises: notDone},
		{name: "answer with bytes trailing in its body", commits: true, strike: func(s *strike) {
			a := s.carryOut()
			a.body = append(a.body, "}"+canary...)
			s.write(a)
		}, promises: extended},
		{name: "answer with bytes trailing behind it", commits: true, strike: func(s *strike) {
			s.write(s.carryOut())
			s.write(made(http.StatusOK, `{"id":999,"name":"`+canary+`"}`))
			s.hangUp()
		}, promises: everywhere(succeeds(1))},
	}...)
}

// seenToBeDone: an edit that was carried out is found out by reading the note, not by writing it once more.
func seenToBeDone(p promises) promises {
	return p.with(succeeds(1), "Update", "Update=", "Sign", "Sign=", "Delete=")
}
