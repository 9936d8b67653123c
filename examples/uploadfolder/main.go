// Uploadfolder uploads every recording of a folder, a few at a time, and keeps a journal beside them: interrupted and
// started again, it uploads nothing twice.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/examples/internal/demo"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

func main() {
	folder := flag.String("folder", ".", "folder with .wav recordings")
	patient := flag.Int64("patient", 1, "id of the patient they belong to")
	prompt := flag.Int64("prompt", 1, "id of the prompt to use")
	flag.Parse()
	demo.Main(func(ctx context.Context, out io.Writer) error {
		client, stop, err := demo.Connect(out)
		if err != nil {
			return err
		}
		defer stop()
		return run(ctx, out, client, *folder, clinicaldoc.CreateNoteParams{PatientID: *patient, PromptID: *prompt})
	})
}

func run(ctx context.Context, out io.Writer, client *clinicaldoc.Client, folder string, params clinicaldoc.CreateNoteParams) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.wav"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("the folder holds no .wav recordings")
	}
	journal, err := ingest.OpenJournal(ctx, filepath.Join(folder, "uploads.journal"))
	if err != nil {
		return err
	}
	defer func() { _ = journal.Close() }()
	uploader := &ingest.Uploader{Client: client, Journal: journal, Total: len(files)}
	for result, err := range uploader.Run(ctx, ingest.Files(files, func(path string) clinicaldoc.CreateNoteParams {
		params.Name = filepath.Base(path)
		return params
	})) {
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(out, result) // its status, its note, or why there is none
	}
	return nil
}
