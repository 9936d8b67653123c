package command

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

func newTokens(e *Env) *cobra.Command {
	c := group(
		"tokens", "List and revoke access tokens",
		"List and revoke your access tokens. The token itself is never shown: the service shows it only once.",
	)
	c.AddCommand(newTokensList(e), newTokensRevoke(e))
	return c
}

func newTokensList(e *Env) *cobra.Command {
	var f format
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List your access tokens",
		Example: "  clinicaldoc tokens list\n" +
			"  clinicaldoc tokens list --jq '.[] | select(.last_used_at == null) | .id'",
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return e.listTokens(c.Context(), &f) },
	}
	f.flags(c, clinicaldoc.Token{})
	return c
}

func (e *Env) listTokens(ctx context.Context, f *format) error {
	client, err := e.client()
	if err != nil {
		return err
	}
	tokens, err := client.Tokens.List(ctx)
	if err != nil {
		return err
	}
	return e.print(ctx, f, tokens, func() error {
		var rows [][]string
		for _, t := range tokens {
			rows = append(rows, []string{
				strconv.FormatInt(t.ID, 10), e.IO.Time(t.CreatedAt), e.IO.Time(t.LastUsedAt), t.Name,
			})
		}
		return e.IO.Table([]string{"ID", "CREATED", "LAST USED", "NAME"}, rows)
	})
}

type revokeOptions struct {
	*Env
	id    int64
	yes   string
	inUse bool
}

func newTokensRevoke(e *Env) *cobra.Command {
	o := &revokeOptions{Env: e}
	c := &cobra.Command{
		Use: "revoke ID", Short: "Revoke an access token", Args: exactly(1, "a token's id"),
		Long: "Revoke an access token, after asking. If it is or may be the token in use, also pass --in-use.",
		Example: "  clinicaldoc tokens revoke 12\n  clinicaldoc tokens revoke 12 --yes=12\n" +
			"  clinicaldoc tokens revoke 12 --yes=12 --in-use",
		RunE: withID("token", &o.id, o.run),
	}
	c.Flags().StringVar(&o.yes, "yes", "", "revoke without asking; repeat the token's `ID`")
	c.Flags().BoolVar(&o.inUse, "in-use", false, "revoke the token even if this command uses it")
	return c
}

func (o *revokeOptions) run(ctx context.Context) error {
	if err := o.checkYes(o.yes, o.id); err != nil {
		return err
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	tokens, err := client.Tokens.List(ctx)
	if err != nil {
		return err
	}
	if o.mayBeInUse(tokens) && !o.inUse {
		return &refusedError{
			"token " + strconv.FormatInt(o.id, 10) + " is, or may be, the one in use",
			"to revoke it anyway, add --in-use; then log in with another token",
		}
	}
	if o.yes == "" {
		if ok, err := o.IO.Ask(ctx, "Revoke token "+strconv.FormatInt(o.id, 10)+"?"); err != nil || !ok {
			return orDeclined(err)
		}
	}
	if _, err := client.Tokens.Revoke(ctx, o.id); err != nil {
		return err
	}
	return o.outf("%d\trevoked\n", o.id)
}

var numberedToken = regexp.MustCompile(`^([1-9][0-9]*)\|`)

// mayBeInUse tells whether the token to revoke may be this command's own. Many services put a token's id before it;
// else the one that was used last is suspect, as listing them was a use.
func (o *revokeOptions) mayBeInUse(tokens []clinicaldoc.Token) bool {
	if a, err := o.account(); err == nil {
		number := numberedToken.FindStringSubmatch(a.Token)
		isOne := func(t clinicaldoc.Token) bool { return len(number) == 2 && number[1] == strconv.FormatInt(t.ID, 10) }
		if slices.ContainsFunc(tokens, isOne) {
			return number[1] == strconv.FormatInt(o.id, 10)
		}
	}
	at := slices.IndexFunc(tokens, func(t clinicaldoc.Token) bool { return t.ID == o.id })
	if at < 0 {
		return false
	}
	own := tokens[at].LastUsedAt
	// Services write this time now and then only.
	return len(tokens) == 1 || !slices.ContainsFunc(tokens, func(t clinicaldoc.Token) bool {
		return t.LastUsedAt.After(own.Add(5 * time.Minute))
	})
}

// checkYes refuses a --yes that names something else, and no --yes where nobody can be asked.
func (e *Env) checkYes(yes string, id int64) error {
	switch {
	case yes == "" && !e.IO.CanAsk():
		return usagef("there is no terminal to ask on: add --yes=ID, with the same id")
	case yes != "" && yes != strconv.FormatInt(id, 10):
		return usagef("the id in --yes differs from the id in the command: repeat the same id")
	}
	return nil
}

func orDeclined(err error) error {
	if err != nil {
		return err
	}
	return errDeclined
}
