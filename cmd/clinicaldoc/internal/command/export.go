package command

import (
	"context"
	"errors"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/progress"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/fileheader"
)

type exportOptions struct {
	*Env
	path    string
	patient int64
	workers int
	trust   bool
}

func newExport(e *Env) *cobra.Command {
	o := &exportOptions{Env: e}
	c := &cobra.Command{
		Use: "export FILE", Short: "Write all notes to a file, as JSON lines",
		Args: exactly(1, "a file to write; - is standard output"),
		Long: `Write all notes with their texts to a file that only you can read, one JSON object per line, oldest
first, without signed URLs. The file appears when it is complete, and replaces an existing one. The list is read until
nothing new appears. Every note is also read separately, because lists may shorten texts.

After an interruption, the same command continues. Notes with an unchanged updated_at are not read again, unless they
were changed less than two days before they were read. The incomplete export is kept in a hidden file in the same
folder. The export also fails, and continues later, if the service does not find a note that it lists, or returns it
only in an older version.`,
		Example: "  clinicaldoc export notes.jsonl\n  clinicaldoc export --patient 7 - | jq -r .name",
		RunE: func(c *cobra.Command, args []string) error {
			o.path = args[0]
			return o.run(c.Context())
		},
	}
	c.Flags().Int64Var(&o.patient, "patient", 0, "only notes of the patient with this `ID`; every row is checked")
	c.Flags().IntVar(&o.workers, "workers", 4, "read this `NUMBER` of notes at a time")
	c.Flags().BoolVar(
		&o.trust, "trust-patient-filter", false, "with --patient: accept rows and notes without a patient",
	)
	return c
}

func (o *exportOptions) run(ctx context.Context) error {
	if o.workers < 1 || o.workers > 64 || o.patient < 0 {
		return usagef("--workers must be 1 to 64, and --patient must not be negative")
	}
	if err := o.checkTarget(o.path); err != nil {
		return err
	}
	client, user, err := o.me(ctx)
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGPIPE)
	part, err := openPart(o.path, fileheader.Header{
		Kind: partKind, Version: 1, Service: exchange.Service(client.BaseURL()), UserID: user.ID,
	})
	if err != nil {
		return err
	}
	defer part.close()
	show := progress.New(o.IO)
	defer show.Close()
	o.showAbove(show)
	rows, gone, err := o.readAll(ctx, client, part, show)
	if err != nil {
		return err
	}
	show.Close()
	written, err := part.finish(rows, o.IO.Out)
	if err != nil {
		return err
	}
	o.IO.Note("%s", output.Count(written, "note", "notes"))
	if gone > 0 {
		o.IO.Note("%s deleted during the export", output.Count(gone, "more was", "more were"))
	}
	return nil
}

// errBehind means that the part does not hold each note as the latest list shows it.
var errBehind = &runError{
	codeUnreachable, "the service lists notes that it does not find, or returns only in an older version",
	"run the same command again later; it continues",
}

// relistPauses are the pauses before notes are listed again.
var relistPauses = []time.Duration{time.Second, 2 * time.Second}

// readAll lists the notes and reads each of them. It returns the rows of the latest list, and how many of the first one
// are gone. A service may read lists and notes from different copies of its data, of which one lags. So a listed note
// that is not found is gone only if a later list lacks it, and an older version is read again.
func (o *exportOptions) readAll(
	ctx context.Context, client *clinicaldoc.Client, part *exportPart, show progress.Reporter,
) (rows []exportRow, gone int, err error) {
	first, err := o.list(ctx, client)
	if err != nil {
		return nil, 0, err
	}
	if err := o.read(ctx, client, part, first, show); err != nil {
		return nil, 0, err
	}
	rows = first
	for _, pause := range relistPauses {
		if len(part.behind(rows)) == 0 {
			break
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, 0, context.Cause(ctx)
		}
		if rows, err = o.list(ctx, client); err != nil {
			return nil, 0, err
		}
		if err := o.read(ctx, client, part, part.behind(rows), show); err != nil {
			return nil, 0, err
		}
	}
	if len(part.behind(rows)) > 0 {
		return nil, 0, errBehind
	}
	return rows, missing(first, rows), nil
}

// missing counts the rows of the first list whose notes are not in the second.
func missing(first, second []exportRow) (count int) {
	listed := map[int64]bool{}
	for _, row := range second {
		listed[row.id] = true
	}
	for _, row := range first {
		if !listed[row.id] {
			count++
		}
	}
	return count
}

// exportRow is what the list tells of a note.
type exportRow struct {
	id        int64
	updatedAt time.Time
}

func (o *exportOptions) list(ctx context.Context, client *clinicaldoc.Client) ([]exportRow, error) {
	var rows []exportRow
	params := clinicaldoc.ListNotesParams{
		PatientID: o.patient, Sort: clinicaldoc.SortOldest, PerPage: 100, Prefetch: 2, Verify: true,
		TrustPatientFilter: o.trust,
	}
	for note, err := range client.Notes.All(ctx, params) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, exportRow{note.ID, note.UpdatedAt})
	}
	return rows, nil
}

// read reads every note that the part does not hold, a few at a time. The first error ends it; what was read stays.
func (o *exportOptions) read(
	ctx context.Context, client *clinicaldoc.Client, part *exportPart, rows []exportRow, show progress.Reporter,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan exportRow)
	var workers sync.WaitGroup
	for range o.workers {
		workers.Go(func() {
			for row := range queue {
				if err := o.readOne(ctx, client, part, row); err != nil {
					cancel(err)
				}
			}
		})
	}
	done := 0
	for _, row := range rows {
		done++
		if part.has(row) {
			continue
		}
		select {
		case queue <- row:
			show.Total(exportText(done, len(rows)))
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
	}
	close(queue)
	workers.Wait()
	return context.Cause(ctx)
}

func (o *exportOptions) readOne(
	ctx context.Context, client *clinicaldoc.Client, part *exportPart, row exportRow,
) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // whoever ended it has said why
	}
	readAt := time.Now()
	note, err := client.Notes.Get(ctx, row.id)
	switch {
	case errors.Is(err, clinicaldoc.ErrNotFound):
		return nil // deleted since it was listed, or not there yet; readAll finds out
	case err != nil:
		return err
	}
	if id, named := note.PatientID(); o.patient != 0 && id != o.patient && (named || !o.trust) {
		return clinicaldoc.ErrPatientMismatch
	}
	return part.add(note, readAt)
}
