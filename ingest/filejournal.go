package ingest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk/durable"
	"github.com/clinicaldoc/clinicaldoc-go/internal/fileheader"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// FileJournal is a [Journal] in a text file, for one process at a time. The file is append-only, with a checksum in
// each line. Only this user can read it, and it contains hashes instead of names. It needs about 150 bytes of memory
// for each key. Lines of several workers share one sync of the disk, for which a line waits at most two milliseconds.
//
// The journal locks the file itself, whatever links lead to it, and checks before important lines that its name still
// leads to the file. After an error of the disk, or if the file was moved, every later call fails: close the journal,
// repair the cause and open it again.
type FileJournal struct {
	fs           durable.FS
	path         string    // of the file itself
	version1Lock io.Closer // the lock that programs of version 1 take; nil: not needed
	withoutLock  bool      // see WithoutLock

	mu              sync.Mutex // never held while the disk works
	index           fileIndex
	claimedKeys     map[Key]bool
	uploadsUnderWay int // claims with an upload under way
	isBound         bool
	nextBatch       *batch        // what is to be written
	diskBusy        chan struct{} // closed when whoever uses the file has done; nil: nobody does
	broken          error         // what every later call fails with; nil: the journal works
	warning         error
	outdatedAllowed uint32 // outdated lines that are no reason to compact

	// Of whoever made the disk busy.
	file               disk.File // nil: it was lost when it was replaced
	origin             string    // the service that keys are hashed with
	owner              Owner
	gaps               bool
	ownerLine, gapLine uint32 // 0: there is none
	lastSum            uint32 // of the last line
	size               int64
	lines              uint32

	allEntries map[Key]Entry // of a journal that is only read: all entries, complete; otherwise nil

	lineBuffer, textBuffer []byte
	startBuffer            []int64 // where the lines of a batch start
}

// batch is what goes to the disk at once.
type batch struct {
	entries        []Entry
	waitingUploads int           // uploads that wait for it before they send their last bytes
	isDue          bool          // it waits for no more lines
	timer          *time.Timer   // until it is due; nil: nobody waits for its lines yet, or it is due
	done           chan struct{} // closed after err is set
	err            error
}

func newBatch() *batch { return &batch{done: make(chan struct{})} }

const (
	defaultSlack = 1000
	maxClaims    = 1000 // that wait to be written
)

// JournalOption is an option of [OpenJournal], [BeginJournal] and [SalvageJournal].
type JournalOption func(*FileJournal)

// WithoutLock opens a journal even if the file system does not support locks. The caller must then make sure that only
// one process at a time uses it.
func WithoutLock() JournalOption { return func(j *FileJournal) { j.withoutLock = true } }

// newJournal returns a journal without a file.
func newJournal(ctx context.Context, opts []JournalOption) *FileJournal {
	j := &FileJournal{
		fs: durable.From(ctx), index: newFileIndex(), claimedKeys: map[Key]bool{}, nextBatch: newBatch(),
		outdatedAllowed: durable.Slack(ctx, defaultSlack),
	}
	for _, opt := range opts {
		opt(j)
	}
	return j
}

// OpenJournal opens the journal in a file. Close it after use. If the file does not exist, the error matches
// [fs.ErrNotExist]. Begin a journal once, with [BeginJournal]: a program that begins missing journals would also begin
// one if its path is wrong.
//
// A last line that a crash cut off is dropped, because what it describes has not happened. Any other damage is an error
// matching [ErrJournalDamaged]; see [SalvageJournal]. If the file is already open, under any name, the error matches
// [ErrJournalInUse]. A file that another user owns or can write to, or that has a second name (a hard link), is
// rejected.
func OpenJournal(ctx context.Context, path string, opts ...JournalOption) (*FileJournal, error) {
	j := newJournal(ctx, opts)
	var err error
	if j.path, err = j.fs.Resolve(path); err == nil {
		j.file, err = j.fs.Open(j.path, j.withoutLock)
	}
	if err != nil {
		return nil, cannotOpen(err)
	}
	if err := j.load(ctx); err != nil {
		_ = j.closeFiles()
		return nil, err
	}
	return j, nil
}

var errNoService = fail("a journal belongs to a service; OwnerOf returns that of a client",
	clinicaldoc.ErrInvalidArgument)

// cannotOpen returns the error for a file that cannot be opened, with what to do.
func cannotOpen(err error) error {
	switch {
	case errors.Is(err, disk.ErrHeld):
		return fail("the journal is already open, in this process or in another one; close it there, "+
			"or try again later", ErrJournalInUse)
	case errors.Is(err, disk.ErrNoLocks):
		return fail("the file system does not support locks, which keep a second process from the journal; keep "+
			"the journal elsewhere, or open it with WithoutLock and make certain that only one process uses it", err)
	case errors.Is(err, fs.ErrNotExist):
		return fail("there is no such journal; if it was never begun, BeginJournal begins it", err)
	}
	return cannot("opened", err)
}

