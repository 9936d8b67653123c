package ingest_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk/durable"
)

// lifeVariable holds what a process that is to be killed has to do.
const lifeVariable = "CLINICALDOC_INGEST_LIFE"

// life is one process: what it uploads, and at which transition of its disk it ends.
type life struct {
	URL, Token, Journal string
	Link                bool // the journal is opened by a link to it
	Recordings          int
	Lookalikes          bool // two recordings that only their content tells apart
	Letters             bool // every second recording is the one before, wanted as a second note
	Until               bool // a recording is done when its note is complete
	SendAgain           bool // before the upload, what the service could not process is decided to be sent again
	UniqueName          bool
	Settle              time.Duration
	EndAt               int  // the number of the transition; 0: none
	Stop                bool // it is stopped there instead, until somebody lets it go on
}

// outcome is a line that a process prints.
type outcome struct {
	Ending string // the transition it ends at
	InUse  bool   // another has the journal
	Failed string // the run
	Done   bool

	Key    string
	Status string
	NoteID int64
	Err    string

	Replaced []int64 // earlier notes of the recording
	Earlier  bool    // it is one of an earlier run
}

func runIfLife() {
	text := os.Getenv(lifeVariable)
	if text == "" {
		return
	}
	var l life
	err := json.Unmarshal([]byte(text), &l)
	if err == nil {
		err = l.run(context.Background())
	}
	if err != nil {
		_ = json.NewEncoder(os.Stdout).Encode(outcome{
			InUse: errors.Is(err, ingest.ErrJournalInUse), Failed: err.Error(),
		})
	}
	os.Exit(0)
}

func (l life) run(ctx context.Context) error {
	client, err := clinicaldoc.NewClient(l.URL, l.Token, clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 1, MinWait: time.Millisecond, MaxWait: time.Millisecond}))
	if err != nil {
		return err
	}
	d := &deadlyDisk{FS: durable.From(ctx), life: l}
	path := l.Journal
	if l.Link {
		path += ".link"
	}
	journal, err := ingest.OpenJournal(disk.With(ctx, d), path)
	if err != nil {
		return err
	}
	ingest.CompactAbove(journal, 0)
	u := &ingest.Uploader{
		Client: client, Journal: journal, Workers: 4,
		Find: clinicaldoc.FindCreatedParams{Settle: l.Settle, UniqueName: l.UniqueName},
	}
	if l.Until {
		u.Until = clinicaldoc.StageComplete
	}
	if l.SendAgain {
		if err := sendFailedAgain(ctx, u, path); err != nil {
			return err
		}
	}
	out := json.NewEncoder(os.Stdout)
	for result, err := range u.Run(ctx, l.recordings()) {
		o := outcome{
			Key: labelOf(result.Recording), Status: result.Status.String(), NoteID: result.NoteID,
			Replaced: result.Replaced, Earlier: result.Earlier,
		}
		if result.Err != nil {
			o.Err = result.Err.Error()
		}
		if err != nil {
			o = outcome{Failed: err.Error()}
		}
		if err := out.Encode(o); err != nil {
			return err
		}
	}
	if err := journal.Close(); err != nil {
		return err
	}
	return out.Encode(outcome{Done: true})
}

// sendFailedAgain decides about all recordings that the service could not process.
func sendFailedAgain(ctx context.Context, u *ingest.Uploader, path string) error {
	_, entries, err := ingest.ReadJournal(ctx, path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.State != ingest.StateCreated || e.Stage != clinicaldoc.StageFailed {
			continue
		}
		if err := u.Resolve(ctx, e.Key, ingest.Resolution{SendAgain: true, By: "a person"}); err != nil {
			return err
		}
	}
	return nil
}

// recordings have their own contents, or else their own names, by which the notes of the service are told apart.
func (l life) recordings() iter.Seq2[ingest.Recording, error] {
	return func(yield func(ingest.Recording, error) bool) {
		for n := range l.Recordings {
			if !yield(l.recording(n), nil) {
				return
			}
		}
	}
}

