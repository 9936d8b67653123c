// Errorhandling provokes the errors a program meets and shows how to tell them apart.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/examples/internal/demo"
)

func main() { demo.Main(run) }

func run(ctx context.Context, out io.Writer) error {
	client, stop, err := demo.Connect(out)
	if err != nil {
		return err
	}
	defer stop()

	_, err = client.Notes.Get(ctx, 0)
	explain(out, "a wrong id", err)

	_, err = client.Notes.Get(ctx, 987654321)
	explain(out, "a note that does not exist", err)

	_, err = client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{})
	explain(out, "a note without anything", err)

	late, cancel := context.WithDeadline(ctx, time.Now())
	defer cancel()
	_, err = client.Users.Me(late)
	explain(out, "a deadline that has passed", err)
	return nil
}

// explain is how a program decides what to do: by kind with errors.Is, by content with errors.As. Printing the error is
// always safe; the service's own words are in its fields and may repeat what was sent.
func explain(out io.Writer, what string, err error) {
	var refused *clinicaldoc.Error
	advice := "give up and report it"
	switch {
	case err == nil:
		advice = "nothing, it worked"
	case errors.Is(err, clinicaldoc.ErrInvalidArgument):
		advice = "fix the program; nothing was sent"
	case errors.Is(err, clinicaldoc.ErrOutcomeUnknown):
		advice = "ask Notes.FindCreated before creating again"
	case errors.Is(err, clinicaldoc.ErrUnauthorized):
		advice = "get a new token"
	case errors.Is(err, clinicaldoc.ErrNotFound):
		advice = "drop the id"
	case errors.Is(err, clinicaldoc.ErrValidation) && errors.As(err, &refused):
		advice = fmt.Sprintf("show the %d field(s) to whoever filled them in", len(refused.Fields))
	case errors.Is(err, clinicaldoc.ErrRateLimited), errors.Is(err, clinicaldoc.ErrServer), errors.Is(err, context.DeadlineExceeded):
		advice = "try again later"
	}
	_, _ = fmt.Fprintf(out, "%s\n  error:  %v\n  advice: %s\n", what, err, advice)
}
