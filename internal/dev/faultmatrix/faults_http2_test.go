package faultmatrix

// http2Faults are those that only HTTP/2 has. The connection after the struck ones speaks HTTP/1.1 and works.
func http2Faults() []fault {
	refuse := func(whole bool, code uint32) func(*h2Conn) {
		return func(c *h2Conn) {
			if stream, ok := c.request(whole); ok {
				c.goAway(stream) // first, so that no retry is sent on this connection
				c.resetStream(stream, code)
			}
		}
	}
	// net/http repeats a request that was not processed, if it can read the body again. The body of a create cannot
	// be read twice, and if all of it was sent, it is not certain that it was dropped.
	unseen := everywhere(succeeds(1).upTo(2)).with(settles(1).upTo(2), "DoPOST")
	seen := safeToRepeat(succeeds(1).upTo(2), unknown(1))
	never := everywhere(fails(2)).with(breaks(1).upTo(2), "DoPOST")
	never.repeats = breaks(2)                       // net/http does not say why it tried so often
	never = never.with(breaks(1), "Update", "Sign") // and then the note cannot be read either
	silent := safeToRepeat(succeeds(2), unknown(1)).with(succeeds(2), "Create", "Create+")
	deaf := safeToRepeat(fails(2).thatIs(timedOut), unknown(1).thatIs(timedOut)).with(fails(2).thatIs(timedOut), "Create", "Create+").
		with(unknown(1).thatIs(timedOut), "Update", "Sign") // the note cannot be read either
	return []fault{
		{name: "GOAWAY before the stream", promises: unseen, frames: func(c *h2Conn) {
			if _, ok := c.request(false); ok {
				c.goAway(0)
			}
		}},
		{name: "GOAWAY for ever", promises: never, times: forEver, setting: setting{policy: onceAgain}, frames: func(c *h2Conn) {
			if _, ok := c.request(false); ok {
				c.goAway(0)
			}
		}},
		{name: "GOAWAY after the whole request", promises: seen, frames: func(c *h2Conn) {
			if stream, ok := c.request(true); ok {
				c.goAway(stream)
				_ = c.conn.Close()
			}
		}},
		{name: "REFUSED_STREAM", promises: unseen, frames: refuse(false, codeRefusedStream)},
		{name: "REFUSED_STREAM for ever", promises: never, times: forEver, setting: setting{policy: onceAgain, stall: stallAfter}, frames: func(c *h2Conn) {
			for {
				stream, ok := c.request(false)
				if !ok {
					return
				}
				c.resetStream(stream, codeRefusedStream)
			}
		}},
		{
			name: "HTTP/2 silent, pinged", promises: silent, frames: func(c *h2Conn) { c.request(false) },
			setting: setting{policy: onceAgain, stall: untimed, pings: stallAfter},
		},
		{
			// Patient pings: on a busy machine the whole request needs its time, and one that is cut may be sent again.
			name: "HTTP/2 silent after the whole request, pinged", promises: seen, frames: func(c *h2Conn) { c.request(true) },
			setting: setting{policy: onceAgain, stall: untimed, pings: 8 * stallAfter},
		},
		{
			// The connection stays in the caller's pool: without pings nobody can know that it is dead.
			name: "HTTP/2 silent, not pinged", promises: deaf, frames: func(c *h2Conn) { c.request(false) },
			setting: setting{policy: onceAgain, stall: stallAfter},
		},
		{name: "INTERNAL_ERROR after the whole request", promises: seen, frames: refuse(true, codeInternalError)},
		{name: "PROTOCOL_ERROR after the whole request", promises: seen, frames: refuse(true, codeProtocolError)},
	}
}
