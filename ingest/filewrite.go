package ingest

import (
	"errors"
	"runtime"
)

// save puts an entry into the next batch and waits until that is on the disk. Who finds the disk at rest writes the batch
// himself; what comes in meanwhile is the next one. A claim waits for nobody: losing it loses nothing.
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
	b.wanted = true
	rests := j.busy == nil
	if rests {
		j.busy = make(chan struct{})
	}
	j.mu.Unlock()
	if rests && j.flushOne() {
		go j.flush()
	}
	<-b.done
	return b.err
}

// flush writes batch after batch until nobody waits.
func (j *FileJournal) flush() {
	for j.flushOne() {
	}
}

// flushOne writes the next batch, if somebody waits for it; else the disk rests from now on. It reports whether there may be
// more to do.
func (j *FileJournal) flushOne() bool {
	runtime.Gosched() // whoever is about to save can still be part of it
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

// exclusive does work with the file while nobody else does. Its error ends the journal's service, unless it is a refusal.
func (j *FileJournal) exclusive(work func() error) error {
	if err := j.makeBusy(); err != nil {
		return err
	}
	err := work()
	j.mu.Lock()
	if err != nil && j.broken == nil && !errors.Is(err, ErrOtherService) {
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
	for _, e := range b.entries {
		j.textBuffer = appendEntry(j.textBuffer[:0], e)
		lines, sum = appendLine(lines, sum, j.textBuffer)
	}
	j.lineBuffer = lines
	err := j.put(lines)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.broken = err
		return err
	}
	j.sum = sum
	for _, e := range b.entries {
		j.take(e)
	}
	return nil
}

// take counts an entry's line and remembers what it says.
func (j *FileJournal) take(e Entry) {
	j.lines++
	if e.State == StateClaimed {
		delete(j.entries, e.Key)
		return
	}
	j.entries[e.Key] = newRecord(e, j.lines)
}

// put writes whole lines and syncs them. A full disk may take a part of a line; that is cut off, so that the next who opens
// the file finds it whole. A failed sync is not tried again: the system may have dropped what it could not write. Nobody has
// acted on lines that were not synced, so that they are cut off as well.
func (j *FileJournal) put(lines []byte) error {
	if len(lines) == 0 {
		return nil
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
