package ingest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/filelock"
	"github.com/clinicaldoc/clinicaldoc-go/internal/header"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// FileJournal is a [Journal] in a file, for one process at a time: readable by eye, append-only, with a checksum in each
// line. Lines of many workers share one sync of the disk: while others upload, a line waits for theirs, for two milliseconds at
// most. It is for this user alone and holds no name in clear. It takes some 150 bytes of memory for each key.
//
// An error of the disk ends its service for good: close it, mend the disk and open it anew.
type FileJournal struct {
	fs   disk.FS
	path string
	lock io.Closer

	mu      sync.Mutex // never held while the disk works
	entries map[Key]record
	held    map[Key]bool
	uploads int // claims with an upload under way
	service string
	next    *batch        // what is to be written
	busy    chan struct{} // closed when the disk has done with what it does; nil: it rests
	broken  error
	slack   uint32 // outdated lines that are no reason to compact

	// Of whoever made it busy.
	file  disk.File
	sum   uint32 // of the last line
	size  int64
	lines uint32

	lineBuffer, textBuffer []byte
}

// batch is what goes to the disk at once.
type batch struct {
	entries []Entry
	uploads int           // how many of them hold back the last bytes of one
	wanted  bool          // it waits for no more
	late    *time.Timer   // until it waits for no more; nil: it does not wait
	done    chan struct{} // closed after err is set
	err     error
}

func newBatch() *batch { return &batch{done: make(chan struct{})} }

// record is an Entry in little memory.
type record struct {
	note, size, sent int64
	until            int64 // committing: when that was written
	patient, name    uint32
	line             uint32 // its latest
	state            State
	found            bool
}

func (r record) entry(key Key) Entry {
	e := Entry{Key: key, State: r.state, Patient: r.patient, Name: r.name, Size: r.size, SentAt: fromNano(r.sent), NoteID: r.note, Found: r.found}
	if r.state == StateCommitting {
		e.At = fromNano(r.until)
	} else {
		e.Until = fromNano(r.until)
	}
	return e
}

func newRecord(e Entry, line uint32) record {
	until := e.Until
	if e.State == StateCommitting {
		until = e.At
	}
	return record{
		note: e.NoteID, size: e.Size, sent: toNano(e.SentAt), until: toNano(until), patient: e.Patient, name: e.Name,
		line: line, state: e.State, found: e.Found,
	}
}

func toNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNano(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}

const defaultSlack = 1000

// OpenJournal opens the journal in a file and makes it, readable to this user alone, if there is none. Close it after use.
//
// A last line that a crash cut off is dropped: what it was to say has not happened. Any other damage is
// [ErrJournalDamaged]. While another has it open, it is [ErrJournalInUse]; beside it stands a file with the suffix .lock.
func OpenJournal(ctx context.Context, path string) (*FileJournal, error) {
	j := &FileJournal{
		fs: disk.From(ctx), path: path, entries: map[Key]record{}, held: map[Key]bool{}, next: newBatch(), slack: defaultSlack,
	}
	lock, err := j.fs.Lock(path + ".lock")
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return nil, fail("another process has the journal open", ErrJournalInUse)
	case err != nil:
		return nil, fail("the journal cannot be locked: "+redact.Cause(err), err)
	}
	j.lock = lock
	if err := j.open(ctx); err != nil {
		if j.file != nil {
			_ = j.file.Close()
		}
		_ = lock.Close()
		return nil, err
	}
	return j, nil
}

func (j *FileJournal) open(ctx context.Context) error {
	if err := j.fs.Remove(j.compacted()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cannot("opened", err)
	}
	file, err := j.fs.Open(j.path)
	if err != nil {
		return cannot("opened", err)
	}
	j.file = file
	whole, err := j.read(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Truncate(whole), file.Sync(), j.fs.SyncDir(filepath.Dir(j.path))); err != nil {
		return cannot("written", err)
	}
	return nil
}

func cannot(do string, err error) error {
	return fail("the journal cannot be "+do+": "+redact.Cause(err), err)
}

