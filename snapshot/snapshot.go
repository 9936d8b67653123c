// Package snapshot reports which notes are new, changed or gone since the last run.
//
// The service sends no events and cannot list notes by the time of their last change. [Snapshot.Changes] therefore
// reads the complete list once and compares it with the previous run. A snapshot keeps the ID, version and stage of
// each note. It can be kept in a file for a later process.
package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk/durable"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/fileheader"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Reasons why [Open] rejects a file, for [errors.Is]. A file that other users own or can write to, or that has a second
// name, is rejected too.
var (
	// ErrInUse is [clinicaldoc.ErrInUse]: the file is already open, in this or another process.
	ErrInUse = clinicaldoc.ErrInUse
	// ErrDamaged: the file is not a snapshot, is incomplete, belongs to other notes, or was written by a later version
	// of this package.
	ErrDamaged = redact.New("not a snapshot that can be continued")
	// ErrOtherService: the file belongs to another service.
	ErrOtherService = fileheader.ErrOtherService
	// ErrOtherUser: the file belongs to another user, who may see other notes.
	ErrOtherUser = fileheader.ErrOtherUser
)

// Event describes what happened to a note.
type Event string

// The events.
const (
	New     Event = "new"
	Changed Event = "changed"
	Gone    Event = "gone" // the service has no such note, or it belongs to another patient now
)

// Change describes what happened to one note since the last run.
type Change struct {
	Event Event
	ID    int64
	Stage clinicaldoc.Stage         // for a note that is gone, its last known stage
	Note  *clinicaldoc.ProgressNote // the row of the list, which may leave out texts; nil if it is gone
}

// Snapshot remembers a list of notes. Use [Open] to make one. It is not safe for concurrent use.
type Snapshot struct {
	client *clinicaldoc.Client
	params clinicaldoc.ListNotesParams
	opts   []clinicaldoc.CallOption

	notes map[int64]knownNote // by ID, as they were last listed
	run   int                 // number of the latest run
	begun bool                // a run was complete

	path string // empty: it is kept in memory alone
	head string // the first two lines of the file
	fs   durable.FS
	file disk.File
}

// knownNote is a note as it was last listed.
type knownNote struct {
	version string
	stage   clinicaldoc.Stage
	run     int // the number of the run that listed it; 0 if it comes from the file
}

