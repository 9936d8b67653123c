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

// save puts an entry into the next batch and waits until that is on the disk. A batch is written when all uploads
// wait for it, or togetherWait after its first line. The goroutine that finds this, while the disk is idle, writes
// it. Later lines form the next batch. A claim waits for nobody: losing it loses nothing.
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
	lead := false
	switch {
	case b.uploads >= j.uploads:
		lead = j.want(b)
	case b.late == nil && !b.wanted:
		b.late = time.AfterFunc(togetherWait, func() { j.flushLate(b) })
	}
	j.mu.Unlock()
	if lead && j.flushOne() {
		go j.flush()
	}
	<-b.done
	return b.err
}

// want says that the batch waits for no more lines, and reports whether it is the caller who has to write it.
func (j *FileJournal) want(b *batch) (lead bool) {
	b.wanted = true
	if j.busy != nil {
		return false
	}
	j.busy = make(chan struct{})
	return true
}

// flushLate writes a batch that others did not join in time.
func (j *FileJournal) flushLate(b *batch) {
	j.mu.Lock()
	lead := j.next == b && !b.wanted && j.want(b)
	j.mu.Unlock()
	if lead {
		j.flush()
	}
}

// flush writes batch after batch until nobody waits.
func (j *FileJournal) flush() {
	for j.flushOne() {
	}
}

// flushOne writes the next batch, if somebody waits for it; else the disk rests from now on. It reports whether there
// may be more to do.
func (j *FileJournal) flushOne() bool {
	j.mu.Lock()
	b := j.next
	if !b.wanted {
		close(j.busy)
		j.busy = nil
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
		close(j.busy)
		j.busy = nil
		return false
	}
	return true
}

// exclusive does work with the file while nobody else does. Its error ends the journal's service, unless it is a
// refusal.
func (j *FileJournal) exclusive(work func() error) error {
	if err := j.makeBusy(); err != nil {
		return err
	}
	err := work()
	j.mu.Lock()
	if err != nil && j.broken == nil && !errors.Is(err, ErrOtherService) && !errors.Is(err, ErrOtherUser) {
		j.broken = err
	}
	j.mu.Unlock()
	go j.flush()
	return err
}

// makeBusy waits until the disk rests, and keeps it for the caller.
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

// append writes a batch and takes note of it once it is on the disk.
func (j *FileJournal) append(b *batch) error {
	lines, sum := j.lineBuffer[:0], j.sum
	begins := j.beginBuffer[:0]
	for i := range b.entries {
		e := &b.entries[i]
		j.addHash(e)
		begins = append(begins, j.size+int64(len(lines)))
		j.textBuffer = appendEntry(j.textBuffer[:0], *e)
		lines, sum = appendLine(lines, sum, j.textBuffer)
	}
	j.lineBuffer = lines
	j.beginBuffer = begins
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
		j.takeEntry(e, begins[i])
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
	var begun int64
	if hasNote {
		begun = r.line
	}
	j.mu.Unlock()
	if !hasNote {
		return
	}
	if known, ok := j.readEntry(begun); ok && known.Key == e.Key {
		e.SHA256 = known.SHA256
	}
}

// readEntry reads the entry in a line of the file that begins there.
func (j *FileJournal) readEntry(begun int64) (Entry, bool) {
	line, err := bufio.NewReaderSize(io.NewSectionReader(j.file, begun, maxLine), 1<<10).ReadBytes('\n')
	if err != nil || len(line) <= sumDigits {
		return Entry{}, false
	}
	return parseEntry(line[sumDigits+1 : len(line)-1])
}

// put writes whole lines and syncs them, if the name still leads to the file: lines in a file that nobody will open
// again are worth nothing. Where a lock is not seen by all, as on two mounts of one folder, what another has written
// is. A full disk may take a part of a line; that is cut off, so that the next who opens the file finds it whole. A
// failed sync is not tried again: the system may have dropped what it could not write. Nobody has acted on lines that
// were not synced, so that they are cut off as well.
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
