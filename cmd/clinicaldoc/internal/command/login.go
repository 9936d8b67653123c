package command

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/account"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

type loginOptions struct {
	*Env
	baseURL  string
	query    string
	insecure bool
}

func newLogin(e *Env) *cobra.Command {
	o := &loginOptions{Env: e}
	c := &cobra.Command{
		Use: "login URL", Short: "Store a token for a service",
		Long: `Store a token for a service, after one request that checks it.

The command asks for the token, or reads it from standard input if that is not a terminal: one line of at most 64 KiB.
The token is kept in the system's keyring or, without one, in a file that only you can read. It is never a flag or an
argument, because others can see those. The context is named after the host, or by --context.`,
		Example: `  clinicaldoc login https://service.example
  clinicaldoc login https://service.example/api --context ward-3 < token.txt`,
		Args: exactly(1, "the service's base URL; the token is asked for, or read from standard input"),
		RunE: func(c *cobra.Command, args []string) error {
			o.baseURL = args[0]
			return o.run(c.Context())
		},
	}
	c.Flags().StringVar(
		&o.query, "query", "", "other `NAMES` of the list's parameters: patient_id=filter[patient_id],per_page=limit",
	)
	c.Flags().BoolVar(
		&o.insecure, "insecure-http", false, "allow plain http to another machine: for isolated test networks only",
	)
	return c
}

func (o *loginOptions) run(ctx context.Context) error {
	if u, err := url.Parse(o.baseURL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return usagef("the base URL must begin with https://, or with http:// if the service is on this machine")
	}
	name := cmp.Or(o.contextName, account.NameFor(hostOf(o.baseURL)))
	if err := account.CheckName(name); err != nil {
		return usagef("%s; choose another with --context", err)
	}
	query, err := account.ParseQueryNames(o.query)
	if err != nil {
		return usagef("--query: %s", err)
	}
	store, err := account.Open()
	if err != nil {
		return err
	}
	token, err := o.readToken(ctx)
	if err != nil {
		return err
	}
	a := &account.Account{Name: name, Token: token, Context: account.Context{
		BaseURL: strings.TrimRight(o.baseURL, "/"), Query: query, InsecureHTTP: o.insecure,
	}}
	client, err := o.clientOf(a)
	if err != nil {
		return err
	}
	user, err := client.Users.Me(ctx)
	if err != nil {
		return err
	}
	where, err := store.Login(name, a.Context, token)
	if err != nil {
		return err
	}
	o.IO.Note("The token is stored in %s.", where)
	if os.Getenv(clinicaldoc.EnvBaseURL) != "" || os.Getenv(clinicaldoc.EnvToken) != "" {
		o.IO.Note("%s and %s override it while they are set.", clinicaldoc.EnvBaseURL, clinicaldoc.EnvToken)
	}
	return o.outf("logged in to %s as user %d, context %s\n", hostOf(a.Context.BaseURL), user.ID, name)
}

// readToken asks for the token, or reads it from standard input.
func (o *loginOptions) readToken(ctx context.Context) (string, error) {
	token, err := o.IO.ReadSecret(ctx, "Token: ")
	if tooLong, ok := errors.AsType[*output.TooLongError](err); ok {
		return "", usagef("standard input contains no token: %s", tooLong)
	}
	if err == nil && token == "" {
		err = usagef("standard input contains no token: it is empty")
	}
	return token, err
}

func newLogout(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "Forget a context and its token",
		Long: "Forget the current context, or the one named by --context, and its token on this machine. The " +
			"token stays valid: \"clinicaldoc tokens revoke\" ends it.",
		Example: "  clinicaldoc logout\n  clinicaldoc logout --context ward-3",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			store, err := account.Open()
			if err != nil {
				return err
			}
			return store.Logout(e.contextName)
		},
	}
}