// Close writes what is left to be written and lets go of the file.
func (j *FileJournal) Close() error {
	err := j.exclusive(func() error {
		j.mu.Lock()
		b := j.next
		j.next, j.broken = newBatch(), fail("the journal is closed", fs.ErrClosed)
		j.mu.Unlock()
		err := j.append(b)
		b.err = err
		close(b.done)
		return errors.Join(err, j.file.Close(), j.lock.Close())
	})
	if closed := j.isBroken(); err != nil && !errors.Is(closed, fs.ErrClosed) { // the disk failed before: only let go
		j.mu.Lock()
		j.broken = fail("the journal is closed", fs.ErrClosed)
		j.mu.Unlock()
		_ = j.file.Close()
		return j.lock.Close()
	}
	return err
}

func (j *FileJournal) isBroken() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.broken
}

// Bind writes whose journal it is into a new one, refuses another service's with [ErrOtherService], and drops outdated
// lines when they are the most of it.
func (j *FileJournal) Bind(_ context.Context, owner Owner) (Binding, error) {
	service := owner.Service
	err := j.exclusive(func() error {
		if j.service != "" && header.Service(j.service) != header.Service(service) {
			return fail("the journal belongs to "+j.service+"; "+service+" needs one of its own", ErrOtherService)
		}
		if j.service == "" {
			return j.begin(service)
		}
		j.mu.Lock()
		outdated := j.lines - min(j.lines, uint32(len(j.entries))+1) //nolint:gosec // lines are counted so
		compact := outdated > j.slack && outdated > j.lines/2
		j.mu.Unlock()
		if compact {
			return j.compact()
		}
		return nil
	})
	return Binding{Origin: j.service}, err
}

// begin writes the first line.
func (j *FileJournal) begin(service string) error {
	line, sum := appendLine(nil, 0, []byte(magic+fileVersion+" "+service))
	if err := j.put(line); err != nil {
		return err
	}
	j.sum, j.lines, j.service = sum, 1, service
	return nil
}

// Claim implements [Journal].
func (j *FileJournal) Claim(_ context.Context, key Key) (Claim, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.broken != nil:
		return nil, j.broken
	case j.service == "":
		return nil, fail("the journal is not bound to a service")
	case j.held[key]:
		return nil, fail("another upload of this process has the recording", ErrTaken)
	}
	j.held[key] = true
	r, known := j.entries[key]
	claim := &fileClaim{journal: j, entry: r.entry(key)}
	if !known || !r.state.sent() {
		claim.entry = Entry{Key: key, State: StateClaimed, At: time.Now()}
		claim.uploads = true
		j.uploads++
		j.next.entries = append(j.next.entries, claim.entry) // for the eye; no one has to wait for it
	}
	return claim, nil
}

// EntriesForPatient implements [Journal].
func (j *FileJournal) EntriesForPatient(_ context.Context, patient uint32, since time.Time) ([]Entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return nil, j.broken
	}
	var kin []Entry
	for key, r := range j.entries {
		if r.patient == patient && r.state.sent() && r.sent >= since.UnixNano() {
			kin = append(kin, r.entry(key))
		}
	}
	return kin, nil
}

// fileClaim is used by one goroutine at a time.
type fileClaim struct {
	journal *FileJournal
	entry   Entry
	uploads bool // it is counted so
}

func (c *fileClaim) Entry() Entry { return c.entry }

func (c *fileClaim) Save(_ context.Context, e Entry) error {
	if c.journal == nil {
		return errNoClaim
	}
	e.Key = c.entry.Key
	if e.State != StateClaimed && e.State != StateCommitting {
		c.uploaded()
	}
	if err := c.journal.save(e); err != nil {
		return err
	}
	c.entry = e
	return nil
}

// uploaded takes in that no more lines will come of an upload.
func (c *fileClaim) uploaded() {
	if c.uploads {
		c.uploads = false
		c.journal.mu.Lock()
		defer c.journal.mu.Unlock()
		c.journal.uploads--
	}
}

func (c *fileClaim) Release() {
	if j := c.journal; j != nil {
		c.uploaded()
		c.journal = nil
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.held, c.entry.Key)
	}
}
