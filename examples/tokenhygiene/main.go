// Tokenhygiene lists access tokens, finds those long unused and, with -revoke, revokes them; never the one in use. At a
// service that CLINICALDOC_BASE_URL names, -revoke asks for -yes too.
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
	"slices"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func main() {
	unused := flag.Duration("unused", 90*24*time.Hour, "how long a token must have been unused")
	revoke := flag.Bool("revoke", false, "revoke them; without it they are only listed")
	yes := flag.Bool("yes", false, "revoke at the service of CLINICALDOC_BASE_URL")
	flag.Parse()
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, time.Now().Add(-*unused), *revoke, *yes, os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, before time.Time, revoke, yes bool, out io.Writer) error {
	if os.Getenv(clinicaldoc.EnvBaseURL) == "" {
		srv := clinicaldoctest.NewServer()
		defer srv.Close()
		_, _ = fmt.Fprintf(out, "no %s set: using the service in a box at %s\n", clinicaldoc.EnvBaseURL, srv.URL)
		return tidy(ctx, srv.Client(), before, revoke, out)
	}
	client, err := clinicaldoc.NewClientFromEnv()
	if err != nil {
		return err
	}
	if revoke && !yes {
		return fmt.Errorf("this revokes access tokens at %s: start it with -yes to allow that", client.BaseURL())
	}
	return tidy(ctx, client, before, revoke, out)
}

// tidy lists the tokens and revokes those that were not used since before.
func tidy(ctx context.Context, client *clinicaldoc.Client, before time.Time, revoke bool, out io.Writer) error {
	tokens, err := client.Tokens.List(ctx)
	if err != nil {
		return err
	}
	// Listing them used one of them just now. If the service recorded that, the one in use is not among the unused.
	if !slices.ContainsFunc(tokens, func(t clinicaldoc.Token) bool { return t.LastUsedAt.After(before) }) {
		return errors.New("the service does not tell when tokens were used, so the one in use cannot be told from the others: nothing revoked")
	}
	for _, token := range tokens {
		lastSign := token.LastUsedAt
		if lastSign.IsZero() {
			lastSign = token.CreatedAt
		}
		switch {
		case lastSign.IsZero() || lastSign.After(before):
			_, _ = fmt.Fprintf(out, "token %d: used or made recently, kept\n", token.ID)
		case !revoke:
			_, _ = fmt.Fprintf(out, "token %d: unused since %s, would be revoked\n", token.ID, lastSign.Format(time.DateOnly))
		default:
			if _, err := client.Tokens.Revoke(ctx, token.ID); err != nil {
				return err
			}
			_, _ = fmt.Fprintf(out, "token %d: unused since %s, revoked\n", token.ID, lastSign.Format(time.DateOnly))
		}
	}
	return nil
}
