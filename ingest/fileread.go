package ingest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// read takes in all lines and returns where the last whole one ends.
func (j *FileJournal) read(ctx context.Context) (whole int64, err error) {
	lines := bufio.NewReaderSize(j.file, 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return j.size, j.checkTorn(line)
		case errors.Is(err, bufio.ErrBufferFull):
			return j.size, j.checkZeros(line, lines)
		case err != nil:
			return 0, cannot("read", err)
		}
		if err := j.readLine(line[:len(line)-1]); err != nil {
			return 0, err
		}
		j.size += int64(len(line))
		if j.lines%10_000 == 0 && ctx.Err() != nil {
			return 0, fail("the journal was not opened: "+redact.Cause(ctx.Err()), ctx.Err(), context.Cause(ctx))
		}
	}
}

func (j *FileJournal) readLine(line []byte) error {
	text, sum, ok := readLine(line, j.sum)
	if j.lines == 0 {
		return j.readHeader(line, text, sum, ok)
	}
	e, readable := Entry{}, false
	if ok {
		e, readable = parseEntry(text)
	}
	if !readable {
		return j.damaged()
	}
	j.sum = sum
	j.take(e)
	return nil
}

func (j *FileJournal) damaged() error {
	return fail(fmt.Sprintf("line %d of the journal is damaged; nothing is uploaded before it is restored", j.lines+1), ErrJournalDamaged)
}

func (j *FileJournal) readHeader(line, text []byte, sum uint32, ok bool) error {
	version, service, _ := strings.Cut(strings.TrimPrefix(string(text), magic), " ")
	switch {
	case !bytes.Contains(line, []byte(strings.TrimSpace(magic))):
		return fail("the file is not a journal", ErrJournalVersion)
	case !ok || service == "":
		return j.damaged()
	case version != fileVersion:
		return fail("the journal was written by a later version of this package", ErrJournalVersion)
	}
	j.sum, j.lines, j.service = sum, 1, service
	return nil
}

// checkTorn looks at what follows the last newline: nothing, or the beginning of a line whose writing was cut off. A line
// that is whole but for its last byte was written whole, and damaged since.
func (j *FileJournal) checkTorn(rest []byte) error {
	if len(rest) == 0 {
		return nil
	}
	if _, _, ok := readLine(rest[:len(rest)-1], j.sum); ok {
		return j.damaged()
	}
	begun := bytes.TrimRight(rest, "\x00")
	sum, begun := begun[:min(len(begun), sumDigits)], begun[min(len(begun), sumDigits+1):]
	if j.lines == 0 && (len(bytes.Trim(sum, "0123456789abcdef")) > 0 || !bytes.HasPrefix(begun, []byte(magic)) && !strings.HasPrefix(magic, string(begun))) {
		return fail("the file is not a journal", ErrJournalVersion)
	}
	return nil
}

// checkZeros looks at what is longer than any line: a crash can leave zeros, up to the end of the file.
func (j *FileJournal) checkZeros(begun []byte, rest io.ByteReader) error {
	zeros := bytes.IndexByte(begun, 0)
	switch {
	case j.lines == 0:
		return fail("the file is not a journal", ErrJournalVersion)
	case zeros < 0 || len(bytes.Trim(begun[zeros:], "\x00")) > 0:
		return j.damaged()
	}
	for {
		b, err := rest.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return cannot("read", err)
		case b != 0:
			return j.damaged()
		}
	}
}
