// Package snapshot says what is new, different or gone among the notes since the last look. The service sends no events and lists
// by no time of change, so that a look walks the whole list once and compares it with what the look before saw: of each note
// its id, version and stage, kept in a file if a later process shall go on.
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

// Why a file is not gone on with, for [errors.Is]. A file that others own, can write to or reach by a second name is refused too.
var (
	// ErrInUse is [clinicaldoc.ErrInUse]: the file is already open, in this process or in another one.
	ErrInUse = clinicaldoc.ErrInUse
	// ErrDamaged: the file is no snapshot, not a whole one, of other notes, or of a later version of this package.
	ErrDamaged = redact.New("not a snapshot to go on with")
	// ErrOtherService: the file is of another service.
	ErrOtherService = fileheader.ErrOtherService
	// ErrOtherUser: the file is another user's, who may see other notes.
	ErrOtherUser = fileheader.ErrOtherUser
)

// Event is what became of a note.
type Event string

// The events.
const (
	New     Event = "new"
	Changed Event = "changed"
	Gone    Event = "gone" // the service says that there is no such note, or the note is another patient's now
)

// Change is what became of a note since the last look.
type Change struct {
	Event Event
	ID    int64
	Stage clinicaldoc.Stage         // of a note that is gone, as it was last seen
	Note  *clinicaldoc.ProgressNote // as the list has it, which may leave texts out; nil when it is gone
}

// Snapshot is what was seen of a list of notes. Make it with [Open]. One goroutine at a time uses it.
type Snapshot struct {
	client *clinicaldoc.Client
	params clinicaldoc.ListNotesParams
	opts   []clinicaldoc.CallOption

	seen  map[int64]sight
	look  int // counts the looks
	begun bool

	path string // empty: it is kept in memory alone
	head string // the first two lines of the file
	fs   durable.FS
	file disk.File
}

// sight is how a note was last seen.
type sight struct {
	version string
	stage   clinicaldoc.Stage
	look    int
}