// Open opens the snapshot in the file at path, or begins one there. If path is empty, the snapshot is only in memory.
// The params select the notes, and how they are listed. The options apply to every call. If path is not empty, Open
// calls Users.Me. Close the snapshot after use.
//
// A file belongs to one service, user, patient and set of [clinicaldoc.WithHeaders]. If a call option selects a tenant
// by a header or a query parameter, use a separate file for each tenant: in another tenant's list all notes would seem
// gone. The same applies to a token source that changes its user.
//
// Open returns an error matching [ErrInUse], [ErrDamaged], [ErrOtherService] or [ErrOtherUser], or an error of the file
// system or of Users.Me.
func Open(
	ctx context.Context, client *clinicaldoc.Client, path string, params clinicaldoc.ListNotesParams,
	opts ...clinicaldoc.CallOption,
) (*Snapshot, error) {
	s := &Snapshot{client: client, params: params, opts: slices.Clone(opts), notes: map[int64]knownNote{}}
	if path == "" {
		return s, nil
	}
	user, err := client.Users.Me(ctx, opts...)
	if err != nil {
		return nil, err
	}
	own := fileheader.Header{
		Kind:    "clinicaldoc-snapshot",
		Version: 1,
		Service: exchange.Service(client.BaseURL()),
		UserID:  user.ID,
		Headers: fileheader.Fingerprint(client),
	}
	s.fs = durable.From(ctx)
	s.path = path
	s.head = fmt.Sprintf("%s\npatient %d\n", own, params.PatientID)
	if err := s.openFile(); err != nil {
		return nil, err
	}
	if err := s.load(own); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// openFile opens the file at the path for this snapshot alone, or creates it.
func (s *Snapshot) openFile() error {
	file, err := s.fs.Open(s.path, false)
	if errors.Is(err, fs.ErrNotExist) {
		file, err = s.fs.Create(s.path, false)
	}
	switch {
	case errors.Is(err, disk.ErrHeld):
		return fail(
			"the file is already open, in this process or in another one; close it there, or try again later", ErrInUse)
	case err != nil:
		return fail("the file cannot be opened: "+redact.Cause(err), err)
	}
	s.file = file
	return nil
}

// fail returns an error with a text that is safe to print. The causes are for errors.Is and errors.As, and not printed.
func fail(text string, causes ...error) error { return redact.Fail("snapshot: "+text, causes...) }

// load reads the file, and rejects one that is damaged or does not belong to this snapshot. An empty file is new.
func (s *Snapshot) load(own fileheader.Header) error {
	text, err := io.ReadAll(io.NewSectionReader(s.file, 0, math.MaxInt64))
	if err != nil {
		return fail("the file cannot be read: "+redact.Cause(err), err)
	}
	if len(text) == 0 {
		return nil
	}
	first, rest, _ := strings.Cut(string(text), "\n")
	found, err := fileheader.Parse(own.Kind, first)
	if err == nil {
		err = found.Check(own)
	}
	if err != nil {
		return fail(redact.Cause(err), err, ErrDamaged)
	}
	_, patient, _ := strings.Cut(s.head, "\n")
	lines, isOurs := strings.CutPrefix(rest, patient)
	if !isOurs {
		return fail("it was made for another patient, or for all patients", ErrDamaged)
	}
	for scanner := bufio.NewScanner(strings.NewReader(lines)); scanner.Scan(); {
		if scanner.Text() == s.endLine() {
			s.begun = true
			return nil
		}
		id, note, ok := parseNote(scanner.Text())
		if !ok {
			break
		}
		s.notes[id] = note
	}
	return fail("the file is damaged; remove it to start again, with all notes reported as new", ErrDamaged)
}

// parseNote reads the line of a note, and reports whether it is one.
func parseNote(line string) (id int64, note knownNote, ok bool) {
	var stage string
	_, err := fmt.Sscan(line, &id, &note.version, &stage)
	if err != nil || id < 1 {
		return 0, knownNote{}, false
	}
	err = note.stage.UnmarshalText([]byte(stage))
	return id, note, err == nil
}

// endLine returns the last line of a file with the notes that are known so far.
func (s *Snapshot) endLine() string { return fmt.Sprintf("end %d", len(s.notes)) }

// Changes reads the list once and yields each note that is new or changed since the last run. If the list was complete,
// Changes then reads each known note that was not in it. The note is gone only if the service does not have it, because
// a list may lack a note that exists.
//
// A change counts as seen when the loop asks for the next one. The next run yields again the change at which the loop
// ended, everything after an error, and everything that was not saved. An error is yielded once and ends the run. It
// comes from Notes.All, such as [clinicaldoc.ErrIncompleteList], or from Notes.Get.
func (s *Snapshot) Changes(ctx context.Context) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		s.run++
		finished := s.yieldListed(ctx, yield)
		if finished {
			finished = s.yieldGone(ctx, yield)
		}
		if finished {
			s.begun = true
		}
	}
}

// yieldListed yields each note in the list that is new or changed. It reports whether it reached the end of the list.
func (s *Snapshot) yieldListed(ctx context.Context, yield func(Change, error) bool) (finished bool) {
	for note, err := range s.client.Notes.All(ctx, s.params, s.opts...) {
		if err != nil {
			yield(Change{}, err)
			return false
		}
		now := knownNote{version: note.Version(), stage: note.Stage(), run: s.run}
		event := s.compare(note.ID, now)
		if event != "" && !yield(Change{event, note.ID, now.stage, note}, nil) {
			return false
		}
		s.notes[note.ID] = now
	}
	return true
}

