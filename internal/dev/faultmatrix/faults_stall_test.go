package faultmatrix

import (
	"errors"
	"net"
)

func timedOut(err error) bool {
	var timeout net.Error
	var own interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout() || errors.As(err, &own) && own.Timeout()
}

// stalls keep the connection and move nothing.
func stalls() []fault {
	patience := setting{policy: onceAgain, stall: stallAfter}
	neverRead := everywhere(fails(2).thatIs(timedOut)).with(unknown(1).thatIs(timedOut), "DoPOST")
	neverRead.repeats.result = unknownOutcome
	forEverStalled := safeToRepeat(fails(2).thatIs(timedOut), unknown(1).thatIs(timedOut))
	return []fault{
		{
			name: "request not read", setting: patience, strike: (*strike).untilOver,
			// A small body lies whole in the sockets' buffers; an upload cannot have arrived.
			promises: everywhere(succeeds(2)).with(unknown(1).thatIs(timedOut), "DoPOST"),
		},
		{
			name: "request never read", setting: patience, strike: (*strike).untilOver, times: forEver,
			promises: neverRead,
		},
		{
			name: "upload stalls half-way", setting: patience, strike: func(s *strike) {
				s.invite()
				_, _ = s.request.Body.Read(make([]byte, 32<<10))
				s.untilOver()
			},
			promises: promises{}.with(succeeds(2), "Create", "Create+"),
		},
		{
			name: "no answer, not carried out", setting: patience, paced: true, strike: func(s *strike) { s.take(); s.untilClosed() },
			promises: safeToRepeat(succeeds(2), unknown(1).thatIs(timedOut)),
		},
		{
			name: "no answer, carried out", setting: patience, paced: true, commits: true, strike: func(s *strike) { s.carryOut(); s.untilClosed() },
			promises: seenToBeDone(safeToRepeat(succeeds(2), unknown(1).thatIs(timedOut))),
		},
		{
			name: "answer stalls within its header", setting: patience, paced: true, commits: true,
			strike:   func(s *strike) { s.send(s.carryOut().head("X-Synthetic: 1")[:20]); s.untilClosed() },
			promises: seenToBeDone(safeToRepeat(succeeds(2), unknown(1).thatIs(timedOut))),
		},
		{
			name: "answer stalls within its body", setting: patience, commits: true,
			strike: func(s *strike) {
				a := s.carryOut()
				s.send(a.head(a.length()) + string(a.body[:len(a.body)/2]))
				s.untilClosed()
			},
			promises: seenToBeDone(safeToRepeat(succeeds(2), unknown(1).thatIs(timedOut))),
		},
		{
			// As when a firewall has forgotten the connection: nobody reads what is sent, and nobody says so.
			name: "kept connection silent", setting: patience, warm: func(s *strike) { s.keep, s.silent = false, true },
			// On a busy machine it is idle for so long that a create takes another one.
			promises: promises{
				reads: succeeds(2).wire(1, 1), repeats: succeeds(2).wire(1, 1), creates: succeeds(1).upTo(2).wire(1, 1), storage: succeeds(2).wire(1, 1),
			}.with(settles(1).thatIs(timedOut).wire(0, 1), "DoPOST"),
		},
		{
			name: "new connection silent", setting: patience, accept: (*strike).untilOver,
			promises: everywhere(succeeds(2).wire(1, 1)).with(unknown(1).thatIs(timedOut).wire(0, 0), "DoPOST"),
		},
		{
			name: "never an answer", setting: patience, paced: true, times: forEver, strike: func(s *strike) { s.take(); s.untilClosed() },
			promises: forEverStalled,
		},
	}
}
