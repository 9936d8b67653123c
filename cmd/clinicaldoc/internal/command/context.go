package command

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/account"
)

func newContext(e *Env) *cobra.Command {
	c := group(
		"context", "Switch between services and accounts",
		"Switch between services and accounts. \"clinicaldoc login\" makes a context, \"clinicaldoc logout\" "+
			"removes it.",
	)
	c.AddCommand(newContextList(e), newContextUse(e), newContextSet(e))
	return c
}

func newContextList(e *Env) *cobra.Command {
	var f format
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the contexts", Example: "  clinicaldoc context list",
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return e.listContexts(c.Context(), &f) },
	}
	f.flags(c, contextRow{})
	return c
}

// contextRow is what is printed of a context.
type contextRow struct {
	Name    string `json:"name"`
	BaseURL string `json:"base_url"`
	Current bool   `json:"current"`
}

func (e *Env) listContexts(ctx context.Context, f *format) error {
	config, err := loadConfig()
	if err != nil {
		return err
	}
	list := []contextRow{}
	for _, name := range slices.Sorted(maps.Keys(config.Contexts)) {
		list = append(list, contextRow{name, config.Contexts[name].BaseURL, name == config.Current})
	}
	return e.print(ctx, f, list, func() error {
		var rows [][]string
		for _, r := range list {
			mark := ""
			if r.Current {
				mark = "current"
			}
			rows = append(rows, []string{r.Name, r.BaseURL, mark})
		}
		return e.IO.Table([]string{"NAME", "SERVICE", ""}, rows)
	})
}

func loadConfig() (*account.Config, error) {
	store, err := account.Open()
	if err != nil {
		return nil, err
	}
	return store.Load()
}

func newContextUse(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Make a context the current one", Example: "  clinicaldoc context use ward-3",
		Args:              exactly(1, "a context's name"),
		ValidArgsFunction: e.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			return changeConfig(args[0], func(config *account.Config) { config.Current = args[0] })
		},
	}
}

// changeConfig changes a context that exists.
func changeConfig(name string, change func(*account.Config)) error {
	store, err := account.Open()
	if err != nil {
		return err
	}
	return store.Change(func(config *account.Config) error {
		if _, ok := config.Contexts[name]; !ok {
			return usagef("there is no context %s; \"clinicaldoc context list\" lists them", quote(name))
		}
		change(config)
		return nil
	})
}

func newContextSet(e *Env) *cobra.Command {
	var query string
	c := &cobra.Command{
		Use: "set NAME", Short: "Change the settings of a service", Args: exactly(1, "a context's name"),
		Long: "Change the settings of a service: the names of the list's query parameters, as " +
			"\"clinicaldoc doctor --gaps\" finds them.",
		Example:           "  clinicaldoc context set ward-3 --query 'patient_id=filter[patient_id],per_page=limit'",
		ValidArgsFunction: e.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			names, err := account.ParseQueryNames(query)
			if err != nil {
				return usagef("--query: %s", err)
			}
			return changeConfig(args[0], func(config *account.Config) {
				changed := config.Contexts[args[0]]
				changed.Query = names
				config.Contexts[args[0]] = changed
			})
		},
	}
	c.Flags().StringVar(
		&query, "query", "",
		"the list's parameters `NAMES`: patient_id=filter[patient_id],per_page=limit; empty: the default names",
	)
	return c
}
