package ingest

import (
	"bufio"
	"errors"
	"io"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
)

// togetherWait is how long a line waits for those of others, to share a sync with them.
const togetherWait = 2 * time.Millisecond

// save puts an entry into the next batch and returns when the batch is on the disk, or could not be written. For a
// claim it returns immediately: if its line is lost, nothing else is.
//
// A batch is due when all uploads under way wait for it, or togetherWait after the first line that somebody waits for.
// The goroutine that makes it due writes it, if the disk is idle. Later lines form the next batch.
func (j *FileJournal) save(e Entry) error {
	j.mu.Lock()
	if j.broken != nil {
		defer j.mu.Unlock()
		return j.broken
	}
	b := j.nextBatch
	b.entries = append(b.entries, e)
	if e.State == StateClaimed {
		j.mu.Unlock()
		return nil
	}
	if e.State == StateCommitting { // the upload of any other line has ended; see fileClaim.Save
		b.waitingUploads++
	}
	mustWrite := false
	switch {
	case b.waitingUploads >= j.uploadsUnderWay: // no other upload can add a line
		mustWrite = j.endWait(b)
	case b.timer == nil && !b.isDue:
		b.timer = time.AfterFunc(togetherWait, func() { j.flushLate(b) })
	}
	j.mu.Unlock()
	if mustWrite {
		j.flushFirst()
	}
	<-b.done
	return b.err
}

// flushFirst writes the next batch. If the one after it is due by then, another goroutine goes on.
func (j *FileJournal) flushFirst() {
	isMoreDue := j.flushOne()
	if isMoreDue {
		go j.flush()
	}
}

// endWait makes a batch due: it waits for no more lines. If the disk is idle, endWait makes it busy and reports true:
// the caller must write the batch. Otherwise whoever uses the disk writes it next. The caller holds j.mu.
func (j *FileJournal) endWait(b *batch) (mustWrite bool) {
	b.isDue = true
	if j.diskBusy != nil {
		return false
	}
	j.diskBusy = make(chan struct{})
	return true
}

// flushLate makes a batch due that has waited for togetherWait, and writes it if the disk is idle. It does nothing if
// the batch is due or written already.
func (j *FileJournal) flushLate(b *batch) {
	j.mu.Lock()
	mustWrite := false
	isWaiting := j.nextBatch == b && !b.isDue
	if isWaiting {
		mustWrite = j.endWait(b)
	}
	j.mu.Unlock()
	if mustWrite {
		j.flush()
	}
}

// flush writes batch after batch until none is due.
func (j *FileJournal) flush() {
	for j.flushOne() {
	}
}

// flushOne writes the next batch if it is due. It reports whether the batch after that is due, too; otherwise the disk
// is idle from now on.
func (j *FileJournal) flushOne() (isMoreDue bool) {
	j.mu.Lock()
	b := j.nextBatch
	if !b.isDue {
		j.makeIdle()
		j.mu.Unlock()
		return false
	}
	j.nextBatch = newBatch()
	b.err = j.broken
	if b.timer != nil {
		b.timer.Stop()
	}
	j.mu.Unlock()
	if b.err == nil {
		b.err = j.writeBatch(b)
	}
	close(b.done)
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.nextBatch.isDue {
		j.makeIdle()
		return false
	}
	return true
}

// makeIdle ends the use of the disk, so that others can make it busy. The caller holds j.mu.
func (j *FileJournal) makeIdle() {
	close(j.diskBusy)
	j.diskBusy = nil
}

// exclusive calls work while nobody else uses the file. After an error of work every later call of the journal fails,
// unless the error only rejects an owner.
func (j *FileJournal) exclusive(work func() error) error {
	if err := j.makeBusy(); err != nil {
		return err
	}
	err := work()
	j.mu.Lock()
	isRejection := errors.Is(err, ErrOtherService) || errors.Is(err, ErrOtherUser)
	if j.broken == nil && !isRejection {
		j.broken = err
	}
	j.mu.Unlock()
	go j.flush() // which also makes the disk idle
	return err
}

