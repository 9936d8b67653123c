package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/account"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/report"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// uploadStatusOptions are those of "upload status".
type uploadStatusOptions struct {
	*Env
	format
	journalPlace
	deletable bool
	within    time.Duration
	reveal    bool
}

// keptFile is what is printed of a recording that is on this machine.
type keptFile struct {
	Key       string    `json:"key"`
	Deletable bool      `json:"deletable"`
	NoteID    int64     `json:"note_id,omitempty"`
	Stage     string    `json:"stage,omitempty"`     // of the note
	Expiry    string    `json:"expiry"`              // of the service's copy: unknown, later, soon or expired
	ExpiresAt time.Time `json:"expires_at,omitzero"` // of the service's copy
	Why       string    `json:"why_not,omitempty"`   // it cannot be deleted
	File      string    `json:"file,omitempty"`
}

// defaultWithin is for --within.
const defaultWithin = 7 * 24 * time.Hour

func (o *uploadStatusOptions) deletableFlags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&o.deletable, "deletable", false,
		"show which files of earlier uploads may be deleted, and when the service deletes its copies")
	f.DurationVar(
		&o.within, "within", defaultWithin,
		"with --deletable: copies at the service that expire within this `TIME` count as expiring soon",
	)
	f.BoolVar(&o.reveal, "reveal", false, "with --deletable: show the files' names")
}

// check rejects flags that say nothing.
func (o *uploadStatusOptions) check(c *cobra.Command) error {
	isGiven := c.Flags().Changed("within") || c.Flags().Changed("reveal")
	switch {
	case isGiven && !o.deletable:
		return usagef("--within and --reveal need --deletable")
	case o.within < 0:
		return usagef("--within must not be negative")
	}
	return checkRegular("--journal", o.journal)
}

// tellDeletable tells which files of earlier uploads may be deleted.
func (o *uploadStatusOptions) tellDeletable(ctx context.Context) error {
	client, user, err := o.me(ctx)
	if err != nil {
		return err
	}
	if err := o.findJournal(ctx, client.BaseURL(), user.ID); err != nil {
		return err
	}
	recordings, err := reportedFiles(ingest.ServiceName(client.BaseURL()), user.ID)
	if err != nil {
		return err
	}
	statuses, err := output.Await(ctx, func() ([]ingest.RetentionStatus, error) {
		return o.checkRetention(ctx, client, recordings)
	})
	if err != nil {
		return err
	}
	list := make([]keptFile, len(statuses))
	for i := range statuses {
		list[i] = o.keptFile(&statuses[i])
	}
	if err := o.print(ctx, &o.format, list, func() error { return o.table(list) }); err != nil {
		return err
	}
	o.sum(list)
	return nil
}

func (o *uploadStatusOptions) checkRetention(
	ctx context.Context, client *clinicaldoc.Client, recordings []ingest.Recording,
) ([]ingest.RetentionStatus, error) {
	journal, err := ingest.OpenReadOnlyJournal(ctx, o.journal)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refusedf("there is no journal of this user's uploads to this service in %s", o.journal)
	}
	if err != nil {
		return nil, err
	}
	retention := &ingest.Retention{Client: client, Journal: journal, Within: o.within}
	return retention.Check(ctx, recordings)
}

// reportedFiles are the recordings of all reports about a user's uploads whose files are still there. Whatever an
// upload was to make of a file counts, also if it did not come to that.
func reportedFiles(service string, userID int64) ([]ingest.Recording, error) {
	folder, err := account.StateFolder("reports")
	if err != nil {
		return nil, err
	}
	runs, err := report.List(folder, "all")
	if err != nil {
		return nil, err
	}
	type want struct {
		file, key, name string
		patient         int64
	}
	var list []ingest.Recording
	seen := map[want]bool{}
	for _, run := range runs {
		elsewhere := run.Service != "" && run.Service != service || run.UserID != 0 && run.UserID != userID
		if elsewhere {
			continue
		}
		for _, r := range slices.Concat(run.Recordings, run.Unfinished) {
			w := want{r.File, r.OwnKey, r.Name, r.Patient}
			if seen[w] || !isThere(r.File) {
				continue
			}
			seen[w] = true
			list = append(list, recordingOf(&r))
		}
	}
	return list, nil
}

// isThere reports whether a file can be deleted, as far as that can be known.
func isThere(path string) bool {
	_, err := os.Lstat(path)
	return path != "" && !errors.Is(err, fs.ErrNotExist)
}

func (o *uploadStatusOptions) keptFile(s *ingest.RetentionStatus) keptFile {
	line := keptFile{
		Key: keyOf(&ingest.Result{JournalKey: s.JournalKey, Recording: s.Recording}), Deletable: s.Deletable,
		NoteID: s.NoteID, Expiry: s.Expiry.String(), ExpiresAt: s.ExpiresAt,
	}
	if s.Stage != 0 {
		line.Stage = s.Stage.String()
	}
	if s.Err != nil {
		line.Why = errorText(s.Err)
	}
	if o.reveal {
		line.File = s.Recording.File
	}
	return line
}

func (o *uploadStatusOptions) table(list []keptFile) error {
	titles := []string{"KEY", "DELETABLE", "NOTE", "STAGE", "EXPIRY", "EXPIRES", "WHY NOT"}
	if o.reveal {
		titles = append(titles, "FILE")
	}
	var rows [][]string
	for _, line := range list {
		row := []string{line.Key, "no", "-", "-", line.Expiry, "-", line.Why}
		if line.Deletable {
			row[1] = "yes"
		}
		if line.NoteID != 0 {
			row[2] = strconv.FormatInt(line.NoteID, 10)
		}
		if line.Stage != "" {
			row[3] = line.Stage
		}
		if !line.ExpiresAt.IsZero() {
			row[5] = o.IO.Time(line.ExpiresAt)
		}
		if o.reveal {
			row = append(row, output.Cell(line.File))
		}
		rows = append(rows, row)
	}
	return o.IO.Table(titles, rows)
}

// sum says in one line what was found.
func (o *uploadStatusOptions) sum(list []keptFile) {
	deletable := 0
	soon := 0
	expired := 0
	for _, line := range list {
		if line.Deletable {
			deletable++
		}
		switch line.Expiry {
		case ingest.ExpiresSoon.String():
			soon++
		case ingest.Expired.String():
			expired++
		}
	}
	text := fmt.Sprintf("%s of earlier uploads: %d may be deleted", output.Count(len(list), "file", "files"), deletable)
	if soon+expired > 0 {
		text += fmt.Sprintf("; of the service's copies %d expire within %s, %d have expired", soon, o.within, expired)
	}
	o.IO.Note("%s; nothing was deleted", text)
}
