package ingest

import (
	"bufio"
	"errors"
	"io"
	"path/filepath"
)

func (j *FileJournal) compacted() string { return j.path + ".new" }

// compact writes each key's latest line into a new file, as it stands, and puts that in the journal's place. Until the rename
// the old one counts.
func (j *FileJournal) compact() error {
	to, err := j.fs.Create(j.compacted())
	if err != nil {
		return cannot("compacted", err)
	}
	c := compaction{journal: j, to: bufio.NewWriterSize(to, 64<<10)}
	if err := c.copy(); err != nil {
		_ = to.Close()
		return err
	}
	if err := errors.Join(to.Sync(), to.Close()); err != nil {
		return cannot("compacted", err)
	}
	if err := j.replace(); err != nil {
		return cannot("compacted", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sum, j.size, j.lines = c.sum, c.size, c.lines
	return nil
}

// replace closes the old file first: where Windows is, no open file can be replaced.
func (j *FileJournal) replace() error {
	if err := j.file.Close(); err != nil {
		return err
	}
	if err := j.fs.Rename(j.compacted(), j.path); err != nil {
		return err
	}
	if err := j.fs.SyncDir(filepath.Dir(j.path)); err != nil {
		return err
	}
	file, err := j.fs.Open(j.path)
	j.file = file
	return err
}

// compaction is the copy of a journal without its outdated lines.
type compaction struct {
	journal *FileJournal
	to      *bufio.Writer
	line    []byte
	sum     uint32
	size    int64
	lines   uint32
}

func (c *compaction) copy() error {
	from, err := c.journal.fs.Open(c.journal.path)
	if err != nil {
		return cannot("compacted", err)
	}
	defer func() { _ = from.Close() }()
	lines := bufio.NewReaderSize(from, 64<<10)
	sum := uint32(0)
	for number := uint32(1); ; number++ {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return c.to.Flush()
		}
		if err != nil {
			return cannot("compacted", err)
		}
		text, next, ok := readLine(line[:len(line)-1], sum)
		if !ok {
			return (&FileJournal{lines: number - 1}).damaged() // since it was opened
		}
		sum = next
		if err := c.take(text, number); err != nil {
			return cannot("compacted", err)
		}
	}
}

// take copies a line that is its key's latest, or the first of all.
func (c *compaction) take(text []byte, number uint32) error {
	if number > 1 && !c.current(text, number) {
		return nil
	}
	c.line, c.sum = appendLine(c.line[:0], c.sum, text)
	c.size += int64(len(c.line))
	c.lines++
	_, err := c.to.Write(c.line)
	return err
}

// current reports whether the line is its key's latest, and counts it as it will stand. The new number is never above
// the old one, so that no later line is taken for it.
func (c *compaction) current(text []byte, number uint32) bool {
	e, _ := parseEntry(text)
	c.journal.mu.Lock()
	defer c.journal.mu.Unlock()
	r, known := c.journal.entries[e.Key]
	if !known || r.line != number {
		return false
	}
	r.line = c.lines + 1
	c.journal.entries[e.Key] = r
	return true
}
