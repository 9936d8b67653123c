// Export writes all notes to a file, one as JSON in each line. The file stands under its name only when it is whole; until
// then the one of the last run does. It only reads from the service.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

func main() {
	path := flag.String("o", "notes.jsonl", "file to write; it holds patients' data")
	flag.Parse()
	log.SetFlags(0)
	client, err := clinicaldoc.NewClientFromEnv()
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	count := 0
	err = replace(*path, func(w io.Writer) error {
		count, err = export(ctx, client, w)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d notes exported\n", count)
}

// export writes every note. Verify makes sure that the list is whole, or it is an error.
func export(ctx context.Context, client *clinicaldoc.Client, w io.Writer) (count int, err error) {
	lines := json.NewEncoder(w)
	for row, err := range client.Notes.All(ctx, clinicaldoc.ListNotesParams{PerPage: 100, Sort: clinicaldoc.SortOldest, Verify: true}) {
		if err != nil {
			return count, err
		}
		note, err := client.Notes.Get(ctx, row.ID) // rows of a list may leave texts out
		if errors.Is(err, clinicaldoc.ErrNotFound) {
			continue // deleted since it was listed
		}
		if err != nil {
			return count, err
		}
		if note.Audio != nil {
			note.Audio.FileURL = "" // whoever has it can listen
		}
		if err := lines.Encode(note); err != nil {
			return count, err
		}
		count++
	}
	return count, nil
}

// replace writes a file beside the old one and puts it in its place once it is whole and on the disk. What a killed run left
// half-written is removed.
func replace(path string, write func(io.Writer) error) (err error) {
	folder, part := filepath.Dir(path), "."+filepath.Base(path)+".part-"
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), part) {
			_ = os.Remove(filepath.Join(folder, entry.Name()))
		}
	}
	file, err := os.CreateTemp(folder, part+"*") // readable to this user alone
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
