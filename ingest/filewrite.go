package ingest

import "errors"

// save puts an entry into the next batch and waits until that is on the disk. A claim waits for nobody: losing it loses
// nothing.
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
	if j.busy == nil {
		j.busy = make(chan struct{})
		go j.flush()
	}
	j.mu.Unlock()
	<-b.done
	return b.err
}

// flush writes batch after batch, each with what came in while the one before was written, until nobody waits.
func (j *FileJournal) flush() {
	for {
		j.mu.Lock()
		b := j.next
		if !b.wanted {
			close(j.busy)
			j.busy = nil
			j.mu.Unlock()
			return
		}
		j.next = newBatch()
		b.err = j.broken
		j.mu.Unlock()
		if b.err == nil {
			b.err = j.append(b)
		}
		close(b.done)
	}
}

// exclusive does work with the file while nobody else does. Its error ends the journal's service, unless it is a refusal.
func (j *FileJournal) exclusive(work func() error) error {
	for {
		j.mu.Lock()
		if j.broken != nil {
			defer j.mu.Unlock()
			return j.broken
		}
		busy := j.busy
		if busy == nil {
			j.busy = make(chan struct{})
			j.mu.Unlock()
			break
		}
		j.mu.Unlock()
		<-busy
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

// append writes a batch and takes note of it once it is on the disk.
func (j *FileJournal) append(b *batch) error {
	var lines, text []byte
	sum := j.sum
	for _, e := range b.entries {
		text = appendEntry(text[:0], e)
		lines, sum = appendLine(lines, sum, text)
	}
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