func cannot(do string, err error) error {
	return fail("the journal cannot be "+do+": "+redact.Cause(err), err)
}

// load reads the file of a journal that was opened. It drops a last line that a crash cut off, and completes one that
// lacks only its newline. It upgrades a journal of an earlier version.
func (j *FileJournal) load(ctx context.Context) error {
	read, err := j.readAll(ctx, j.file)
	if err != nil {
		return err
	}
	if err := j.file.Truncate(j.size); err != nil {
		return cannot("written", err)
	}
	if read.lacksNewline {
		if err := j.writeLines([]byte("\n")); err != nil {
			return err
		}
	}
	if err := j.file.Sync(); err != nil {
		return cannot("written", err)
	}
	_ = j.fs.SyncDir(filepath.Dir(j.path)) // where that cannot be done, the name is as durable as it gets
	_ = j.fs.Remove(j.compactedPath())     // which a process left that was killed
	if read.header.Version < fileVersion {
		return j.upgrade(ctx, read.header.Version)
	}
	return nil
}

// BeginJournal creates the file of a new journal, readable only by this user, and opens it. Begin a journal once for a
// service and user, as a manual decision, because an empty journal does not know what was uploaded before.
// [Uploader].AllNew describes what happens to recordings that already have notes.
//
// If the file exists, BeginJournal does not change it and returns an error matching [fs.ErrExist].
func BeginJournal(ctx context.Context, path string, owner Owner, opts ...JournalOption) (*FileJournal, error) {
	if owner.Service == "" {
		return nil, errNoService
	}
	j := newJournal(ctx, opts)
	folder, err := j.fs.Resolve(filepath.Dir(path))
	if err == nil {
		j.path = filepath.Join(folder, filepath.Base(path))
		j.file, err = j.fs.Create(j.path, j.withoutLock)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, fail("the file already exists; OpenJournal opens it", err)
	case errors.Is(err, disk.ErrHeld) || errors.Is(err, disk.ErrNoLocks):
		return nil, cannotOpen(err)
	case err != nil:
		return nil, cannot("begun", err)
	}
	const noLineBefore = 0
	line, sum := appendLine(nil, noLineBefore, []byte(headerOf(owner).String()))
	if err := j.writeLines(line); err != nil {
		_ = j.closeFiles()
		return nil, err
	}
	j.lastSum = sum
	j.lines = 1
	j.origin = owner.Service
	j.owner = owner
	_ = j.fs.SyncDir(filepath.Dir(j.path))
	return j, nil
}

func headerOf(owner Owner) fileheader.Header {
	return fileheader.Header{
		Kind: journalKind, Version: fileVersion,
		Service: owner.Service, UserID: owner.UserID, Headers: owner.Headers,
	}
}

func ownerOf(h fileheader.Header) Owner {
	return Owner{Service: h.Service, UserID: h.UserID, Headers: h.Headers}
}

// Close writes pending lines and closes the file. After an error that made all calls fail, such as one of the disk, it
// only closes the file. A second Close returns an error matching [fs.ErrClosed].
func (j *FileJournal) Close() error {
	err := j.exclusive(j.writeAndClose)
	areFilesClosed := errors.Is(j.brokenBy(), fs.ErrClosed) // by writeAndClose now, or by an earlier Close
	if areFilesClosed {
		return err
	}
	j.breakWith(errClosed) // the journal was broken, so exclusive did not call writeAndClose
	return j.closeFiles()
}

// writeAndClose writes the last batch and closes the file. It returns the errors of both. Later calls fail with
// errClosed.
func (j *FileJournal) writeAndClose() error {
	j.mu.Lock()
	last := j.nextBatch
	j.nextBatch = newBatch()
	j.broken = errClosed // so nothing is added to the new batch, which nobody writes
	j.mu.Unlock()
	last.err = j.writeBatch(last)
	close(last.done)
	j.breakWith(errClosed) // also if writeBatch broke it with another error
	return errors.Join(last.err, j.closeFiles())
}

var errClosed = fail("the journal is closed", fs.ErrClosed)

// closeFiles closes the file, and the lock of version 1 if there is one.
func (j *FileJournal) closeFiles() (err error) {
	if j.file != nil {
		err = j.file.Close()
	}
	if j.version1Lock != nil {
		err = errors.Join(err, j.version1Lock.Close())
	}
	return err
}

// brokenBy returns the error that later calls fail with, or nil.
func (j *FileJournal) brokenBy() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.broken
}

// breakWith makes later calls fail with an error.
func (j *FileJournal) breakWith(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.broken = err
}

// Warning returns a problem that does not end a run, or nil. The problem is that outdated lines could not be dropped,
// because the file cannot be replaced.
func (j *FileJournal) Warning() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.warning
}

