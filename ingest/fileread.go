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
	from      *bufio.Reader
	header    fileheader.Header
	lastSum   uint32 // of the last line
	lastStart int64  // of the last line in the file
	size      int64  // where the last complete line ends
	lines     uint32

	lacksNewline bool // the last line is complete except for its newline
}

func newLineReader(from io.ReaderAt) *lineReader {
	const toTheEnd = 1 << 62
	return &lineReader{from: bufio.NewReaderSize(io.NewSectionReader(from, 0, toTheEnd), maxLine)}
}

// next returns the text of the next line, nil after the last one. The text is valid until the next call. A crash may
// have left the beginning of a line, or zeros, after the last line: next ignores them.
func (l *lineReader) next(ctx context.Context) (text []byte, err error) {
	isTimeToCheck := l.lines%10_000 == 9_999
	if isTimeToCheck && ctx.Err() != nil {
		return nil, fail("the journal was not read: "+redact.Cause(ctx.Err()), ctx.Err(), context.Cause(ctx))
	}
	line, err := l.from.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF):
		return l.readLast(line)
	case errors.Is(err, bufio.ErrBufferFull): // it is longer than any line
		return nil, l.checkZeros(line)
	case err != nil:
		return nil, cannot("read", err)
	}
	return l.checkLine(line[:len(line)-1], len(line))
}

// checkLine returns the text of the next line, and an error if the line is not as it was written. The first line has to
// be a header. The length is that of the line in the file.
func (l *lineReader) checkLine(line []byte, length int) ([]byte, error) {
	text, sum, isWhole := readLine(line, l.lastSum)
	if l.lines == 0 {
		if err := l.readHeader(line, text, isWhole); err != nil {
			return nil, err
		}
	}
	if !isWhole {
		return nil, l.damaged()
	}
	l.lastStart = l.size
	l.size += int64(length)
	l.lines++
	l.lastSum = sum
	return text, nil
}

// damaged returns the error for the line after those that were read.
func (l *lineReader) damaged() error {
	const why = "line %d of the journal is damaged; nothing is uploaded. SalvageJournal keeps every complete " +
		"line, and later runs search the service for the other recordings"
	return fail(fmt.Sprintf(why, l.lines+1), ErrJournalDamaged)
}

// readHeader reads the first line. The text is what follows its checksum; isWhole reports whether that is right.
func (l *lineReader) readHeader(line, text []byte, isWhole bool) error {
	h, err := fileheader.Parse(journalKind, string(text))
	switch {
	case !bytes.Contains(line, []byte(journalKind)): // a file of another kind is not a damaged journal
		return errNotAJournal
	case !isWhole || err != nil:
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

// readLast returns the text of what follows the last newline if that is a line which lacks only its newline. It returns
// nil if there is nothing, or only the beginning of a line. A crash may have left zeros behind any of these.
func (l *lineReader) readLast(rest []byte) ([]byte, error) {
	if len(rest) == 0 {
		return nil, nil
	}
	begun := bytes.TrimRight(rest, "\x00")
	if _, _, isWhole := readLine(begun, l.lastSum); isWhole {
		l.lacksNewline = true
		return l.checkLine(begun, len(begun))
	}
	if _, _, isWhole := readLine(rest[:len(rest)-1], l.lastSum); isWhole {
		return nil, l.damaged() // it was whole, and its newline is another byte now
	}
	if l.lines == 0 && !beginsHeader(begun) {
		return nil, errNotAJournal
	}
	return nil, nil
}

// beginsHeader reports whether a first line that was cut off may be a journal's.
func beginsHeader(begun []byte) bool {
	sum := begun[:min(len(begun), sumDigits)]
	text := string(begun[min(len(begun), sumDigits+1):])
	isSum := len(bytes.Trim(sum, "0123456789abcdef")) == 0
	isKind := strings.HasPrefix(text, journalKind) || strings.HasPrefix(journalKind, text)
	return isSum && isKind
}

// checkZeros returns an error unless what is longer than any line ends with zeros up to the end of the file, which a
// crash can leave.
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

// readAll reads every line into the journal. It returns the reader, which knows the header.
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
			j.lastSum = l.lastSum
			j.size = l.size
			j.lines = l.lines
			return l, nil
		case l.lines == 1:
			j.origin = l.header.Service
			j.owner = ownerOf(l.header)
		default:
			isKnown := j.takeLine(text, l)
			if !isKnown {
				l.lines-- // so that damaged names this line
				return nil, l.damaged()
			}
		}
	}
}

var errNotBegun = fail("the journal's file is empty, or its first line was cut off; SalvageJournal makes it "+
	"usable again, and later runs search the service for the recordings that it contained", ErrJournalDamaged)

// takeLine puts a line into the journal: the one that the reader has read last, with its text. It reports whether the
// line is a notice or an entry. Other lines change nothing.
func (j *FileJournal) takeLine(text []byte, l *lineReader) bool {
	n, isNotice := parseNotice(text)
	if isNotice {
		number := l.lines // of the line, from 1 on
		j.takeNotice(n, number)
		return true
	}
	e, isEntry := parseEntry(text)
	if isEntry {
		j.takeEntry(e, l.lastStart)
	}
	return isEntry
}

// takeNotice puts a notice and the number of its line into the journal.
func (j *FileJournal) takeNotice(n notice, number uint32) {
	if n.isGap {
		j.gaps = true
		j.gapLine = number
		return
	}
	j.owner = n.owner
	j.ownerLine = number
}

// takeEntry puts an entry, and where its line begins, into the index. The line of a claim only removes its key from the
// index, because a recording without a note is like one that is not known. A journal that is only read also keeps the
// complete last entry of each key, of a claim too.
func (j *FileJournal) takeEntry(e Entry, line int64) {
	if e.State == StateClaimed {
		j.index.forget(e.Key)
	} else {
		j.index.put(e, line)
	}
	if j.allEntries != nil {
		j.allEntries[e.Key] = e
	}
}
