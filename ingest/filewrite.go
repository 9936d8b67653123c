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

// save puts an entry into the next batch and waits until the batch is on the disk. A batch is written when all uploads
// wait for it, or togetherWait after its first line. The goroutine that finds this, while the disk is idle, writes it.
// Later lines form the next batch. Nobody waits for the line of a claim: losing it loses nothing.
func (j *FileJournal) save(e Entry) error {
	j.mu.Lock()
	if j.broken != nil {
		defer j.mu.Unlock()
		return j.broken
	}
	b := j.next
	b.entries = append(b.entries, e)
	if e.State == StateClaimed {
		j.mu.Unlock()
		return nil
	}
	if e.State == StateCommitting {
		b.uploads++
	}
	mustWrite := false
	switch {
	case b.uploads >= j.uploads:
		mustWrite = j.want(b)
	case b.late == nil && !b.wanted:
		b.late = time.AfterFunc(togetherWait, func() { j.flushLate(b) })
	}
	j.mu.Unlock()
	if mustWrite && j.flushOne() {
		go j.flush()
	}
	<-b.done
	return b.err
}

// want ends the batch's wait for more lines. If the disk is idle, it makes the disk busy and reports true: the caller
// must write the batch. The caller holds j.mu.
func (j *FileJournal) want(b *batch) (mustWrite bool) {
	b.wanted = true
	if j.busy != nil {
		return false
	}
	j.busy = make(chan struct{})
	return true
}

// flushLate writes a batch that has waited for togetherWait, unless another goroutine does.
func (j *FileJournal) flushLate(b *batch) {
	j.mu.Lock()
	isWaiting := j.next == b && !b.wanted
	mustWrite := isWaiting && j.want(b)
	j.mu.Unlock()
	if mustWrite {
		j.flush()
	}
}

// flush writes batch after batch until nobody waits.
func (j *FileJournal) flush() {
	for j.flushOne() {
	}
}

// flushOne writes the next batch if it is wanted. It reports whether the batch after that is wanted, too; otherwise the
// disk is idle from now on.
func (j *FileJournal) flushOne() bool {
	j.mu.Lock()
	b := j.next
	if !b.wanted {
		j.makeIdle()
		j.mu.Unlock()
		return false
	}
	j.next = newBatch()
	b.err = j.broken
	if b.late != nil {
		b.late.Stop()
	}
	j.mu.Unlock()
	if b.err == nil {
		b.err = j.append(b)
	}
	close(b.done)
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.next.wanted {
		j.makeIdle()
		return false
	}
	return true
}

// makeIdle lets others make the disk busy. The caller holds j.mu.
func (j *FileJournal) makeIdle() {
	close(j.busy)
	j.busy = nil
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
	go j.flush()
	return err
}

// makeBusy waits until the disk is idle and makes it busy for the caller, who must call flush afterwards. It returns
// the journal's error if that is broken.
func (j *FileJournal) makeBusy() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.broken == nil && j.busy != nil {
		busy := j.busy
		j.mu.Unlock()
		<-busy
		j.mu.Lock()
	}
	if j.broken == nil {
		j.busy = make(chan struct{})
	}
	return j.broken
}

// append writes a batch and puts its entries into the index once they are on the disk. After an error every later call
// of the journal fails.
func (j *FileJournal) append(b *batch) error {
	lines := j.lineBuffer[:0]
	sum := j.sum
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
	err := j.put(lines)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.broken = err
		return err
	}
	j.sum = sum
	for i, e := range b.entries {
		j.lines++
		j.takeEntry(e, starts[i])
		if r := j.index.get(e.Key); r != nil {
			r.seen = true
		}
	}
	return nil
}

// addHash adds the SHA-256 to an entry that replaces one with a note, by another stage of the note or by a manual
// decision. The index does not keep it, but the file does.
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
		start = r.line
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

// put writes complete lines and syncs them. Before that it checks that the name still leads to the file, because nobody
// would open the lines otherwise, and that no other program has written to the file: two mounts of one folder may not
// share their locks.
//
// If the lines cannot be written or synced, they are cut off again. Nobody has acted on them, and the next who opens
// the file finds it complete. A failed sync is not tried again: the system may have dropped what it could not write.
func (j *FileJournal) put(lines []byte) error {
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
	if n, _ := j.file.ReadAt(make([]byte, 1), j.size); n > 0 {
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
