// Export keeps a folder with a file for every note, as JSON. The first run writes all; later ones write what is new or
// different since, and remove what is gone. A file stands under its name only when it is whole, and whatever ends a run, the
// next one goes on. It only reads from the service.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/snapshot"
)

func main() {
	folder := flag.String("o", "notes", "folder to write to; it holds patients' data")
	flag.Parse()
	log.SetFlags(0)
	client, err := clinicaldoc.NewClientFromEnv()
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if err := run(ctx, client, *folder, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, client *clinicaldoc.Client, folder string, out io.Writer) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	path := filepath.Join(folder, "notes.snapshot")
	if err := refuseForeign(folder, path); err != nil {
		return err
	}
	all := clinicaldoc.ListNotesParams{PerPage: 100, Sort: clinicaldoc.SortOldest, Verify: true}
	seen, err := snapshot.Open(ctx, client, path, all)
	if err != nil {
		return err
	}
	defer func() { _ = seen.Close() }()
	if err := prepare(folder, seen.Begun()); err != nil {
		return err
	}
	counts := map[snapshot.Event]int{}
	err = mirror(ctx, client, folder, seen, counts)
	for tries := 1; errors.Is(err, errBehind) && tries < maxTries; tries++ {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		err = mirror(ctx, client, folder, seen, counts)
	}
	if err != nil {
		return errors.Join(err, seen.Save()) // what came before it is done
	}
	_, _ = fmt.Fprintf(out, "%d new, %d changed, %d gone\n",
		counts[snapshot.New], counts[snapshot.Changed], counts[snapshot.Gone])
	return seen.Save()
}

const (
	maxTries = 3
	pause    = time.Second
)

// errBehind means that a note was read in an older state than its row of the list, or not found. A service may read
// lists and notes from different copies of its data, of which one lags. Or the note was deleted just now, and the next
// list lacks it.
var errBehind = errors.New(
	"the list shows a note that the service does not find, or has only in an older version: run this again later")

// mirror brings the files up to date, and counts what it did. A change at which it fails comes again with the next run.
func mirror(
	ctx context.Context, client *clinicaldoc.Client, folder string, seen *snapshot.Snapshot, counts map[snapshot.Event]int,
) error {
	for change, err := range seen.Changes(ctx) {
		if err == nil {
			err = apply(ctx, client, folder, change)
		}
		if err != nil {
			return err
		}
		counts[change.Event]++
	}
	return nil
}

// refuseForeign refuses a folder that has files and no snapshot: they are somebody else's. It looks before a snapshot is opened, which
// makes its file.
func refuseForeign(folder, path string) error {
	exported, err := filesIn(folder, "*.json")
	if err != nil || len(exported) == 0 {
		return err
	}
	if _, err := os.Lstat(path); err != nil {
		return errors.New("the folder has files, but no snapshot that says which notes they are of: name another")
	}
	return nil
}

// prepare removes incomplete files of a killed run, and all files of a first run that was killed. The snapshot does
// not know the latter, so nothing else would remove those whose notes are gone.
func prepare(folder string, begun bool) error {
	left, err := filesIn(folder, ".part-*")
	if !begun && err == nil {
		var exported []string
		exported, err = filesIn(folder, "[0-9]*.json")
		left = append(left, exported...)
	}
	for _, file := range left {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// filesIn returns the files of the folder whose names match the pattern. Only the names are matched. In a folder such
// as "notes [2026]", filepath.Glob would find nothing, because it reads the brackets as a pattern too.
func filesIn(folder, pattern string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		matches, err := filepath.Match(pattern, entry.Name())
		if err != nil {
			return nil, err
		}
		if matches {
			files = append(files, filepath.Join(folder, entry.Name()))
		}
	}
	return files, nil
}

// apply brings the note's file up to date.
func apply(ctx context.Context, client *clinicaldoc.Client, folder string, change snapshot.Change) error {
	path := filepath.Join(folder, strconv.FormatInt(change.ID, 10)+".json")
	if change.Event != snapshot.Gone {
		note, err := client.Notes.Get(ctx, change.ID) // a row of the list may leave texts out
		switch {
		case errors.Is(err, clinicaldoc.ErrNotFound):
			return errBehind
		case err != nil:
			return err
		case note.UpdatedAt.Before(change.Note.UpdatedAt.Truncate(time.Second)): // it may be given in whole seconds
			return errBehind
		}
		return write(path, note)
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// write puts a whole file, which is on the disk, in the old one's place. It is readable to this user alone.
func write(path string, note *clinicaldoc.ProgressNote) (err error) {
	if note.Audio != nil {
		note.Audio.FileURL = "" // whoever has it can listen
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".part-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	if err := errors.Join(json.NewEncoder(file).Encode(note), file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
