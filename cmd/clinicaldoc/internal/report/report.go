// Package report keeps what became of each upload: a dated record for each run, written line by line while it runs, so that a
// run that was killed has one too.
package report

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/filelock"
)

// Run is one upload.
type Run struct {
	ID         string      `json:"id"` // the time it began, in UTC, and some digits
	Began      time.Time   `json:"began"`
	Ended      time.Time   `json:"ended,omitzero"` // zero: it is running, or was cut off
	Running    bool        `json:"running,omitempty"`
	Version    string      `json:"version"` // of the program
	Service    string      `json:"service,omitempty"`
	UserID     int64       `json:"user_id,omitempty"`
	Journal    string      `json:"journal,omitempty"`
	Total      int         `json:"total"`
	Code       int         `json:"exit_code"`
	Error      string      `json:"error,omitempty"`
	Do         string      `json:"do,omitempty"`
	Recordings []Recording `json:"recordings,omitempty"`
	LeftOut    []LeftOut   `json:"left_out,omitempty"`
	Pauses     []Pause     `json:"pauses,omitempty"`
}

// Recording is what became of one recording.
type Recording struct {
	At     time.Time `json:"at"`
	Key    string    `json:"key"` // by which it can be named
	Status string    `json:"status"`
	NoteID int64     `json:"note_id,omitempty"`
	Size   int64     `json:"size,omitempty"`
	Until  time.Time `json:"until,omitzero"` // in doubt: from then on it can be decided
	Took   float64   `json:"seconds,omitempty"`
	Error  string    `json:"error,omitempty"`
	Do     string    `json:"do,omitempty"`
	// What may name or describe a patient.
	File    string              `json:"file,omitempty"`
	Name    string              `json:"name,omitempty"`
	OwnKey  string              `json:"own_key,omitempty"` // that of a manifest
	Patient int64               `json:"patient,omitempty"`
	Prompt  int64               `json:"prompt,omitempty"`
	Words   string              `json:"service_says,omitempty"`
	Fields  map[string][]string `json:"service_objects,omitempty"`
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
	InDoubt      = "in doubt"
)

// Count is how many recordings have a status.
func (r *Run) Count(status string) int {
	n := 0
	for i := range r.Recordings {
		if r.Recordings[i].Status == status {
			n++
		}
	}
	return n
}

// Left is how many recordings were not begun or not finished.
func (r *Run) Left() int { return max(r.Total-len(r.Recordings), 0) }

// CutOff reports whether the run ended without a word: killed, or with its machine.
func (r *Run) CutOff() bool { return r.Ended.IsZero() && !r.Running }

// Hidden leaves out what may name or describe a patient.
func (r Run) Hidden() Run {
	r.Recordings, r.LeftOut = slices.Clone(r.Recordings), slices.Clone(r.LeftOut)
	for i := range r.Recordings {
		x := &r.Recordings[i]
		x.File, x.Name, x.OwnKey, x.Patient, x.Prompt, x.Words, x.Fields = "", "", "", 0, 0, "", nil
	}
	for i := range r.LeftOut {
		r.LeftOut[i].File = ""
	}
	return r
}

// line is one line of a record.
type line struct {
	Run       *Run       `json:"run,omitempty"` // at the beginning, when more is known, and at the end
	Recording *Recording `json:"recording,omitempty"`
	LeftOut   *LeftOut   `json:"left_out,omitempty"`
	Pause     *Pause     `json:"pause,omitempty"`
}

// Writer writes the record of a run. A record that cannot be written ends no upload: Close tells the first error.
type Writer struct {
	Run  Run // without its lists
	mu   sync.Mutex
	file *os.File
	err  error
}

const (
	ending  = ".jsonl"
	stamp   = "20060102T150405.000Z"
	maxRuns = 200
)

// Begin begins a record in the folder, for this user alone, and removes the oldest ones.
func Begin(folder, version string) *Writer {
	now := time.Now().UTC()
	w := &Writer{Run: Run{ID: now.Format(stamp) + "-" + strings.ToLower(rand.Text()[:4]), Began: now, Version: version}}
	old, err := names(folder)
	for len(old) >= maxRuns {
		_ = os.Remove(filepath.Join(folder, old[0]))
		old = old[1:]
	}
	if err == nil {
		w.file, err = filelock.Open(filepath.Join(folder, w.Run.ID+ending))
	}
	w.err = err
	w.Update()
	return w
}

// Update writes what is known of the run by now.
func (w *Writer) Update() { w.write(line{Run: &w.Run}) }

// Add writes what became of a recording.
func (w *Writer) Add(r Recording) { w.write(line{Recording: &r}) }

// AddLeftOut writes what was left out.
func (w *Writer) AddLeftOut(l LeftOut) { w.write(line{LeftOut: &l}) }

// AddPause writes a pause.
func (w *Writer) AddPause(p Pause) { w.write(line{Pause: &p}) }

func (w *Writer) write(l line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return
	}
	text, err := json.Marshal(l)
	if err == nil {
		_, err = w.file.Write(append(text, '\n'))
	}
	w.err = errors.Join(w.err, err)
	if err != nil && len(w.err.Error()) > 200 {
		w.err = err // one is enough
	}
}

// Close ends the record.
func (w *Writer) Close() error {
	w.Run.Ended = time.Now().UTC()
	w.Update()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file != nil {
		w.err = errors.Join(w.err, w.file.Sync(), filelock.Close(w.file))
		w.file = nil
	}
	return w.err
}

// names are those of the records' files, the oldest first.
func names(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	var list []string
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ending) && entry.Type().IsRegular() {
			list = append(list, entry.Name())
		}
	}
	return list, err
}

// List reads the runs that one of these asks for, the oldest first: "" the last one, a day such as 2026-11-15 by this machine's
// clock, the beginning of an id, or "all".
func List(folder, which string) ([]Run, error) {
	list, err := names(folder)
	if err != nil {
		return nil, err
	}
	if which == "" && len(list) > 0 {
		list = list[len(list)-1:]
	}
	var runs []Run
	for _, name := range list {
		began, err := time.Parse(stamp, strings.SplitN(name, "-", 2)[0])
		if err != nil || which != "" && which != "all" && began.Local().Format(time.DateOnly) != which && !strings.HasPrefix(name, which) {
			continue
		}
		run, err := Read(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// Read reads one record. What a crash cut off, and what a later version added, is passed over.
func Read(path string) (Run, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Run{}, err
	}
	var run Run
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		var l line
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			continue
		}
		switch {
		case l.Run != nil:
			l.Run.Recordings, l.Run.LeftOut, l.Run.Pauses = run.Recordings, run.LeftOut, run.Pauses
			run = *l.Run
		case l.Recording != nil:
			run.Recordings = append(run.Recordings, *l.Recording)
		case l.LeftOut != nil:
			run.LeftOut = append(run.LeftOut, *l.LeftOut)
		case l.Pause != nil:
			run.Pauses = append(run.Pauses, *l.Pause)
		}
	}
	if run.ID == "" {
		run.ID = strings.TrimSuffix(filepath.Base(path), ending)
	}
	if run.Ended.IsZero() {
		file, err := filelock.Open(path)
		if run.Running = errors.Is(err, filelock.ErrHeld); err == nil {
			_ = filelock.Close(file)
		}
	}
	return run, nil
}