// compare returns what happened to a listed note since the last run, or "" if nothing did.
func (s *Snapshot) compare(id int64, now knownNote) Event {
	before, known := s.notes[id]
	switch {
	case !known:
		return New
	case before.version != now.version, before.stage != now.stage:
		return Changed
	}
	return ""
}

// yieldGone yields each known note that this run has not listed and that does not exist. It reports whether it came to
// the end of them.
func (s *Snapshot) yieldGone(ctx context.Context, yield func(Change, error) bool) (finished bool) {
	for _, id := range slices.Sorted(maps.Keys(s.notes)) {
		isListed := s.notes[id].run == s.run
		if isListed {
			continue
		}
		exists, err := s.exists(ctx, id)
		if err != nil {
			yield(Change{}, err)
			return false
		}
		if exists { // the list lacked it
			continue
		}
		if !yield(Change{Event: Gone, ID: id, Stage: s.notes[id].stage}, nil) {
			return false
		}
		delete(s.notes, id)
	}
	return true
}

// exists reads the note, and reports whether the service has it for the patient whose notes are listed.
func (s *Snapshot) exists(ctx context.Context, id int64) (bool, error) {
	note, err := s.client.Notes.Get(ctx, id, s.opts...)
	switch {
	case errors.Is(err, clinicaldoc.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	return s.selects(note), nil
}

// Begun reports whether a run was complete in this process, or the snapshot comes from a file. Until then all notes are
// new. A file that was saved after an incomplete run counts too: the notes that the run did not reach are then new.
func (s *Snapshot) Begun() bool { return s.begun }

// selects reports whether the params select the note. A note that names no patient counts as the patient's.
func (s *Snapshot) selects(note *clinicaldoc.ProgressNote) bool {
	patient, named := note.PatientID()
	return s.params.PatientID == 0 || !named || patient == s.params.PatientID
}

// Save writes the snapshot to its file, completely or not at all. It does nothing for a snapshot in memory. If an error
// occurs after the file was replaced, its text says so: after a power failure the previous file may come back.
func (s *Snapshot) Save() error {
	if s.path == "" {
		return nil
	}
	var text bytes.Buffer
	text.WriteString(s.head)
	for _, id := range slices.Sorted(maps.Keys(s.notes)) {
		fmt.Fprintln(&text, id, s.notes[id].version, s.notes[id].stage)
	}
	text.WriteString(s.endLine() + "\n")
	if err := s.replace(text.Bytes()); err != nil {
		return fail("the file cannot be written: "+redact.Cause(err), err)
	}
	if err := s.syncFolder(); err != nil {
		return fail("the file was replaced, but its folder cannot be synced, "+
			"so a power cut may bring back the one before; save again: "+redact.Cause(err), err)
	}
	return nil
}

// replace writes the text to a new file next to the open one, and then renames it to the path.
func (s *Snapshot) replace(text []byte) error {
	if s.file == nil {
		return fs.ErrClosed
	}
	if err := s.file.IsAt(s.path); err != nil {
		return err
	}
	folder, name := filepath.Split(s.path)
	next := filepath.Join(folder, "."+name+".clinicaldoc-snapshot")
	err := s.fs.Remove(next) // of a process that was killed
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	made, err := s.fs.Create(next, false)
	if err != nil {
		return err
	}
	if _, err = made.Write(text); err == nil {
		err = made.Sync()
	}
	if err != nil {
		return errors.Join(err, made.Close(), s.fs.Remove(next))
	}
	file, err := s.fs.Replace(made, next, s.file, s.path)
	s.file = file
	if err != nil {
		_ = s.fs.Remove(next)
		return err
	}
	return nil
}

// syncFolder makes the file's name durable. Some file systems cannot do it; the name is then as durable as it gets.
func (s *Snapshot) syncFolder() error {
	err := s.fs.SyncDir(filepath.Dir(s.path))
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// Close closes the file. Changes that were not saved are lost. Close may be called more than once.
func (s *Snapshot) Close() error {
	if s.file == nil {
		return nil
	}
	file := s.file
	s.file = nil
	return file.Close()
}
