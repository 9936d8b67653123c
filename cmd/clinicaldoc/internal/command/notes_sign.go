package command

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

type signOptions struct {
	*Env
	id  int64
	yes string
}

func newNotesSign(e *Env) *cobra.Command {
	o := &signOptions{Env: e}
	c := &cobra.Command{
		Use: "sign ID", Short: "Sign a note after showing it", Args: exactly(1, "a note's id"),
		Long: `Show a note, ask, and sign it. If somebody changes the note after it was shown, it is not signed.

Without a terminal, pass the version that you read with --yes; "clinicaldoc notes show ID --jq .version" prints it.`,
		Example:           "  clinicaldoc notes sign 42\n  clinicaldoc notes sign 42 --yes=q1IqLkktLlGyUsooKSmw",
		ValidArgsFunction: e.completeNotes,
		RunE:              withID("note", &o.id, o.run),
	}
	c.Flags().StringVar(&o.yes, "yes", "", "sign this `VERSION` of the note without asking")
	return c
}

func (o *signOptions) run(ctx context.Context) error {
	switch {
	case o.yes == "" && !o.IO.CanAsk():
		return usagef(
			"there is no terminal to ask on: add --yes=VERSION with the version that you read with \"notes show\"",
		)
	case o.yes != "" && (len(o.yes) != len(clinicaldoc.ProgressNote{}.Version()) || strings.Contains(o.yes, ":")):
		// Not its updated_at: two changes within one second have the same.
		return usagef("--yes needs the version of the note that you read; \"clinicaldoc notes show ID\" prints it")
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	note, err := client.Notes.Get(ctx, o.id)
	if err != nil {
		return err
	}
	if err := o.confirm(ctx, note); err != nil {
		return err
	}
	signed, err := client.Notes.Sign(ctx, o.id, clinicaldoc.IfUnchanged(note))
	if errors.Is(err, clinicaldoc.ErrNoteIncomplete) && note.Stage() == clinicaldoc.StageFailed {
		return &refusedError{
			"the service could not process this note, so it cannot be signed",
			`"clinicaldoc notes show ID" shows the error; the recording can be uploaded again`,
		}
	}
	if err != nil {
		return err
	}
	return o.outf("%d\t%s\n", signed.ID, signed.Stage())
}

// confirm shows the note and asks, or compares it with the version in --yes.
func (o *signOptions) confirm(ctx context.Context, note *clinicaldoc.ProgressNote) error {
	switch {
	case o.yes == note.Version():
		return nil
	case o.yes != "":
		// The right one is not told: it would be pasted unread.
		return &refusedError{
			"the note is no longer the version in --yes: nothing was signed",
			"read it again with \"clinicaldoc notes show ID\"",
		}
	}
	_, err := o.IO.Err.Write([]byte(output.Harmless(noteText(note)) + "\n"))
	if err != nil {
		return err
	}
	ok, err := o.IO.Ask(ctx, "Sign this note?")
	if err != nil || !ok {
		return orDeclined(err)
	}
	return nil
}
