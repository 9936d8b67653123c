package command

import (
	"context"
	"errors"
	"time"

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

Without a terminal, --yes says which version you have read, by its updated_at: "clinicaldoc notes show ID --jq .updated_at".`,
		Example:           "  clinicaldoc notes sign 42\n  clinicaldoc notes sign 42 --yes=2026-03-01T09:00:00Z",
		ValidArgsFunction: e.completeNotes,
		RunE:              withID("note", &o.id, o.run),
	}
	c.Flags().StringVar(&o.yes, "yes", "", "sign without asking the version last changed at this `TIME`")
	return c
}

func (o *signOptions) run(ctx context.Context) error {
	var read time.Time
	if o.yes != "" {
		var err error
		if read, err = time.Parse(time.RFC3339Nano, o.yes); err != nil {
			return usagef("--yes wants the note's updated_at, such as 2026-03-01T09:00:00Z")
		}
	} else if !o.IO.CanAsk() {
		return usagef("there is no terminal to ask on: add --yes=TIME, the updated_at of the version you have read with \"notes show\"")
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
	case note.UpdatedAt.IsZero():
		return refusedf("the service does not tell when note %d was changed, so that --yes says nothing: sign it on a terminal", o.id)
	case !note.UpdatedAt.Equal(read):
		// The right time is not told: it would be pasted unread.
		return &refusedError{"the note was changed at another time than --yes says: nothing was signed", "read it again with \"clinicaldoc notes show ID\""}
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
