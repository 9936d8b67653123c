package command

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

func newWhoami(e *Env) *cobra.Command {
	var f format
	c := &cobra.Command{
		Use: "whoami", Short: "Show the user of the token",
		Example: "  clinicaldoc whoami\n  clinicaldoc whoami --jq .id", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return e.whoami(c.Context(), &f) },
	}
	f.flags(c, clinicaldoc.User{})
	return c
}

func (e *Env) whoami(ctx context.Context, f *format) error {
	_, user, err := e.me(ctx)
	if err != nil {
		return err
	}
	return e.print(ctx, f, user, func() error {
		return e.IO.Table([]string{"ID", "NAME", "EMAIL"}, [][]string{{
			strconv.FormatInt(user.ID, 10), user.Name, user.Email,
		}})
	})
}
