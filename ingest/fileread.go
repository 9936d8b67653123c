package ingest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/internal/fileheader"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// lineReader reads a journal's file line by line and takes no line that is not as it was written.
type lineReader struct {
	from     *bufio.Reader
	header   fileheader.Header
	sum      uint32 // of the last line
	begun    int64  // where the last line begins
	size     int64  // where the last whole line ends
	lines    uint32
	unending bool // the last line lacks its newline
}

func newLineReader(from io.ReaderAt) *lineReader {
	const whole = 1 << 62
	return &lineReader{from: bufio.NewReaderSize(io.NewSectionReader(from, 0, whole), maxLine)}
}

// next returns the text of the next line, nil after the last one. It is valid until the next call. Behind the last line
// may stand the beginning of one that a crash cut off, or zeros.
func (l *lineReader) next(ctx context.Context) (text []byte, err error) {
	if l.lines%10_000 == 9_999 && ctx.Err() != nil {
		return nil, fail("the journal was not read: "+redact.Cause(ctx.Err()), ctx.Err(), context.Cause(ctx))
	}
	line, err := l.from.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF):
		return l.last(line)
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, l.checkZeros(line)
	case err != nil:
		return nil, cannot("read", err)
	}
	return l.take(line[:len(line)-1], len(line))
}

func (l *lineReader) take(line []byte, length int) ([]byte, error) {
	text, sum, ok := readLine(line, l.sum)
	if l.lines == 0 {
		if err := l.readHeader(line, text, ok); err != nil {
			return nil, err
		}
	}
	if !ok {
		return nil, l.damaged()
	}
	l.begun = l.size
	l.sum, l.size, l.lines = sum, l.size+int64(length), l.lines+1
	return text, nil
}

func (l *lineReader) damaged() error {
	const why = "line %d of the journal is damaged; nothing is uploaded. SalvageJournal keeps every complete " +
		"line, and later runs search the service for the other recordings"
	return fail(fmt.Sprintf(why, l.lines+1), ErrJournalDamaged)
}

func (l *lineReader) readHeader(line, text []byte, ok bool) error {
	h, err := fileheader.Parse(journalKind, string(text))
	switch {
	case !bytes.Contains(line, []byte(journalKind)):
		return errNotAJournal
	case !ok || err != nil:
		return l.damaged()
	case h.Version > fileVersion:
		return fail("a later version of this package wrote the journal; update this program", ErrJournalVersion)
	case h.Service == "":
		return l.damaged()
	}
	l.header = h
	return nil
}

var errNotAJournal = fail("the file is not a journal", ErrJournalVersion)

// last looks at what follows the last newline: nothing, a line that lacks only its newline, or the beginning of one. A
// crash may have left zeros behind it.
func (l *lineReader) last(rest []byte) ([]byte, error) {
	if len(rest) == 0 {
		return nil, nil
	}
	begun := bytes.TrimRight(rest, "\x00")
	if _, _, ok := readLine(begun, l.sum); ok {
		l.unending = true
		return l.take(begun, len(begun))
	}
	if _, _, ok := readLine(rest[:len(rest)-1], l.sum); ok {
		return nil, l.damaged() // it was whole, and its newline is another byte now
	}
	if l.lines == 0 && !beginsHeader(begun) {
		return nil, errNotAJournal
	}
	return nil, nil
}

// beginsHeader reports whether a first line that was cut off may be a journal's.
func beginsHeader(begun []byte) bool {
	sum, text := begun[:min(len(begun), sumDigits)], string(begun[min(len(begun), sumDigits+1):])
	isKind := strings.HasPrefix(text, journalKind) || strings.HasPrefix(journalKind, text)
	return len(bytes.Trim(sum, "0123456789abcdef")) == 0 && isKind
}

// checkZeros looks at what is longer than any line: a crash can leave zeros, up to the end of the file.
func (l *lineReader) checkZeros(begun []byte) error {
	zeros := bytes.IndexByte(begun, 0)
	switch {
	case l.lines == 0:
		return errNotAJournal
	case zeros < 0 || len(bytes.Trim(begun[zeros:], "\x00")) > 0:
		return l.damaged()
	}
	for {
		b, err := l.from.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return cannot("read", err)
		case b != 0:
			return l.damaged()
		}
	}
}

// readAll takes in every line.
func (j *FileJournal) readAll(ctx context.Context, from io.ReaderAt) (*lineReader, error) {
	l := newLineReader(from)
	for {
		text, err := l.next(ctx)
		switch {
		case err != nil:
			return nil, err
		case text == nil && l.lines == 0:
			return nil, errNotBegun
		case text == nil:
			j.sum, j.size, j.lines = l.sum, l.size, l.lines
			return l, nil
		case l.lines == 1:
			j.origin, j.owner = l.header.Service, ownerOf(l.header)
		default:
			if !j.takeLine(text, l) {
				l.lines--
				return nil, l.damaged()
			}
		}
	}
}

var errNotBegun = fail("the journal's file is empty, or its first line was cut off; SalvageJournal makes it "+
	"usable again, and later runs search the service for the recordings that it contained", ErrJournalDamaged)

// takeLine takes in what the last line of a reader says.
func (j *FileJournal) takeLine(text []byte, l *lineReader) bool {
	if n, ok := parseNotice(text); ok {
		j.takeNotice(n, l.lines)
		return true
	}
	e, ok := parseEntry(text)
	if ok {
		j.takeEntry(e, l.begun)
	}
	return ok
}

func (j *FileJournal) takeNotice(n notice, number uint32) {
	if n.gap {
		j.gaps, j.gapLine = true, number
	} else {
		j.owner, j.ownerLine = n.owner, number
	}
}

// takeEntry remembers an entry, and where its line begins. It remembers nothing of a claim, and forgets what was known
// before: the recording surely has no note then.
func (j *FileJournal) takeEntry(e Entry, line int64) {
	if e.State == StateClaimed {
		j.index.forget(e.Key)
	} else {
		j.index.put(e, line)
	}
	if j.all != nil {
		j.all[e.Key] = e
	}
}
