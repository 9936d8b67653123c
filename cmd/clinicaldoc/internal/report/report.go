// Package report keeps a dated record of each upload. It is written line by line while the upload runs, so an
// upload that was killed has one too.
package report

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
)

// Run is one upload.
type Run struct {
	ID         string      `json:"id"` // the time it began, in UTC, and some digits
	Began      time.Time   `json:"began"`
	Ended      time.Time   `json:"ended,omitzero"` // zero: it is running, or was cut off
	Running    bool        `json:"running,omitempty"`
	Version    string      `json:"version"`           // of the program
	Command    string      `json:"command,omitempty"` // may name a patient
	Folder     string      `json:"folder,omitempty"`  // it was run in
	Service    string      `json:"service,omitempty"`
	UserID     int64       `json:"user_id,omitempty"`
	Journal    string      `json:"journal,omitempty"`
	Fleet      bool        `json:"fleet,omitempty"` // other machines work on the same recordings, and report theirs
	Total      int         `json:"total"`
	Code       int         `json:"exit_code"`
	Error      string      `json:"error,omitempty"`
	Reason     string      `json:"reason,omitempty"` // why it ended early or sent nothing, for people
	Do         string      `json:"do,omitempty"`
	Summary    *Summary    `json:"summary,omitempty"`
	Recordings []Recording `json:"recordings,omitempty"`
	Unfinished []Recording `json:"unfinished,omitempty"` // what was not begun, or cut off
	Followed   []Recording `json:"followed,omitempty"`   // of earlier uploads, whose notes were in processing
	LeftOut    []LeftOut   `json:"left_out,omitempty"`
	Pauses     []Pause     `json:"pauses,omitempty"`
	Counts     Counts      `json:"counts,omitempty"`  // at the end, by status
	Empty      bool        `json:"empty,omitempty"`   // nothing could be written
	Earlier    []Earlier   `json:"earlier,omitempty"` // of the last run: what the day before it left open

	planned []Recording // what it was to upload, as far as that could be written
}

// Earlier is a run before another one.
type Earlier struct {
	ID    string    `json:"id"`
	Began time.Time `json:"began"`
	How   string    `json:"how"`
}

// Recording is what became of one recording.
type Recording struct {
	At  time.Time `json:"at,omitzero"`
	Key string    `json:"key"` // by which it can be named
	// Position is the place of the recording in the upload, from 1 on; 0: it has none, as in a fleet.
	Position int       `json:"position,omitempty"`
	Status   string    `json:"status,omitempty"`
	NoteID   int64     `json:"note_id,omitempty"`
	Size     int64     `json:"size,omitempty"`
	Until    time.Time `json:"until,omitzero"` // unresolved: from then on it can be decided
	Took     float64   `json:"seconds,omitempty"`
	Error    string    `json:"error,omitempty"`
	Do       string    `json:"do,omitempty"`
	// Candidates are the notes that a person should compare, the likeliest first.
	Candidates []Candidate `json:"candidates,omitempty"`
	// These fields may name or describe a patient.
	File    string              `json:"file,omitempty"`
	Name    string              `json:"name,omitempty"`
	OwnKey  string              `json:"own_key,omitempty"` // that of a manifest
	Patient int64               `json:"patient,omitempty"`
	Prompt  int64               `json:"prompt,omitempty"`
	Words   string              `json:"service_says,omitempty"`
	Fields  map[string][]string `json:"service_objects,omitempty"`
}

// Candidate is a note that may be a recording's.
type Candidate struct {
	NoteID    int64     `json:"note_id"`
	CreatedAt time.Time `json:"created_at,omitzero"` // zero: it could not be read
	Name      string    `json:"name,omitempty"`      // may name or describe a patient
}

// String names the note for people.
func (c Candidate) String() string {
	text := "note " + strconv.FormatInt(c.NoteID, 10)
	if !c.CreatedAt.IsZero() {
		text += ", created " + Clock(c.CreatedAt)
	}
	if c.Name != "" {
		text += ", " + c.Name
	}
	return text
}

// LeftOut is what a folder held and the run did not take.
type LeftOut struct {
	Reason string `json:"reason"`
	File   string `json:"file,omitempty"`
}

// Pause is when everything failed in the same way.
type Pause struct {
	At  time.Time `json:"at"`
	Why string    `json:"why,omitempty"` // empty: it went on
}

// The statuses.
const (
	Created      = "created"
	AlreadyThere = "already there"
	Refused      = "refused"
	Unresolved   = "unresolved"
	Complete     = "complete"
	Processing   = "processing"
	Failed       = "failed"
)

