// Export keeps a file with all notes, one as JSON in each line. The first run reads the whole list. Later ones read it from
// the newest note back to where the last run ended, and some way beyond: this overlap brings what was changed meanwhile, and
// notes that the service stored late. What changed before that comes with -full; run that now and then. It only reads.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func main() {
	path := flag.String("o", "notes.jsonl", "file to write; it holds patients' data")
	overlap := flag.Duration("overlap", 48*time.Hour, "how far to read beyond the newest note of the last run")
	full := flag.Bool("full", false, "read everything anew")
	flag.Parse()
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *path, *overlap, *full, os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path string, overlap time.Duration, full bool, out io.Writer) error {
	if os.Getenv(clinicaldoc.EnvBaseURL) == "" {
		return rehearse(ctx, overlap, out)
	}
	client, err := clinicaldoc.NewClientFromEnv()
	if err != nil {
		return err
	}
	count, err := export(ctx, client, path, overlap, full)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: %d notes read\n", path, count)
	return err
}

// rehearse exports twice from the service in a box. What is in the box is nobody's, so the file does not stay.
func rehearse(ctx context.Context, overlap time.Duration, out io.Writer) error {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	_, _ = fmt.Fprintf(out, "no %s set: rehearsing with the service in a box at %s\n", clinicaldoc.EnvBaseURL, srv.URL)
	folder, err := os.MkdirTemp("", "export")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	for day := range 100 {
		srv.AddNote(clinicaldoctest.Note{CreatedAt: srv.Now().AddDate(0, 0, day-100)})
	}
	for _, when := range []string{"first", "second"} {
		count, err := export(ctx, srv.Client(), filepath.Join(folder, "notes.jsonl"), overlap, false)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(out, "%s run: %d notes read\n", when, count)
		srv.AddNote(clinicaldoctest.Note{})
	}
	return nil
}

// state stands beside the export and tells the next run where to go on.
type state struct {
	Service string    `json:"service"`
	Newest  time.Time `json:"newest"` // by the service's clock
}

// export brings the file up to date and returns how many notes it read. The old file stays until the new one is whole.
func export(ctx context.Context, client *clinicaldoc.Client, path string, overlap time.Duration, full bool) (int, error) {
	last, err := readState(path)
	if err != nil {
		return 0, err
	}
	if last.Service != "" && last.Service != client.BaseURL() {
		return 0, fmt.Errorf("the file is an export of %s: name another for %s", last.Service, client.BaseURL())
	}
	since := last.Newest.Add(-overlap)
	if full || last.Newest.IsZero() {
		since = time.Time{}
	}
	now := state{client.BaseURL(), last.Newest}
	read := map[int64]bool{}
	err = replace(path, func(w io.Writer) error {
		lines := json.NewEncoder(w)
		for note, err := range notesSince(ctx, client, since) {
			if err != nil {
				return err
			}
			if note.Audio != nil {
				note.Audio.FileURL = "" // whoever has it can listen
			}
			if err := lines.Encode(note); err != nil {
				return err
			}
			read[note.ID] = true
			if note.CreatedAt.After(now.Newest) {
				now.Newest = note.CreatedAt
			}
		}
		if since.IsZero() {
			return nil
		}
		return copyOthers(w, path, read)
	})
	if err != nil {
		return 0, err
	}
	// Only now: were it lost, the next run would only read more than it must.
	return len(read), replace(statePath(path), func(w io.Writer) error { return json.NewEncoder(w).Encode(now) })
}

// notesSince yields the notes that were created at that time or later. A list that came newest first is left where it
// reaches older ones; one that came in another order, from a service that cannot sort, is read to its end.
func notesSince(ctx context.Context, client *clinicaldoc.Client, since time.Time) iter.Seq2[*clinicaldoc.ProgressNote, error] {
	if since.IsZero() {
		return client.Notes.All(ctx, clinicaldoc.ListNotesParams{PerPage: 100, Sort: clinicaldoc.SortOldest, Prefetch: 2, Verify: true})
	}
	return func(yield func(*clinicaldoc.ProgressNote, error) bool) {
		var previous time.Time
		sorted, found := true, false
		for note, err := range client.Notes.All(ctx, clinicaldoc.ListNotesParams{PerPage: 100, Sort: clinicaldoc.SortLatest}) {
			if err != nil {
				yield(nil, err)
				return
			}
			sorted = sorted && (previous.IsZero() || !note.CreatedAt.After(previous))
			previous = note.CreatedAt
			if old := note.CreatedAt.Before(since); old && sorted && found {
				return
			} else if old {
				continue
			}
			found = true
			if !yield(note, nil) {
				return
			}
		}
	}
}

// copyOthers copies the lines of the old export whose notes were not read this time.
func copyOthers(w io.Writer, path string, read map[int64]bool) error {
	old, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = old.Close() }()
	for lines := bufio.NewReader(old); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		var note struct {
			ID int64 `json:"id"`
		}
		if err == nil {
			err = json.Unmarshal(line, &note)
		}
		if err == nil && !read[note.ID] {
			_, err = w.Write(line)
		}
		if err != nil {
			return err
		}
	}
}

func statePath(path string) string { return path + ".state" }

// readState returns what the last run left; nothing before the first.
func readState(path string) (last state, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return state{}, nil
	}
	text, err := os.ReadFile(statePath(path))
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, errors.New("the file is no export of this program, or its state is lost: name another")
	}
	if err != nil {
		return state{}, err
	}
	err = json.Unmarshal(text, &last)
	return last, err
}

// replace writes a file beside the old one and puts it in its place once it is whole, so that at no time is there half a file.
func replace(path string, write func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), ".export-*") // readable to this user alone
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = file.Close()
			_ = os.Remove(file.Name())
		}
	}()
	buffered := bufio.NewWriter(file)
	if err := write(buffered); err != nil {
		return err
	}
	if err := errors.Join(buffered.Flush(), file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
