package command

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/account"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/report"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

func newUploadStatus(e *Env) *cobra.Command {
	o := &uploadStatusOptions{Env: e}
	c := &cobra.Command{
		Use: "status", Short: "Show what the journals contain", Args: noArgs,
		Long: `Show what the journals on this machine contain, also while uploads run. The service is not contacted.
JSON lists the unresolved and the failed recordings. For a fleet, use "clinicaldoc fleet status".

--deletable asks the service which files of this user's earlier uploads may be deleted, and when the service deletes its
copies. A file may be deleted if it is still the recording that was uploaded, and if its note exists and is complete. If
several notes are to be made of it, all of them must be complete. The files are those in the newest 200 reports of
uploads. Uploads of other users, and to other services, are not considered. The command deletes nothing. A file that
may be deleted may be the last copy: check whether the service's copy has expired.`,
		Example: `  clinicaldoc upload status
  clinicaldoc upload status --jq '.[].to_resolve[].key'
  clinicaldoc upload status --deletable --within 72h
  clinicaldoc upload status --deletable --reveal --jq '.[] | select(.deletable) | .file'`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(c); err != nil {
				return err
			}
			if o.deletable {
				return o.tellDeletable(c.Context())
			}
			return e.journalStatus(c.Context(), o.journal, &o.format)
		},
	}
	o.flags(c, journalStatus{}, keptFile{})
	c.Flags().StringVar(&o.journal, "journal", "", "only the journal in this `FILE`")
	o.deletableFlags(c)
	return c
}

// journalStatus tells what the journals know; they can be in use meanwhile.
func (e *Env) journalStatus(ctx context.Context, journal string, f *format) error {
	paths := []string{journal}
	if journal == "" {
		folder, err := account.StateFolder("journals")
		if err != nil {
			return err
		}
		if paths, err = journalsIn(folder); err != nil {
			return err
		}
	}
	list := []journalStatus{}
	for _, path := range paths {
		s, err := readStatus(ctx, path)
		if errors.Is(err, fs.ErrNotExist) {
			return refusedf("there is no such journal")
		}
		if err != nil {
			return err
		}
		list = append(list, s)
	}
	return e.print(ctx, f, list, func() error {
		var rows [][]string
		for _, s := range list {
			row := []string{s.Service}
			for _, count := range []int{
				s.Created, s.Complete, s.Processing, s.Failed, s.Refused, s.Unresolved, s.Underway,
			} {
				row = append(row, strconv.Itoa(count))
			}
			rows = append(rows, append(row, s.Journal))
		}
		titles := []string{
			"SERVICE", "CREATED", "COMPLETE", "PROCESSING", "FAILED", "REFUSED", "UNRESOLVED", "UNDER WAY", "JOURNAL",
		}
		return e.IO.Table(titles, rows)
	})
}

// readStatus returns the status of a journal's file. The status contains what could be read, also if there is an error.
func readStatus(ctx context.Context, path string) (journalStatus, error) {
	owner, entries, err := ingest.ReadJournal(ctx, path)
	s := journalStatus{Journal: path, Service: owner.Service, ToResolve: []journalItem{}, Failures: []journalItem{}}
	for _, e := range entries {
		switch e.State {
		case ingest.StateCreated:
			s.addNote(e)
		case ingest.StateRefused:
			s.Refused++
		case ingest.StateClaimed:
			s.Underway++
		case ingest.StateCommitting, ingest.StateInDoubt:
			if e.State == ingest.StateInDoubt {
				s.Unresolved++
			} else {
				s.Underway++
			}
			s.ToResolve = append(s.ToResolve, itemOf(e))
		}
	}
	slices.SortFunc(s.ToResolve, func(a, b journalItem) int {
		return cmp.Or(a.SentAt.Compare(b.SentAt), cmp.Compare(a.Key, b.Key))
	})
	return s, err
}

// addNote counts a recording that has a note.
func (s *journalStatus) addNote(e ingest.Entry) {
	s.Created++
	if len(e.Replaced) > 0 {
		s.SentAgain++
	}
	switch {
	case e.Stage == clinicaldoc.StageFailed:
		s.Failed++
		failure := itemOf(e)
		failure.State = report.Failed
		failure.NoteID = e.NoteID
		s.Failures = append(s.Failures, failure)
	case e.Stage.AtLeast(clinicaldoc.StageComplete):
		s.Complete++
	case e.Stage != 0:
		s.Processing++
	}
}

// itemOf returns what the status shows of an entry. The key is shortened, and a text of the libraries is put into this
// command's words.
func itemOf(e ingest.Entry) journalItem {
	state := e.State.String()
	if e.State == ingest.StateInDoubt {
		state = report.Unresolved
	}
	return journalItem{
		Key: e.Key.String()[:keyDigits], State: state, SentAt: e.SentAt.UTC(), Until: e.Until, Why: ownWords(e.Why),
		Candidates: e.Candidates(),
	}
}

func newUploadSalvage(e *Env) *cobra.Command {
	o := &uploadOptions{Env: e}
	c := &cobra.Command{
		Use: "salvage", Short: "Make a damaged journal usable again", Args: noArgs,
		Long: `Make a damaged journal usable again. Every complete line is kept. For the other recordings, the next
uploads search the patient's notes before they send anything. The damaged file is kept in the same folder.`,
		Example: "  clinicaldoc upload salvage",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx := c.Context()
			client, err := o.client()
			if err != nil {
				return err
			}
			owner, err := ingest.OwnerOf(ctx, client)
			if err != nil {
				return err
			}
			if err := o.findJournal(ctx, client.BaseURL(), owner.UserID); err != nil {
				return err
			}
			lost, err := ingest.SalvageJournal(ctx, o.journal, owner)
			if err != nil {
				return err
			}
			return o.outf("%s lost\n", output.Count(lost, "line was", "lines were"))
		},
	}
	c.Flags().StringVar(&o.journal, "journal", "", "the journal's `FILE` (default that of the service and user)")
	return c
}

func newUploadRename(e *Env) *cobra.Command {
	o := &uploadOptions{Env: e}
	var from string
	c := &cobra.Command{
		Use: "rename FILE", Short: "Use a journal with another address of its service",
		Args: exactly(1, "the journal's file; \"clinicaldoc upload status\" lists them"),
		Long: `Use a journal with the address that its service has now. Up to twenty of its notes are read there. If
they do not belong to the patients in the journal, it is another service, and the journal is not changed. Otherwise it
becomes the journal of this service and user.`,
		Example: "  clinicaldoc upload rename ~/.local/state/clinicaldoc/journals/0a1b2c3d4e5f-user1.journal",
		RunE: func(c *cobra.Command, args []string) error {
			from = args[0]
			return o.rename(c.Context(), from)
		},
	}
	return c
}

func (o *uploadOptions) rename(ctx context.Context, from string) error {
	client, user, err := o.me(ctx)
	if err != nil {
		return err
	}
	if err := o.findJournal(ctx, client.BaseURL(), user.ID); err != nil {
		return err
	}
	to := o.journal
	if _, err := os.Lstat(to); err == nil && to != from {
		return refusedf("this service and user have a journal already, %s: nothing was changed", to)
	}
	journal, err := ingest.OpenJournal(ctx, from)
	if err != nil {
		return err
	}
	if err := journal.Rename(ctx, client); err != nil {
		return errors.Join(err, journal.Close())
	}
	if err := journal.Close(); err != nil {
		return err
	}
	if filepath.Dir(from) == filepath.Dir(to) {
		if err := os.Rename(from, to); err != nil {
			return err
		}
		from = to
	}
	return o.outf("%s\n", from)
}
