// Errorhandling provokes the errors a program meets and shows how to tell them apart. One of them takes a note without
// anything, so that a service that CLINICALDOC_BASE_URL names is asked only with -yes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func main() {
	yes := flag.Bool("yes", false, "try to create an empty note at the service of CLINICALDOC_BASE_URL")
	flag.Parse()
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *yes, os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, yes bool, out io.Writer) error {
	if os.Getenv(clinicaldoc.EnvBaseURL) == "" {
		srv := clinicaldoctest.NewServer()
		defer srv.Close()
		_, _ = fmt.Fprintf(out, "no %s set: using the service in a box at %s\n", clinicaldoc.EnvBaseURL, srv.URL)
		provoke(ctx, srv.Client(), out)
		return nil
	}
	client, err := clinicaldoc.NewClientFromEnv()
	if err != nil {
		return err
	}
	if !yes {
		return fmt.Errorf("this tries to create an empty note at %s, which may accept it: start it with -yes to allow that", client.BaseURL())
	}
	provoke(ctx, client, out)
	return nil
}

func provoke(ctx context.Context, client *clinicaldoc.Client, out io.Writer) {
	_, err := client.Notes.Get(ctx, 0)
	explain(out, "a wrong id", err)

	_, err = client.Notes.Get(ctx, 987654321)
	explain(out, "a note that does not exist", err)

	_, err = client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{})
	explain(out, "a note without anything", err)

	late, cancel := context.WithDeadline(ctx, time.Now())
	defer cancel()
	_, err = client.Users.Me(late)
	explain(out, "a deadline that has passed", err)
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
