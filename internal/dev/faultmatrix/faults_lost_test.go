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
	return []fault{
		{name: "answer lost, not carried out, reset", strike: func(s *strike) { s.take(); s.reset() }, promises: notDone},
		{name: "answer lost, not carried out, closed", strike: (*strike).take, promises: notDone},
		{name: "answer lost, carried out, reset", commits: true, strike: func(s *strike) { s.carryOut(); s.reset() }, promises: done},
		{name: "answer lost, carried out, closed", commits: true, strike: func(s *strike) { s.carryOut() }, promises: done},
		{name: "answer lost every time, carried out", commits: true, times: forEver, strike: func(s *strike) { s.carryOut(); s.reset() }, promises: seenToBeDone(safeToRepeat(fails(4), unknown(1)))},
		{name: "answer is not HTTP", strike: func(s *strike) { s.take(); s.send("SSH-2.0-" + canary + "\r\n\r\n") }, promises: notDone},
		{name: "answer cut within its status line", commits: true, strike: func(s *strike) { s.carryOut(); s.send("HTTP/1.1 20"); s.hangUp() }, promises: done},
		{name: "answer cut within its header", commits: true, strike: func(s *strike) {
			a := s.carryOut()
			s.send(a.head("X-Synthetic: 1")[:20])
			s.hangUp()
		}, promises: done},
		{name: "answer cut after its header", commits: true, strike: func(s *strike) {
			a := s.carryOut()
			s.send(a.head(a.length()))
			s.hangUp()
		}, promises: done},
		{name: "answer cut within its body", commits: true, strike: func(s *strike) {
			a := s.carryOut()
			s.send(a.head(a.length()) + string(a.body[:len(a.body)/2]))
			s.hangUp()
		}, promises: done},
		{name: "answer reset within its body", commits: true, strike: func(s *strike) {
			a := s.carryOut()
			s.send(a.head(a.length()) + string(a.body[:len(a.body)/2]))
			s.reset()
		}, promises: done},
		{name: "answer cut within a chunked body", commits: true, strike: func(s *strike) {
			a := s.carryOut()
			s.send(a.head("Transfer-Encoding: chunked") + chunk(string(a.body[:len(a.body)/2])))
			s.hangUp()
		}, promises: done},
		{name: "answer without length, whole", commits: true, strike: func(s *strike) {
			a := s.carryOut()
			s.send(a.head("Connection: close") + string(a.body))
			s.hangUp()
		}, promises: everywhere(succeeds(1)).with(noEnd, "DownloadAny")},
		{name: "answer without length, cut", commits: true, strike: func(s *strike) {
			a := s.carryOut()
			s.send(a.head("Connection: close") + string(a.body[:len(a.body)/2]))
			s.hangUp()
		}, promises: cutFile.with(noEnd, "DownloadAny")},
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
	}
}

// seenToBeDone: an edit that was carried out is found out by reading the note, not by writing it once more.
func seenToBeDone(p promises) promises {
	return p.with(succeeds(1), "Update", "Update=", "Sign", "Sign=", "Delete=")
}
