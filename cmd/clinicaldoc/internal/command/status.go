package command

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

type statusOptions struct {
	*Env
	format
	offline bool
}

// status is what is known of the account.
type status struct {
	Context   string `json:"context,omitempty"`
	BaseURL   string `json:"base_url"`
	URLFrom   string `json:"base_url_from"`
	TokenFrom string `json:"token_from"`
	Token     string `json:"token"` // good, refused, not checked, cannot tell
	UserID    int64  `json:"user_id,omitempty"`
}

func newStatus(e *Env) *cobra.Command {
	o := &statusOptions{Env: e}
	c := &cobra.Command{
		Use: "status", Short: "Show which service and token are used, and whether they work",
		Long: "Show which service and token are used, where each value comes from, and whether they work. If the " +
			"token could not be checked, the command says so.",
		Example: "  clinicaldoc status\n  clinicaldoc status --jq .token",
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	o.flags(c, status{})
	c.Flags().BoolVar(&o.offline, "offline", false, "do not contact the service")
	return c
}

func (o *statusOptions) run(ctx context.Context) error {
	a, err := o.account()
	if err != nil {
		return err
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	s := status{
		Context: a.Name, BaseURL: client.BaseURL(), URLFrom: a.URLFrom, TokenFrom: a.TokenFrom, Token: "not checked",
	}
	var checked error
	if !o.offline {
		var user *clinicaldoc.User
		user, checked = client.Users.Me(ctx)
		switch {
		case checked == nil:
			s.Token, s.UserID = "good", user.ID
		case errors.Is(checked, clinicaldoc.ErrUnauthorized):
			s.Token = "refused"
		default:
			s.Token = "cannot tell"
		}
	}
	err = o.print(ctx, &o.format, s, func() error {
		rows := [][]string{{"service", s.BaseURL, "from " + s.URLFrom}, {"token", s.Token, "from " + s.TokenFrom}}
		if a.Name != "" {
			rows = append([][]string{{"context", a.Name, ""}}, rows...)
		}
		return o.IO.Table([]string{"WHAT", "VALUE", "WHERE"}, rows)
	})
	return errors.Join(err, checked)
}
