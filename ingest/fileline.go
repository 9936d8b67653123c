package ingest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A journal's file is lines of text. Each begins with a checksum of its text and of all lines before it, so that not even a
// whole line can be lost or moved unnoticed:
//
//	5f1c2a3b clinicaldoc-ingest 1 https://host/prefix
//	91d0e6c7 2026-01-02T03:04:05.6789Z committing 0123456789abcdef0123456789abcdef patient=9a8b7c6d name=01234567 size=48044 sent=2026-01-02T03:04:04.5Z
const (
	magic       = "clinicaldoc-ingest "
	fileVersion = "1"
	sumDigits   = 8
	maxLine     = 4096
	maxWhy      = 300
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendLine appends a line with this text and returns the checksum that the next one goes on from.
func appendLine(to []byte, sum uint32, text []byte) ([]byte, uint32) {
	sum = crc32.Update(sum, castagnoli, text)
	to = appendHex32(to, sum)
	to = append(to, ' ')
	to = append(to, text...)
	return append(to, '\n'), sum
}

func appendHex32(to []byte, v uint32) []byte {
	return hex.AppendEncode(to, binary.BigEndian.AppendUint32(nil, v))
}

// readLine returns the text of a line, without its newline, if its checksum is right.
func readLine(line []byte, sum uint32) (text []byte, next uint32, ok bool) {
	if len(line) <= sumDigits || line[sumDigits] != ' ' {
		return nil, 0, false
	}
	want, ok := parseHex32(line[:sumDigits])
	text = line[sumDigits+1:]
	next = crc32.Update(sum, castagnoli, text)
	return text, next, ok && want == next
}

func appendEntry(to []byte, e Entry) []byte {
	to = e.At.UTC().AppendFormat(to, time.RFC3339Nano)
	to = append(append(to, ' '), e.State.String()...)
	to = hex.AppendEncode(append(to, ' '), e.Key[:])
	if e.State == StateClaimed {
		return to
	}
	to = appendHex32(append(to, " patient="...), e.Patient)
	to = appendHex32(append(to, " name="...), e.Name)
	to = strconv.AppendInt(append(to, " size="...), e.Size, 10)
	to = e.SentAt.UTC().AppendFormat(append(to, " sent="...), time.RFC3339Nano)
	if !e.Until.IsZero() {
		to = e.Until.UTC().AppendFormat(append(to, " until="...), time.RFC3339Nano)
	}
	if e.NoteID != 0 {
		to = strconv.AppendInt(append(to, " note="...), e.NoteID, 10)
	}
	if e.Found {
		to = append(to, " found=true"...)
	}
	if e.Why != "" {
		to = append(append(to, " why="...), oneLine(e.Why)...)
	}
	return to
}

// oneLine keeps what may stand in a line.
func oneLine(why string) string {
	why = strings.ToValidUTF8(why[:min(len(why), maxWhy)], "")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, why)
}

// parseEntry reads what appendEntry wrote.
func parseEntry(text []byte) (e Entry, ok bool) {
	at, rest, _ := bytes.Cut(text, []byte{' '})
	state, rest, _ := bytes.Cut(rest, []byte{' '})
	key, rest, _ := bytes.Cut(rest, []byte{' '})
	number := slices.Index(stateNames[:], string(state))
	if number < 1 || hex.DecodedLen(len(key)) != len(e.Key) {
		return e, false
	}
	e.State = State(number) //nolint:gosec // one of a few
	_, err := hex.Decode(e.Key[:], key)
	ok = err == nil && parseTime(at, &e.At)
	for ok && len(rest) > 0 {
		name, value, found := bytes.Cut(rest, []byte{'='})
		if string(name) == "why" {
			e.Why = string(value)
			break
		}
		value, rest, _ = bytes.Cut(value, []byte{' '})
		ok = found && e.parseField(string(name), value)
	}
	return e, ok
}

// parseField reads one member. One that is not known makes the line unreadable: it may matter.
func (e *Entry) parseField(name string, value []byte) bool {
	var err error
	ok := true
	switch name {
	case "patient":
		e.Patient, ok = parseHex32(value)
	case "name":
		e.Name, ok = parseHex32(value)
	case "size":
		e.Size, err = strconv.ParseInt(string(value), 10, 64)
	case "note":
		e.NoteID, err = strconv.ParseInt(string(value), 10, 64)
	case "sent":
		return parseTime(value, &e.SentAt)
	case "until":
		return parseTime(value, &e.Until)
	case "found":
		e.Found = string(value) == "true"
		return e.Found
	default:
		return false
	}
	return ok && err == nil
}

// parseHex32 takes only what appendHex32 writes.
func parseHex32(value []byte) (v uint32, ok bool) {
	for _, c := range value {
		switch {
		case '0' <= c && c <= '9':
			v = v<<4 | uint32(c-'0')
		case 'a' <= c && c <= 'f':
			v = v<<4 | uint32(c-'a'+10)
		default:
			return 0, false
		}
	}
	return v, len(value) == sumDigits
}

func parseTime(value []byte, to *time.Time) bool {
	at, err := time.Parse(time.RFC3339Nano, string(value))
	*to = at
	return err == nil
}
