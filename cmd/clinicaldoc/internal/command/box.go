package command

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/internal/devproxy"
)

func newBox(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "box [flags]", Short: "Serve a service with synthetic data on this machine",
		Long: `Serve the clinical documentation service on this machine, with synthetic data, until Ctrl-C: it prints a base URL, a token and
the address of a page that shows every request. With -upstream it stands in front of a real service and reports where its
responses depart from the description. "clinicaldoc box -help" lists its flags, which are those of clinicaldoc-devproxy.`,
		Example: `  clinicaldoc box -seed 20
  clinicaldoc box -variant cursor -fault "POST /v1/progress-notes:reset-after-commit"
  clinicaldoc box -upstream https://service.example`,
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			err := devproxy.Run(c.Context(), "clinicaldoc box", args, e.IO.Out, e.IO.Err)
			if wrong, ok := errors.AsType[*devproxy.UsageError](err); ok {
				return usagef("%s", wrong)
			}
			if err != nil {
				return errors.New(err.Error()) // a port that is taken is no service that cannot be reached
			}
			return nil
		},
	}
}
