package ingest

import (
	"bufio"
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// compactedPath returns the path of the new file of a compaction. Nobody else gives a file such a name, so what a
// killed process left there can be removed.
func (j *FileJournal) compactedPath() string {
	folder, name := filepath.Split(j.path)
	return filepath.Join(folder, "."+name+".clinicaldoc-journal")
}

// tryCompact drops outdated lines if it can. If it cannot, it leaves a warning and the journal as it was. It returns an
// error only if the journal can no longer be used. Nobody else may use the file meanwhile.
func (j *FileJournal) tryCompact() error {
	err := j.compact(nil) // no record is forgotten
	isUnusable := j.file == nil
	if err == nil || isUnusable {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	const why = "outdated lines of the journal could not be removed, so it continues to grow: "
	j.warning = fail(why+redact.Cause(err), err)
	return nil
}

// compact writes each key's latest line into a new file and puts that in the journal's place, with the lock on both. It
// leaves out the forgotten records. After an error the old file is still the journal's, unless j.file is nil: then the
// journal can no longer be used.
func (j *FileJournal) compact(forgotten map[uint32]bool) error {
	// Lines in the new file are durable only if its new name is. Where a folder cannot be synced, the file is not
	// replaced.
	if err := j.fs.SyncDir(filepath.Dir(j.path)); err != nil {
		return err
	}
	if err := j.file.IsAt(j.path); err != nil {
		return err
	}
	_ = j.fs.Remove(j.compactedPath())
	to, err := j.fs.Create(j.compactedPath(), j.withoutLock)
	if err != nil {
		return err
	}
	c := compaction{journal: j, to: bufio.NewWriterSize(to, 64<<10), forgotten: forgotten}
	if err := c.write(to); err != nil {
		return errors.Join(err, to.Close(), j.fs.Remove(j.compactedPath()))
	}
	if j.file, err = j.fs.Replace(to, j.compactedPath(), j.file, j.path); err != nil {
		_ = j.fs.Remove(j.compactedPath())
		if j.file == nil {
			return cannot("opened after its outdated lines were removed", err)
		}
		return err
	}
	c.install()
	if err := j.fs.SyncDir(filepath.Dir(j.path)); err != nil { // it could be synced a moment ago
		_ = j.file.Close()
		j.file = nil
		return cannot("written", err)
	}
	return nil
}

// compaction is the copy of a journal without its outdated lines.
type compaction struct {
	journal    *FileJournal
	to         *bufio.Writer
	lineBuffer []byte
	sum        uint32
	size       int64
	lines      uint32
	ownerLine  uint32
	gapLine    uint32
	newStarts  []int64         // where the line of each record starts now; 0: nowhere
	forgotten  map[uint32]bool // records that are left out
}

// write copies the lines and syncs the new file.
func (c *compaction) write(to disk.File) error {
	if err := c.copy(); err != nil {
		return err
	}
	if err := c.to.Flush(); err != nil {
		return err
	}
	return to.Sync()
}

// copy copies the lines that are not outdated.
func (c *compaction) copy() error {
	from := newLineReader(c.journal.file)
	c.newStarts = make([]int64, len(c.journal.index.records))
	for {
		text, err := from.next(context.Background())
		if err != nil || text == nil {
			return err
		}
		if err := c.copyIfCurrent(text, from); err != nil {
			return err
		}
	}
}

// copyIfCurrent copies the line that a reader has read last, unless it is outdated. These lines are current:
//   - the first line, which is the header; it gets this version's number
//   - the latest notice of each kind
//   - the latest line of each key, unless the compaction forgets the key
func (c *compaction) copyIfCurrent(text []byte, from *lineReader) error {
	j := c.journal
	switch from.lines {
	case 1:
		h := from.header
		h.Version = fileVersion
		return c.writeLine([]byte(h.String()))
	case j.ownerLine:
		c.ownerLine = c.lines + 1
		return c.writeLine(text)
	case j.gapLine:
		c.gapLine = c.lines + 1
		return c.writeLine(text)
	}
	e, _ := parseEntry(text)
	j.mu.Lock()
	record := j.index.byKey[e.Key]                                  // 0: none, as for an outdated notice
	isLatest := j.index.records[record].lineStart == from.lastStart // of its key
	isCurrent := record != 0 && isLatest && !c.forgotten[record]
	j.mu.Unlock()
	if !isCurrent {
		return nil
	}
	c.newStarts[record] = c.size
	return c.writeLine(text)
}

// writeLine writes a line with this text to the new file.
func (c *compaction) writeLine(text []byte) error {
	c.lineBuffer, c.sum = appendLine(c.lineBuffer[:0], c.sum, text)
	c.size += int64(len(c.lineBuffer))
	c.lines++
	_, err := c.to.Write(c.lineBuffer)
	return err
}

// install makes the new file the journal's: it updates where lines start, and forgets what was left out.
func (c *compaction) install() {
	j := c.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	for n, line := range c.newStarts {
		if line != 0 {
			j.index.records[n].lineStart = line
		}
	}
	for n := range c.forgotten {
		j.index.forget(j.index.records[n].key)
	}
	j.lastSum = c.sum
	j.size = c.size
	j.lines = c.lines
	j.ownerLine = c.ownerLine
	j.gapLine = c.gapLine
	j.warning = nil
}

// upgrade converts a journal of an earlier version. A program of that version then reports that it cannot read the
// journal, instead of misreading what is written from now on. Programs of version 1 lock a file beside the journal, so
// that is locked meanwhile.
func (j *FileJournal) upgrade(_ context.Context, from int) (err error) {
	if from > 1 {
		return j.tryCompact() //nolint:contextcheck // a file is written whole or not at all
	}
	j.version1Lock, err = j.fs.Lock(j.path + ".lock")
	switch {
	case errors.Is(err, disk.ErrHeld):
		const why = "a program of an earlier version has the journal open; end it, then open the journal again"
		return fail(why, ErrJournalInUse)
	case err != nil:
		j.version1Lock = nil
		return cannot("locked", err)
	}
	if err := j.tryCompact(); err != nil { //nolint:contextcheck // a file is written whole or not at all
		return err
	}
	if j.warning == nil { // the file has the new version
		older := j.version1Lock
		j.version1Lock = nil
		return older.Close()
	}
	// The file could not be replaced. Version 1 cannot read a journal with an owner line either.
	return j.putNotice(notice{at: time.Now(), owner: j.owner})
}