func (l life) recording(n int) ingest.Recording {
	named := n
	name := "Encounter"
	switch {
	case l.Lookalikes && n == 1:
		named = 0
	case l.Letters && n%2 == 1:
		named = n - 1
		name = "Letter"
	}
	params := clinicaldoc.CreateNoteParams{
		Name: fmt.Sprintf("%s #%d.", name, named), PatientID: int64(1 + named%2), PromptID: 1,
	}
	if n%3 == 0 { // some are in files, with keys of their content
		return ingest.Recording{File: filepath.Join(filepath.Dir(l.Journal), fmt.Sprintf("%d.wav", n)), Params: params}
	}
	params.Audio = clinicaldoc.AudioBytes("a.wav", l.content(n))
	return ingest.Recording{Key: fmt.Sprintf("recording %d", n), Params: params}
}

// labelOf is what a recording is known by here.
func labelOf(r ingest.Recording) string { return cmp.Or(r.File, r.Key) }

// content is as long for all.
func (l life) content(n int) []byte {
	if l.Letters {
		n -= n % 2
	}
	return fmt.Appendf(nil, "RIFF synthetic recording %04d", n)
}

// deadlyDisk ends the process at a transition.
type deadlyDisk struct {
	durable.FS
	life  life
	mu    sync.Mutex
	count int
}

// pass is called at each transition.
func (d *deadlyDisk) pass(name string) {
	d.mu.Lock()
	d.count++
	end := d.count == d.life.EndAt
	d.mu.Unlock()
	if !end {
		return
	}
	line, _ := json.Marshal(outcome{Ending: name})
	_, _ = os.Stdout.Write(append(line, '\n'))
	if d.life.Stop {
		stopSelf()
		return
	}
	self, _ := os.FindProcess(os.Getpid())
	_ = self.Kill()
	select {}
}

// around passes a transition before and after.
func (d *deadlyDisk) around(name string, do func() error) error {
	d.pass("before " + name)
	err := do()
	d.pass("after " + name)
	return err
}

func (d *deadlyDisk) Open(name string, unlocked bool) (disk.File, error) {
	f, err := d.FS.Open(name, unlocked)
	if err != nil {
		return nil, err
	}
	return &deadlyFile{File: f, disk: d}, nil
}

func (d *deadlyDisk) Create(name string, unlocked bool) (f disk.File, err error) {
	err = d.around("creating the compacted file", func() error { f, err = d.FS.Create(name, unlocked); return err })
	if err != nil {
		return nil, err
	}
	return &deadlyFile{File: f, disk: d, of: " of the compacted file"}, nil
}

func (d *deadlyDisk) Replace(made disk.File, from string, old disk.File, to string) (f disk.File, err error) {
	err = d.around("the rename", func() error {
		f, err = d.FS.Replace(made.(*deadlyFile).File, from, old.(*deadlyFile).File, to)
		return err
	})
	if f == nil {
		return nil, err
	}
	return &deadlyFile{File: f, disk: d}, err
}

func (d *deadlyDisk) SyncDir(name string) error {
	return d.around("the folder's sync", func() error { return d.FS.SyncDir(name) })
}

type deadlyFile struct {
	disk.File
	disk *deadlyDisk
	of   string
}

// Write can be cut in the middle as well.
func (f *deadlyFile) Write(p []byte) (int, error) {
	f.disk.pass("before a write" + f.of)
	n, err := f.File.Write(p[:len(p)/2])
	if err != nil {
		return n, err
	}
	f.disk.pass("in a write" + f.of)
	m, err := f.File.Write(p[len(p)/2:])
	f.disk.pass("after a write" + f.of)
	return n + m, err
}

func (f *deadlyFile) Sync() error { return f.disk.around("a sync"+f.of, f.File.Sync) }

func (f *deadlyFile) Truncate(size int64) error {
	return f.disk.around("the truncation", func() error { return f.File.Truncate(size) })
}

// outcomes reads what a process prints, to its end.
func outcomes(from io.Reader) iter.Seq[outcome] {
	return func(yield func(outcome) bool) {
		lines := bufio.NewScanner(from)
		for lines.Scan() {
			var o outcome
			if json.Unmarshal(lines.Bytes(), &o) == nil && !yield(o) {
				return
			}
		}
	}
}
