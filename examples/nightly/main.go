// Nightly uploads the recordings of a manifest, each to one note, however often it is started and whatever ends it. Begin its
// journal once, by hand, with -begin; then let cron start it. It ends with 1 when a person has to look at something.
//
// The service is that of CLINICALDOC_BASE_URL and CLINICALDOC_TOKEN; uploading there asks for -yes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

func main() {
	manifest := flag.String("manifest", "tonight.csv", "the recordings: key,patient,prompt,name,path in each line")
	path := flag.String("journal", "uploads.journal", "what is known of all nights; on a local disk, and always the same")
	begin := flag.Bool("begin", false, "begin the journal: the first time, and never again")
	yes := flag.Bool("yes", false, "upload to the service of CLINICALDOC_BASE_URL")
	flag.Parse()
	log.SetFlags(0)
	client, err := clinicaldoc.NewClientFromEnv()
	if err != nil {
		log.Fatal(err)
	}
	if !*yes {
		log.Fatalf("this uploads recordings to %s: start it with -yes to allow that", client.BaseURL())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if err := run(ctx, client, *manifest, *path, *begin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, client *clinicaldoc.Client, manifest, path string, begin bool, out io.Writer) error {
	recordings, err := ingest.ReadManifest(manifest)
	if err != nil {
		return err // names what is wrong by line; nothing was uploaded
	}
	journal, err := openJournal(ctx, client, path, begin)
	if err != nil {
		return err
	}
	defer func() { _ = journal.Close() }()
	uploader := &ingest.Uploader{Client: client, Journal: journal, Total: len(recordings), Until: clinicaldoc.StageComplete}
	uploader.OnEvent = func(e ingest.Event) {
		if e.Pause != nil && e.Pause.Why != nil {
			_, _ = fmt.Fprintf(out, "everything fails, next try %s: %v\n", e.Pause.Next.Format(time.TimeOnly), e.Pause.Why)
		}
	}
	numbers := map[string]int{} // keys and files may be named after patients: a recording is known here by its place
	for i, recording := range recordings {
		numbers[recording.File] = i + 1
	}
	done := 0
	open := 0 // also of earlier nights
	for result, err := range uploader.Run(ctx, ingest.Recordings(recordings...)) {
		if err != nil {
			return err
		}
		name := fmt.Sprint("recording ", numbers[result.Recording.File])
		if result.Earlier {
			name = "a recording of an earlier night"
		}
		if result.Status != ingest.Complete {
			open++
			_, _ = fmt.Fprintf(out, "%s: %s (%s): %v\n", name, result.Status, result.JournalKey, result.Err)
			continue
		}
		if !result.Earlier {
			done++
		}
		_, _ = fmt.Fprintf(out, "%s: %s, note %d\n", name, result.Status, result.NoteID)
	}
	_, _ = fmt.Fprintf(out, "%d of %d recordings have complete notes\n", done, len(recordings))
	if open > 0 {
		return errors.New("the next run continues; a person decides what stays unresolved, and what the service could not process")
	}
	return nil
}

// openJournal opens the journal, or begins it: once, by a person's decision.
func openJournal(ctx context.Context, client *clinicaldoc.Client, path string, begin bool) (*ingest.FileJournal, error) {
	if !begin {
		journal, err := ingest.OpenJournal(ctx, path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: start this program once with -begin", err)
		}
		return journal, err
	}
	owner, err := ingest.OwnerOf(ctx, client)
	if err != nil {
		return nil, err
	}
	return ingest.BeginJournal(ctx, path, owner)
}
