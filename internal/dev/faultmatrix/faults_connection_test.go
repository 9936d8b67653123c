package faultmatrix

import (
	"errors"
	"io"
	"net"
)

func dialFailed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// connectionFaults break connections before or while a request is sent.
func connectionFaults() []fault {
	// A small body may have left as a whole before the reset is noticed: then only "unknown" is true.
	broken := everywhere(succeeds(2)).with(settles(1).upTo(2), "DoPOST")
	reused := everywhere(succeeds(1).upTo(2)).with(settles(1).upTo(2), "DoPOST")
	return []fault{
		{name: "refused twice", refused: true, times: 2, promises: everywhere(succeeds(3).wire(1, 1))},
		{name: "refused for ever", refused: true, times: forEver, promises: everywhere(fails(4).wire(0, 0).thatIs(dialFailed))},
		{
			name: "reset before the request", accept: (*strike).reset,
			promises: everywhere(succeeds(2).wire(1, 1)).with(settles(1).upTo(2).wire(0, 1), "DoPOST"),
		},
		{
			name: "reset within the request's header",
			accept: func(s *strike) {
				_, _ = io.ReadFull(s.in, make([]byte, 16))
				s.reset()
			},
			promises: everywhere(succeeds(2).wire(1, 1)).with(settles(1).upTo(2).wire(0, 1), "DoPOST"),
		},
		{name: "reset after the request's header", strike: (*strike).reset, promises: broken},
		{
			name: "kept connection reset by the next request", warm: func(*strike) {}, strike: (*strike).reset,
			promises: func() promises {
				p := reused
				p.reads, p.storage = succeeds(1).upTo(2).wire(2, 2), succeeds(1).upTo(2).wire(2, 2)
				return p
			}(),
		},
		{name: "kept connection closed while idle", warm: func(s *strike) { s.keep = false; _ = s.conn.Close() }, promises: reused},
		{name: "kept connection reset while idle", warm: func(s *strike) { s.keep = false; s.reset() }, promises: reused},
	}
}