// hasNote reports whether a recording has a note that is complete, as far as the upload was to wait for it.
func (r *Recording) hasNote() bool {
	return r.Status == Created || r.Status == AlreadyThere || r.Status == Complete
}

// Counts are how many recordings have each status.
type Counts map[string]int

// Count is how many recordings have a status.
func (r *Run) Count(status string) int { return r.Counts[status] }

// Missing is how many recordings came to an end that could not be written.
func (r *Run) Missing() int { return r.ended() - len(r.Recordings) }

func (r *Run) ended() (n int) {
	for _, count := range r.Counts {
		n += count
	}
	return n
}

// Left is how many recordings were not begun or not finished. For a fleet it is not known.
func (r *Run) Left() int {
	if r.Fleet {
		return 0
	}
	return max(r.Total-r.ended(), 0)
}

// CutOff reports whether the run was killed, or its machine stopped: nothing records its end.
func (r *Run) CutOff() bool { return r.Ended.IsZero() && !r.Running }

// Hidden leaves out what may name or describe a patient.
func (r Run) Hidden() Run {
	r.Recordings, r.LeftOut, r.Unfinished = slices.Clone(r.Recordings), slices.Clone(r.LeftOut), nil
	r.Followed = slices.Clone(r.Followed)
	for i := range r.Followed {
		r.Followed[i].Words = ""
		r.Followed[i].Fields = nil
	}
	r.Command, r.Folder = "", ""
	for i := range r.Recordings {
		x := &r.Recordings[i]
		x.File, x.Name, x.OwnKey, x.Patient, x.Prompt, x.Words, x.Fields = "", "", "", 0, 0, "", nil
		x.Candidates = slices.Clone(x.Candidates)
		for i := range x.Candidates {
			x.Candidates[i].Name = ""
		}
	}
	for i := range r.LeftOut {
		r.LeftOut[i].File = ""
	}
	return r
}

// line is one line of a record.
type line struct {
	Run       *Run       `json:"run,omitempty"` // at the beginning, when more is known, and at the end
	Planned   *Recording `json:"planned,omitempty"`
	Recording *Recording `json:"recording,omitempty"`
	Followed  *Recording `json:"followed,omitempty"`
	LeftOut   *LeftOut   `json:"left_out,omitempty"`
	Pause     *Pause     `json:"pause,omitempty"`
}

// Writer writes the record of a run. If a record cannot be written, the upload continues, and Close returns the
// first error.
type Writer struct {
	Run     Run // without its lists
	mu      sync.Mutex
	counts  Counts
	file    *os.File
	reserve int64 // where room is kept for the end, on a disk that fills up meanwhile
	torn    bool  // the last line may be cut
	err     error
}

const (
	ending      = ".jsonl"
	stamp       = "20060102T150405.000Z"
	maxRuns     = 200
	reserveSize = 4 << 10
)

// Begin begins a record in the folder, for this user alone, and removes the oldest ones.
func Begin(folder, version string) *Writer {
	now := time.Now().UTC()
	w := &Writer{counts: Counts{}, Run: Run{
		ID: now.Format(stamp) + "-" + strings.ToLower(rand.Text()[:4]), Began: now, Version: version,
	}}
	old, err := names(folder)
	for len(old) >= maxRuns {
		_ = os.Remove(filepath.Join(folder, old[0]))
		old = old[1:]
	}
	if err == nil {
		w.file, err = disk.Take(filepath.Join(folder, w.Run.ID+ending))
	}
	w.err = err
	w.Update()
	if w.err == nil {
		w.reserve, w.err = w.file.Seek(0, io.SeekCurrent)
		w.append(bytes.Repeat([]byte{' '}, reserveSize))
	}
	return w
}

// Update writes what is known of the run by now.
func (w *Writer) Update() { w.write(line{Run: &w.Run}) }

// Plan writes what the run is to upload.
func (w *Writer) Plan(r Recording) { w.write(line{Planned: &r}) }

// Add writes what became of a recording.
func (w *Writer) Add(r Recording) {
	w.mu.Lock()
	w.counts[r.Status]++
	w.mu.Unlock()
	w.write(line{Recording: &r})
}

// AddFollowed writes what became of a recording of an earlier upload.
func (w *Writer) AddFollowed(r Recording) { w.write(line{Followed: &r}) }

// AddLeftOut writes what was left out.
func (w *Writer) AddLeftOut(l LeftOut) { w.write(line{LeftOut: &l}) }

// AddPause writes a pause.
func (w *Writer) AddPause(p Pause) { w.write(line{Pause: &p}) }

