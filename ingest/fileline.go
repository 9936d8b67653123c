package ingest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash/crc32"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A journal's file is lines of text. Each begins with a checksum of its text and of all lines before it, so that not
// even a whole line can be lost or moved unnoticed:
//
//	5f1c2a3b clinicaldoc-ingest 3 https://host/prefix user=17 headers=none
//	91d0e6c7 2026-01-02T03:04:05.6789Z committing 0123456789abcdef0123456789abcdef patient=9a8b7c6d name=01234567 ...
//	0b7e21f4 2026-02-03T04:05:06Z owner https://new-name/prefix user=17 headers=none
//	77a90c1d 2026-02-03T04:05:07Z gap
//
// The first line names the service that keys are hashed with. An owner line follows when the service got another name,
// or when the user or the headers became known, a gap line when some of what was written is gone. Version 1 had neither
// these nor made, sha, by and loss; version 2 had neither stage, replaced nor excluded.
const (
	journalKind = "clinicaldoc-ingest"
	fileVersion = 3
	sumDigits   = 8
	maxWhy      = 300
	maxBy       = 200
	maxLoss     = 4000
	maxLine     = 64 << 10 // a longer one cannot be read
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendLine appends a line with this text, which follows one with checksum sum. It returns the new line's checksum.
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

// readLine returns the text and the checksum of a line without its newline, which follows one with checksum sum. It
// reports whether the line is as it was written.
func readLine(line []byte, sum uint32) (text []byte, next uint32, ok bool) {
	if len(line) <= sumDigits || line[sumDigits] != ' ' {
		return nil, 0, false
	}
	want, ok := parseHex32(line[:sumDigits])
	text = line[sumDigits+1:]
	next = crc32.Update(sum, castagnoli, text)
	return text, next, ok && want == next
}

// appendEntry appends the text of an entry's line. Of a claim it writes only the time and the key.
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
	if !e.NoteCreatedAt.IsZero() {
		to = e.NoteCreatedAt.UTC().AppendFormat(append(to, " made="...), time.RFC3339Nano)
	}
	if e.Found {
		to = append(to, " found=true"...)
	}
	if e.Stage != 0 {
		to = append(append(to, " stage="...), e.Stage.String()...)
	}
	if len(e.Replaced) > 0 {
		to = appendReplaced(append(to, " replaced="...), e.Replaced)
	}
	if len(e.Excluded) > 0 {
		to = appendIDs(append(to, " excluded="...), e.Excluded)
	}
	if e.SHA256 != "" {
		to = append(append(to, " sha="...), e.SHA256...)
	}
	if e.By != "" {
		to = append(append(to, " by="...), url.QueryEscape(e.By[:min(len(e.By), maxBy)])...)
	}
	if len(e.Loss) > 0 && len(e.Loss) <= maxLoss {
		to = append(append(to, " loss="...), withoutSpaces(e.Loss)...)
	}
	if e.Why != "" {
		to = append(append(to, " why="...), oneLine(e.Why)...)
	}
	return to
}

// appendReplaced appends notes as "12@2026-01-02T03:04:05Z,17": the id, and when the note was created if that is known.
func appendReplaced(to []byte, notes []NoteRef) []byte {
	for i, note := range notes {
		if i > 0 {
			to = append(to, ',')
		}
		to = strconv.AppendInt(to, note.ID, 10)
		if !note.CreatedAt.IsZero() {
			to = note.CreatedAt.UTC().AppendFormat(append(to, '@'), time.RFC3339Nano)
		}
	}
	return to
}

// parseReplaced reads what appendReplaced wrote.
func parseReplaced(text string) (notes []NoteRef, ok bool) {
	for part := range strings.SplitSeq(text, ",") {
		id, createdAt, isDated := strings.Cut(part, "@")
		var note NoteRef
		var err error
		note.ID, err = strconv.ParseInt(id, 10, 64)
		if err != nil {
			return nil, false
		}
		if isDated && !parseTime([]byte(createdAt), &note.CreatedAt) {
			return nil, false
		}
		notes = append(notes, note)
	}
	return notes, true
}

// appendIDs appends ids, separated by commas.
func appendIDs(to []byte, ids []int64) []byte {
	for i, id := range ids {
		if i > 0 {
			to = append(to, ',')
		}
		to = strconv.AppendInt(to, id, 10)
	}
	return to
}

// parseIDs reads what appendIDs wrote.
func parseIDs(text string) (ids []int64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		id, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// withoutSpaces makes JSON one word. Outside its strings compact JSON has no spaces.
func withoutSpaces(text json.RawMessage) []byte {
	var compact bytes.Buffer
	if json.Compact(&compact, text) != nil {
		return nil
	}
	return bytes.ReplaceAll(compact.Bytes(), []byte{' '}, []byte(`\u0020`))
}

// oneLine shortens a text to maxWhy bytes and replaces control characters, which must not stand in a line.
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
		if string(name) == "why" { // it is the last one, and may have spaces
			e.Why = string(value)
			break
		}
		value, rest, _ = bytes.Cut(value, []byte{' '})
		ok = found && e.parseField(string(name), value)
	}
	return e, ok
}

// parseField reads one member. An unknown member makes the line unreadable, because it may matter.
func (e *Entry) parseField(name string, value []byte) bool {
	if at := e.timeField(name); at != nil {
		return parseTime(value, at)
	}
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
	case "found":
		e.Found = string(value) == "true"
		return e.Found
	case "sha":
		e.SHA256 = string(value)
	case "stage":
		err = e.Stage.UnmarshalText(value)
	case "replaced":
		e.Replaced, ok = parseReplaced(string(value))
	case "excluded":
		e.Excluded, err = parseIDs(string(value))
	case "by":
		e.By, err = url.QueryUnescape(string(value))
	case "loss":
		e.Loss = bytes.Clone(value)
		ok = json.Valid(e.Loss)
	default:
		return false
	}
	return ok && err == nil
}

// timeField returns the field of a member that is a time, or nil.
func (e *Entry) timeField(name string) *time.Time {
	switch name {
	case "sent":
		return &e.SentAt
	case "until":
		return &e.Until
	case "made":
		return &e.NoteCreatedAt
	}
	return nil
}

// notice is a line about the journal itself.
type notice struct {
	at    time.Time
	owner Owner
	isGap bool
}

const (
	ownerWord = "owner"
	gapWord   = "gap"
)

// appendNotice appends the text of a notice's line.
func appendNotice(to []byte, n notice) []byte {
	to = n.at.UTC().AppendFormat(to, time.RFC3339Nano)
	if n.isGap {
		return append(to, " "+gapWord...)
	}
	to = append(to, " "+ownerWord+" "+n.owner.Service+" user="+strconv.FormatInt(n.owner.UserID, 10)...)
	if n.owner.Headers != "" {
		to = append(to, " headers="+n.owner.Headers...)
	}
	return to
}

// parseNotice reads what appendNotice wrote.
func parseNotice(text []byte) (n notice, ok bool) {
	at, rest, _ := bytes.Cut(text, []byte{' '})
	if string(rest) == gapWord {
		n.isGap = true
		return n, parseTime(at, &n.at)
	}
	owner, isOwner := bytes.CutPrefix(rest, []byte(ownerWord+" "))
	if !isOwner {
		return n, false
	}
	service, members, _ := strings.Cut(string(owner), " user=")
	user, headers, _ := strings.Cut(members, " headers=")
	id, err := strconv.ParseInt(user, 10, 64)
	n.owner = Owner{Service: service, UserID: id, Headers: headers}
	return n, err == nil && parseTime(at, &n.at)
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