// Open goes on with the snapshot in the file at path, or begins one there; an empty path is one in memory. The params say which
// notes it is of, and how they are listed; with a path the user is asked for. The options go to every call. Close it in the end.
//
// A file is of one service, user and patient. Where a header or a query among the options picks a tenant, give each tenant a file of
// its own: in another's list all notes would seem gone. The same holds for a client whose token source changes its user.
//
// Errors: [ErrInUse], [ErrDamaged], [ErrOtherService], [ErrOtherUser], those of the file system and of Users.Me.
func Open(ctx context.Context, client *clinicaldoc.Client, path string, params clinicaldoc.ListNotesParams, opts ...clinicaldoc.CallOption) (*Snapshot, error) {
	s := &Snapshot{client: client, params: params, opts: slices.Clone(opts), seen: map[int64]sight{}}
	if path == "" {
		return s, nil
	}
	user, err := client.Users.Me(ctx, opts...)
	if err != nil {
		return nil, err
	}
	own := fileheader.Header{Kind: "clinicaldoc-snapshot", Version: 1, Service: exchange.Service(client.BaseURL()), UserID: user.ID, Headers: fileheader.Fingerprint(client)}
	s.fs, s.path, s.head = durable.From(ctx), path, fmt.Sprintf("%s\npatient %d\n", own, params.PatientID)
	s.file, err = s.fs.Open(path, false)
	if errors.Is(err, fs.ErrNotExist) {
		s.file, err = s.fs.Create(path, false)
	}
	switch {
	case errors.Is(err, disk.ErrHeld):
		return nil, fail("the file is already open, in this process or in another one; close it there, or try again later", ErrInUse)
	case err != nil:
		return nil, fail("the file cannot be opened: "+redact.Cause(err), err)
	}
	if err := s.load(own); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// fail makes an error with a text that is safe to print; causes are for errors.Is and errors.As, and not printed.
func fail(text string, causes ...error) error { return redact.Fail("snapshot: "+text, causes...) }

// load reads the file; an empty one is new.
func (s *Snapshot) load(own fileheader.Header) error {
	text, err := io.ReadAll(io.NewSectionReader(s.file, 0, math.MaxInt64))
	if err != nil {
		return fail("the file cannot be read: "+redact.Cause(err), err)
	}
	if len(text) == 0 {
		return nil
	}
	first, _, _ := strings.Cut(string(text), "\n")
	found, err := fileheader.Parse(own.Kind, first)
	if err == nil {
		err = found.Check(own)
	}
	if err != nil {
		return fail(redact.Cause(err), err, ErrDamaged)
	}
	rest, ours := bytes.CutPrefix(text, []byte(s.head))
	if !ours {
		return fail("it is of another patient's notes, or of all", ErrDamaged)
	}
	for lines := bufio.NewScanner(bytes.NewReader(rest)); lines.Scan(); {
		var id int64
		var seen sight
		var stage string
		if lines.Text() == s.end() {
			s.begun = true
			return nil
		}
		_, err := fmt.Sscan(lines.Text(), &id, &seen.version, &stage)
		if err != nil || id < 1 || seen.stage.UnmarshalText([]byte(stage)) != nil {
			break
		}
		s.seen[id] = seen
	}
	return fail("the file is not whole; remove it to begin anew, with all notes as new", ErrDamaged)
}

// end is the last line of the file.
func (s *Snapshot) end() string { return fmt.Sprintf("end %d", len(s.seen)) }

// Changes looks once: it walks the list and yields what is new or different since the last look. When the list was whole, each note
// that was not in it is read by itself, and is gone if the service has none: a list can lack a note that is there.
//
// A change counts as seen when the loop comes back for the next one. What it broke off with, and what came after an error, is
// yielded again by the next look, and so is all that Save did not keep. The error comes once and ends the look: those of
// Notes.All, such as [clinicaldoc.ErrIncompleteList], and of Notes.Get.
func (s *Snapshot) Changes(ctx context.Context) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		s.look++
		for note, err := range s.client.Notes.All(ctx, s.params, s.opts...) {
			if err != nil {
				yield(Change{}, err)
				return
			}
			now := sight{note.Version(), note.Stage(), s.look}
			before, known := s.seen[note.ID]
			change := Change{New, note.ID, now.stage, note}
			if known {
				change.Event = Changed
			}
			same := known && before.version == now.version && before.stage == now.stage
			if !same && !yield(change, nil) {
				return
			}
			s.seen[note.ID] = now
		}
		for _, id := range slices.Sorted(maps.Keys(s.seen)) {
			if s.seen[id].look == s.look {
				continue
			}
			note, err := s.client.Notes.Get(ctx, id, s.opts...)
			if err != nil && !errors.Is(err, clinicaldoc.ErrNotFound) {
				yield(Change{}, err)
				return
			}
			if err == nil && s.holds(note) {
				continue // the list lacked it
			}
			if !yield(Change{Event: Gone, ID: id, Stage: s.seen[id].stage}, nil) {
				return
			}
			delete(s.seen, id)
		}
		s.begun = true
	}
}

// Begun reports whether there was a look before: one that came to its end, or what the file keeps. Until then all notes are new.
func (s *Snapshot) Begun() bool { return s.begun }

// holds reports whether the note is among those that are listed, as far as it tells.
func (s *Snapshot) holds(note *clinicaldoc.ProgressNote) bool {
	patient, named := note.PatientID()
	return s.params.PatientID == 0 || !named || patient == s.params.PatientID
}

// Save keeps in the file what was seen, whole or not at all. In memory alone it does nothing. An error after the file
// was replaced says so; it means that a power cut may bring back the one before.
func (s *Snapshot) Save() error {
	if s.path == "" {
		return nil
	}
	var text bytes.Buffer
	text.WriteString(s.head)
	for _, id := range slices.Sorted(maps.Keys(s.seen)) {
		fmt.Fprintln(&text, id, s.seen[id].version, s.seen[id].stage)
	}
	text.WriteString(s.end() + "\n")
	if err := s.replace(text.Bytes()); err != nil {
		return fail("the file cannot be written: "+redact.Cause(err), err)
	}
	if err := s.syncFolder(); err != nil {
		return fail("the file was replaced, but its folder cannot be synced, so a power cut may bring back the one before; "+
			"save again: "+redact.Cause(err), err)
	}
	return nil
}

// replace puts a file with the text in the place of the one that is open.
func (s *Snapshot) replace(text []byte) error {
	if s.file == nil {
		return fs.ErrClosed
	}
	if err := s.file.IsAt(s.path); err != nil {
		return err
	}
	folder, name := filepath.Split(s.path)
	next := filepath.Join(folder, "."+name+".clinicaldoc-snapshot")
	if err := s.fs.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a process that was killed
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

// Close lets go of the file; what was not saved is lost. It may be called twice.
func (s *Snapshot) Close() error {
	file := s.file
	if s.file = nil; file == nil {
		return nil
	}
	return file.Close()
}