func (w *Writer) write(l line) {
	text, err := json.Marshal(l)
	if err != nil {
		return // a report has nothing that JSON has not
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.append(text)
}

// append writes a line; what a line before it left cut off does not spoil it.
func (w *Writer) append(text []byte) {
	if w.file == nil {
		return
	}
	if w.torn {
		text = slices.Concat([]byte{'\n'}, text)
	}
	_, err := w.file.Write(append(text, '\n'))
	if w.torn = err != nil; w.torn && w.err == nil {
		w.err = err
	}
}

// Close ends the record. If its end cannot be written, it goes where room was kept for it.
func (w *Writer) Close() error {
	w.Run.Ended, w.Run.Counts = time.Now().UTC(), w.counts
	w.Update()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return w.err
	}
	if text, err := json.Marshal(line{Run: &w.Run}); w.torn && w.reserve > 0 && err == nil && len(text) < reserveSize {
		_, _ = w.file.WriteAt(text, w.reserve)
	}
	err := errors.Join(w.file.Sync(), disk.Close(w.file))
	w.file = nil
	return cmp.Or(w.err, err)
}

// names are those of the records' files, the oldest first.
func names(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	var list []string
	for _, entry := range entries {
		_, otherName := begun(entry.Name())
		if otherName == nil && strings.HasSuffix(entry.Name(), ending) && entry.Type().IsRegular() {
			list = append(list, entry.Name())
		}
	}
	return list, err
}

// begun is when a run began, by its ID or the name of its file.
func begun(name string) (time.Time, error) {
	return time.Parse(stamp, strings.SplitN(name, "-", 2)[0])
}

// List reads the runs that a selector names, the oldest first. The empty selector means the last run. Others are a
// day such as 2026-11-15 by this machine's clock, the beginning of an ID, or "all".
func List(folder, which string) ([]Run, error) {
	list, err := names(folder)
	if err != nil {
		return nil, err
	}
	var before []string
	if which == "" && len(list) > 0 {
		before, list = list[:len(list)-1], list[len(list)-1:]
	}
	var runs []Run
	for _, name := range list {
		began, _ := begun(name)
		isNamed := strings.HasPrefix(name, which) || began.Local().Format(time.DateOnly) == which
		if which != "all" && !isNamed {
			continue
		}
		run, err := Read(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	if len(runs) > 0 {
		last := &runs[len(runs)-1]
		last.Earlier = last.earlier(folder, before)
	}
	return runs, nil
}

// Read reads one record. It ignores a line that a crash cut off, and fields that a later version added.
func Read(path string) (Run, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Run{}, err
	}
	run := Run{ID: strings.TrimSuffix(filepath.Base(path), ending), Empty: len(text) == 0}
	run.Began, _ = begun(run.ID)
	var planned []Recording
	for one := range bytes.Lines(text) {
		var l line
		if json.Unmarshal(one, &l) != nil {
			continue
		}
		switch {
		case l.Run != nil && run.Ended.IsZero(): // the end may stand before the rest
			l.Run.Recordings, l.Run.LeftOut, l.Run.Pauses = run.Recordings, run.LeftOut, run.Pauses
			l.Run.Followed = run.Followed
			run = *l.Run
		case l.Planned != nil:
			planned = append(planned, *l.Planned)
		case l.Recording != nil:
			run.Recordings = append(run.Recordings, *l.Recording)
		case l.Followed != nil:
			run.Followed = append(run.Followed, *l.Followed)
		case l.LeftOut != nil:
			run.LeftOut = append(run.LeftOut, *l.LeftOut)
		case l.Pause != nil:
			run.Pauses = append(run.Pauses, *l.Pause)
		}
	}
	run.tally(planned)
	if run.Ended.IsZero() {
		file, err := disk.Take(path)
		if run.Running = errors.Is(err, disk.ErrHeld); err == nil {
			_ = disk.Close(file)
		}
	}
	return run, nil
}

// tally counts what became of the recordings, where the end does not tell, and finds what was planned and came to no
// end.
func (r *Run) tally(planned []Recording) {
	counts, ended := Counts{}, map[string]bool{}
	for i := range r.Recordings {
		counts[r.Recordings[i].Status]++
		ended[r.Recordings[i].File] = true
	}
	if r.Counts == nil {
		r.Counts = counts
	}
	r.planned = planned
	if r.Missing() == 0 { // else some of them may have come to an end
		r.Unfinished = slices.DeleteFunc(planned, func(x Recording) bool { return ended[x.File] })
	}
}