// Bind implements [Journal]. It drops outdated lines if most of the file's lines are outdated.
func (j *FileJournal) Bind(_ context.Context, owner Owner) (binding Binding, err error) {
	err = j.exclusive(func() error { //nolint:contextcheck // a file is written whole or not at all
		if err := j.checkOwner(owner); err != nil {
			return err
		}
		if headerOf(owner).Completes(headerOf(j.owner)) { // the user or the headers were not known before
			now := j.owner
			now.UserID = cmp.Or(now.UserID, owner.UserID)
			now.Headers = cmp.Or(now.Headers, owner.Headers)
			if err := j.putNotice(notice{at: time.Now(), owner: now}); err != nil {
				return err
			}
		}
		j.mu.Lock()
		binding = Binding{Origin: j.origin, Gaps: j.gaps}
		j.isBound = true
		current := j.index.liveRecords + 3 // the header and two notices
		outdated := j.lines - min(j.lines, current)
		j.mu.Unlock()
		areMostOutdated := outdated > j.lines/2
		if areMostOutdated && outdated > j.outdatedAllowed {
			return j.tryCompact()
		}
		return nil
	})
	return binding, err
}

// checkOwner returns an error if the journal belongs to another owner.
func (j *FileJournal) checkOwner(owner Owner) error {
	err := headerOf(j.owner).Check(headerOf(owner))
	switch {
	case errors.Is(err, ErrOtherService):
		return fail("the journal: "+redact.Opaque(err).Error()+"; if that is the same service and tenant under "+
			"another address, call Rename", err)
	case err != nil:
		return fail("the journal: "+redact.Opaque(err).Error(), err)
	}
	return nil
}

// putNotice writes a line about the journal itself.
func (j *FileJournal) putNotice(n notice) error {
	line, sum := appendLine(nil, j.lastSum, appendNotice(nil, n))
	if err := j.writeLines(line); err != nil {
		return err
	}
	j.lastSum = sum
	j.lines++
	j.takeNotice(n, j.lines)
	return nil
}

// Claim implements [Journal]. A recording that cannot have a note gets a new entry, which keeps a manual decision.
func (j *FileJournal) Claim(_ context.Context, key Key) (Claim, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.broken != nil:
		return nil, j.broken
	case !j.isBound:
		return nil, fail("the journal is not bound to a service")
	case j.claimedKeys[key]:
		return nil, fail("another upload of this process has the recording", ErrTaken)
	}
	j.claimedKeys[key] = true
	claim := &fileClaim{journal: j, entry: Entry{Key: key, State: StateClaimed, At: time.Now()}}
	r := j.index.get(key)
	if r != nil {
		r.usedSinceOpen = true // Forget keeps it
		if r.state.mayHaveNote() {
			claim.entry = j.index.entry(r)
			return claim, nil
		}
	}
	decided, isDecided := j.index.details[key]
	claim.entry.By = decided.by
	claim.entry.Replaced = decided.replaced
	claim.entry.Excluded = decided.excluded
	claim.isCountedUpload = true // a batch waits for its line
	j.uploadsUnderWay++
	// The line of a claim is for people who read the file, so nobody waits for it. It must not replace a manual
	// decision. If many wait to be written, it is left out.
	if !isDecided && len(j.nextBatch.entries) < maxClaims {
		j.nextBatch.entries = append(j.nextBatch.entries, claim.entry)
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
	return j.index.ofPatient(patient, since), nil
}

// Processing implements [ProcessingJournal].
func (j *FileJournal) Processing(context.Context) ([]Entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return nil, j.broken
	}
	var entries []Entry
	for key := range j.index.processing {
		entries = append(entries, j.index.entry(j.index.get(key)))
	}
	return entries, nil
}

// fileClaim is used by one goroutine at a time.
type fileClaim struct {
	journal         *FileJournal
	entry           Entry
	isCountedUpload bool // it is counted in journal.uploadsUnderWay
}

func (c *fileClaim) Entry() Entry { return c.entry }

// Save implements [Claim].
func (c *fileClaim) Save(_ context.Context, e Entry) error {
	if c.journal == nil {
		return errNoClaim
	}
	e.Key = c.entry.Key
	if e.State != StateClaimed && e.State != StateCommitting {
		c.endUpload()
	}
	if err := c.journal.save(e); err != nil {
		return err
	}
	c.entry = e
	return nil
}

// endUpload no longer counts the claim among the uploads whose lines a batch waits for.
func (c *fileClaim) endUpload() {
	if c.isCountedUpload {
		c.isCountedUpload = false
		c.journal.mu.Lock()
		defer c.journal.mu.Unlock()
		c.journal.uploadsUnderWay--
	}
}

// Release implements [Claim].
func (c *fileClaim) Release() {
	if j := c.journal; j != nil {
		c.endUpload()
		c.journal = nil
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.claimedKeys, c.entry.Key)
	}
}
