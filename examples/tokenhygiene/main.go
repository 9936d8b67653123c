// Tokenhygiene lists access tokens, finds those long unused and, with -revoke, revokes them; never the one in use.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/examples/internal/demo"
)

func main() {
	unused := flag.Duration("unused", 90*24*time.Hour, "how long a token must have been unused")
	revoke := flag.Bool("revoke", false, "revoke them; without it they are only listed")
	flag.Parse()
	demo.Main(func(ctx context.Context, out io.Writer) error {
		client, stop, err := demo.Connect(out)
		if err != nil {
			return err
		}
		defer stop()
		return tidy(ctx, client, time.Now().Add(-*unused), *revoke, out)
	})
}

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
