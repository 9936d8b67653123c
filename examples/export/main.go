// Export writes all notes as JSON lines, requesting pages ahead while it writes.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/examples/internal/demo"
)

func main() {
	path := flag.String("o", "notes.jsonl", "file to write; it holds patients' data")
	flag.Parse()
	demo.Main(func(ctx context.Context, out io.Writer) error {
		client, stop, err := demo.Connect(out)
		if err != nil {
			return err
		}
		defer stop()
		count, err := export(ctx, client, *path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "wrote %d notes to %s\n", count, *path)
		return err
	})
}

// export writes the file in full or reports an error; a line is one note as the service gave it.
func export(ctx context.Context, client *clinicaldoc.Client, path string) (count int, err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	buffered := bufio.NewWriter(file)
	lines := json.NewEncoder(buffered)
	for note, err := range client.Notes.All(ctx, clinicaldoc.ListNotesParams{PerPage: 100, Sort: clinicaldoc.SortOldest, Prefetch: 2}) {
		if err != nil {
			return count, err
		}
		if err := lines.Encode(note); err != nil {
			return count, err
		}
		count++
	}
	return count, buffered.Flush()
}
