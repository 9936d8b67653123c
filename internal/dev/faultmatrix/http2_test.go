package faultmatrix

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
)

// The frames of HTTP/2 that are needed to misbehave. Requests are told apart by their stream alone, so that their
// compressed header need not be understood.
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	frameReset        = 0x3
	frameSettings     = 0x4
	framePing         = 0x6
	frameGoAway       = 0x7
	frameWindowUpdate = 0x8

	flagAck        = 0x1 // of settings and pings
	flagEndStream  = 0x1 // of data and headers
	flagEndHeaders = 0x4

	codeNone          = 0x0
	codeProtocolError = 0x1
	codeInternalError = 0x2
	codeRefusedStream = 0x7

	clientPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// h2Conn is a server's end of an HTTP/2 connection.
type h2Conn struct {
	conn net.Conn
	in   *bufio.Reader
}

// serveFrames greets and hands the connection to a script.
func serveFrames(conn net.Conn, in *bufio.Reader, script func(*h2Conn)) {
	if _, err := io.ReadFull(in, make([]byte, len(clientPreface))); err != nil {
		return
	}
	c := &h2Conn{conn, in}
	c.write(frameSettings, 0, 0, nil)
	script(c)
	_, _ = io.Copy(io.Discard, in) // the SDK's side closes; a close from here could overtake the last frames
}

func (c *h2Conn) write(kind, flags byte, stream uint32, payload []byte) {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	frame = append(frame, flags)
	frame = binary.BigEndian.AppendUint32(frame, stream)
	_, _ = c.conn.Write(append(frame, payload...))
}

func (c *h2Conn) read() (kind, flags byte, stream uint32, payload []byte, err error) {
	var head [9]byte
	if _, err = io.ReadFull(c.in, head[:]); err != nil {
		return 0, 0, 0, nil, err
	}
	length := binary.BigEndian.Uint32(head[:4])
	payload = make([]byte, length>>8)
	_, err = io.ReadFull(c.in, payload)
	return byte(length), head[4], binary.BigEndian.Uint32(head[5:]) &^ (1 << 31), payload, err
}

// request waits for a request's header and tells its stream; with whole, for all of its body too.
func (c *h2Conn) request(whole bool) (stream uint32, ok bool) {
	for {
		kind, flags, id, payload, err := c.read()
		if err != nil {
			return 0, false
		}
		switch {
		case kind == frameSettings && flags&flagAck == 0:
			c.write(frameSettings, flagAck, 0, nil)
		case kind == framePing && flags&flagAck == 0: // a busy machine needs its time
			c.write(framePing, flagAck, 0, payload)
		case kind == frameHeaders && !whole:
			return id, true
		case kind == frameHeaders && flags&flagEndStream == 0:
			c.write(frameHeaders, flagEndHeaders, id, []byte("\x08\x03100")) // :status 100, whether it was asked for or not
		case kind == frameData && len(payload) > 0:
			c.write(frameWindowUpdate, 0, 0, binary.BigEndian.AppendUint32(nil, uint32(len(payload))))
			if flags&flagEndStream == 0 {
				c.write(frameWindowUpdate, 0, id, binary.BigEndian.AppendUint32(nil, uint32(len(payload))))
			}
		}
		if (kind == frameHeaders || kind == frameData) && flags&flagEndStream != 0 {
			return id, true
		}
	}
}

// goAway says that streams beyond last were not looked at.
func (c *h2Conn) goAway(last uint32) {
	c.write(frameGoAway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), codeNone))
}

func (c *h2Conn) resetStream(stream, code uint32) {
	c.write(frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code))
}
