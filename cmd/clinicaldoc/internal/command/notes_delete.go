package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

type deleteOptions struct {
	*Env
	id  int64
	yes string
}

func newNotesDelete(e *Env) *cobra.Command {
	o := &deleteOptions{Env: e}
	c := &cobra.Command{
		Use: "delete ID", Short: "Delete a note and its recording", Args: exactly(1, "a note's id"),
		Long: "Delete a note and its recording, after asking. Without a terminal, repeat the id with " +
			"--yes.",
		Example:           "  clinicaldoc notes delete 42\n  clinicaldoc notes delete 42 --yes=42",
		ValidArgsFunction: e.completeNotes,
		RunE:              withID("note", &o.id, o.run),
	}
	c.Flags().StringVar(&o.yes, "yes", "", "delete without asking; repeat the note's `ID`")
	return c
}

func (o *deleteOptions) run(ctx context.Context) error {
	if err := o.checkYes(o.yes, o.id); err != nil {
		return err
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	var options []clinicaldoc.CallOption
	if o.yes == "" {
		note, err := client.Notes.Get(ctx, o.id)
		if err != nil {
			return err
		}
		question := fmt.Sprintf(
			"Note %d, %s, created %s. Delete it and its recording?", note.ID, note.Stage(), o.IO.Time(note.CreatedAt),
		)
		if ok, err := o.IO.Ask(ctx, question); err != nil || !ok {
			return orDeclined(err)
		}
		options = append(options, clinicaldoc.IfUnchanged(note))
	}
	if _, err := client.Notes.Delete(ctx, o.id, options...); err != nil {
		return err
	}
	return o.outf("%d\tdeleted\n", o.id)
}
