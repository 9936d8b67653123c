// Uploadfolder uploads every recording of a folder, a few at a time, and keeps a journal beside them: interrupted and
// started again, it uploads nothing twice.
//
// Without CLINICALDOC_BASE_URL it is a rehearsal: it runs against the service in a box and leaves no journal. To upload to
// the service that the variable names, it asks for -yes.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

type settings struct {
	folder, journal string
	files           []string
	patient, prompt int64
	yes, begin      bool
}

func main() {
	var s settings
	flag.StringVar(&s.folder, "folder", ".", "folder with .wav recordings")
	flag.Int64Var(&s.patient, "patient", 1, "id of the patient they belong to")
	flag.Int64Var(&s.prompt, "prompt", 1, "id of the prompt to use")
	flag.BoolVar(&s.yes, "yes", false, "upload to the service of CLINICALDOC_BASE_URL")
	flag.BoolVar(&s.begin, "begin", false, "begin the folder's journal: the first time, and never again")
	flag.Parse()
	s.journal = filepath.Join(s.folder, "uploads.journal")
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, s, os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, s settings, out io.Writer) (err error) {
	if s.files, err = filepath.Glob(filepath.Join(s.folder, "*.wav")); err != nil {
		return err
	}
	if len(s.files) == 0 {
		return errors.New("the folder holds no .wav recordings")
	}
	if os.Getenv(clinicaldoc.EnvBaseURL) == "" {
		return rehearse(ctx, s, out)
	}
	client, err := clinicaldoc.NewClientFromEnv()
	if err != nil {
		return err
	}
	if !s.yes {
		return fmt.Errorf("this uploads the recordings of a folder as notes of patient %d to %s: start it with -yes to allow that", s.patient, client.BaseURL())
	}
	return upload(ctx, client, s, out)
}

// rehearse keeps the journal elsewhere: what it says is true of the box alone.
func rehearse(ctx context.Context, s settings, out io.Writer) error {
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	_, _ = fmt.Fprintf(out, "no %s set: rehearsing with the service in a box at %s\n", clinicaldoc.EnvBaseURL, srv.URL)
	folder, err := os.MkdirTemp("", "uploadfolder")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	s.journal, s.begin = filepath.Join(folder, "uploads.journal"), true
	return upload(ctx, srv.Client(), s, out)
}

// upload tells what became of each recording: its note, or why there is none. The first reason is its error; the next start
// goes on from there.
func upload(ctx context.Context, client *clinicaldoc.Client, s settings, out io.Writer) error {
	journal, err := openJournal(ctx, client, s)
	if err != nil {
		return err
	}
	defer func() { _ = journal.Close() }()
	uploader := &ingest.Uploader{Client: client, Journal: journal}
	for result, failure := range uploader.Run(ctx, ingest.Files(s.files, s.params)) {
		if failure != nil {
			return failure
		}
		_, _ = fmt.Fprintln(out, result)
		err = cmp.Or(err, result.Err)
	}
	return err
}

// openJournal opens the journal, or begins it: once, by a person's decision.
func openJournal(ctx context.Context, client *clinicaldoc.Client, s settings) (*ingest.FileJournal, error) {
	if !s.begin {
		return ingest.OpenJournal(ctx, s.journal)
	}
	owner, err := ingest.OwnerOf(ctx, client)
	if err != nil {
		return nil, err
	}
	return ingest.BeginJournal(ctx, s.journal, owner)
}

func (s settings) params(path string) clinicaldoc.CreateNoteParams {
	return clinicaldoc.CreateNoteParams{Name: filepath.Base(path), PatientID: s.patient, PromptID: s.prompt}
}