// makeBusy waits until the disk is idle and makes it busy for the caller, who must call flush afterwards. It returns
// the journal's error if that is broken.
func (j *FileJournal) makeBusy() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.broken == nil && j.diskBusy != nil {
		busy := j.diskBusy
		j.mu.Unlock()
		<-busy
		j.mu.Lock()
	}
	if j.broken == nil {
		j.diskBusy = make(chan struct{})
	}
	return j.broken
}

// writeBatch writes a batch and puts its entries into the index once they are on the disk. After an error every later
// call of the journal fails.
func (j *FileJournal) writeBatch(b *batch) error {
	lines := j.lineBuffer[:0]
	sum := j.lastSum
	starts := j.startBuffer[:0]
	for i := range b.entries {
		e := &b.entries[i]
		j.addHash(e)
		starts = append(starts, j.size+int64(len(lines)))
		j.textBuffer = appendEntry(j.textBuffer[:0], *e)
		lines, sum = appendLine(lines, sum, j.textBuffer)
	}
	j.lineBuffer = lines
	j.startBuffer = starts
	err := j.writeLines(lines)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.broken = err
		return err
	}
	j.lastSum = sum
	for i, e := range b.entries {
		j.lines++
		j.takeEntry(e, starts[i])
		if r := j.index.get(e.Key); r != nil {
			r.usedSinceOpen = true
		}
	}
	return nil
}

// addHash adds the SHA-256 to an entry without one that replaces an entry with a note: by another stage of the note, or
// by a manual decision. The index does not keep the hash, so it is read from the file.
func (j *FileJournal) addHash(e *Entry) {
	mayReplace := e.State == StateCreated || e.State == StateRefused
	if !mayReplace || e.SHA256 != "" {
		return
	}
	j.mu.Lock()
	r := j.index.get(e.Key)
	hasNote := r != nil && r.state == StateCreated
	var start int64
	if hasNote {
		start = r.lineStart
	}
	j.mu.Unlock()
	if !hasNote {
		return
	}
	if known, ok := j.readEntry(start); ok && known.Key == e.Key {
		e.SHA256 = known.SHA256
	}
}

// readEntry reads the entry of the line that starts at an offset in the file.
func (j *FileJournal) readEntry(start int64) (Entry, bool) {
	line, err := bufio.NewReaderSize(io.NewSectionReader(j.file, start, maxLine), 1<<10).ReadBytes('\n')
	if err != nil || len(line) <= sumDigits {
		return Entry{}, false
	}
	return parseEntry(line[sumDigits+1 : len(line)-1])
}

// writeLines writes complete lines and syncs them. Before that it checks that the name still leads to the file, because
// nobody would open the lines otherwise, and that no other program has written to the file: two mounts of one folder
// may not share their locks.
//
// If the lines cannot be written or synced, they are cut off again. Nobody has acted on them, and the next who opens
// the file finds it complete. A failed sync is not tried again: the system may have dropped what it could not write.
func (j *FileJournal) writeLines(lines []byte) error {
	if len(lines) == 0 {
		return nil
	}
	switch err := j.file.IsAt(j.path); {
	case errors.Is(err, disk.ErrMoved):
		return fail("the journal's file was moved or removed, or replaced by another; "+
			"put it back and open it again", ErrJournalMoved)
	case err != nil:
		return cannot("written", err)
	}
	bytesAfterEnd, _ := j.file.ReadAt(make([]byte, 1), j.size)
	if bytesAfterEnd > 0 {
		return fail("another program wrote to the journal's file without a lock; end that program, then open the "+
			"journal again", ErrJournalInUse)
	}
	_, err := j.file.Write(lines)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		_ = j.file.Truncate(j.size)
		return cannot("written", err)
	}
	j.size += int64(len(lines))
	return nil
}
