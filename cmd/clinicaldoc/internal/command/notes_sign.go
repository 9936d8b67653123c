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
		Long: `Show a note and sign it if you say so. What was shown is what is signed: a note that somebody changes meanwhile is not.

Without a terminal, --yes says which version you have read, as "clinicaldoc notes show ID --jq .version" tells it.`,
		Example:           "  clinicaldoc notes sign 42\n  clinicaldoc notes sign 42 --yes=q1IqLkktLlGyUsooKSmw",
		ValidArgsFunction: e.completeNotes,
		RunE:              withID("note", &o.id, o.run),
	}
	c.Flags().StringVar(&o.yes, "yes", "", "sign without asking this `VERSION` of the note")
	return c
}

func (o *signOptions) run(ctx context.Context) error {
	switch {
	case o.yes == "" && !o.IO.CanAsk():
		return usagef("there is no terminal to ask on: add --yes=VERSION, that of the note as you have read it with \"notes show\"")
	case o.yes != "" && (len(o.yes) != len(clinicaldoc.ProgressNote{}.Version()) || strings.Contains(o.yes, ":")):
		// Not its updated_at: two changes within one second have the same.
		return usagef("--yes wants the version of the note as you have read it: \"clinicaldoc notes show ID\" tells it")
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	note, err := client.Notes.Get(ctx, o.id)
	if err != nil {
		return err
	}
	switch {
	case o.yes == "":
		if _, err := o.IO.Err.Write([]byte(output.Harmless(noteText(note)) + "\n")); err != nil {
			return err
		}
		if ok, err := o.IO.Ask(ctx, "Sign this note?"); err != nil || !ok {
			return orDeclined(err)
		}
	case o.yes != note.Version():
		// The right one is not told: it would be pasted unread.
		return &refusedError{"the note is not as it was in the version that --yes names: nothing was signed", "read it again with \"clinicaldoc notes show ID\""}
	}
	signed, err := client.Notes.Sign(ctx, o.id, clinicaldoc.IfUnchanged(note))
	if errors.Is(err, clinicaldoc.ErrNoteIncomplete) && note.Stage() == clinicaldoc.StageFailed {
		return &refusedError{"the service failed to process this note, so that it cannot be signed", `"clinicaldoc notes show ID" says what it reports; the recording can be uploaded anew`}
	}
	if err != nil {
		return err
	}
	return o.outf("%d\t%s\n", signed.ID, signed.Stage())
}
