package command

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/internal/devproxy"
)

func newBox(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "box [flags]", Short: "Run a local server with synthetic data",
		Long: `Run a local server with synthetic data until Ctrl-C. It prints a base URL, a token, and the address of a
page that shows every request. With -upstream it forwards requests to a real service, and reports where responses
differ from the service's description. "clinicaldoc box -help" lists its flags, which are those of
clinicaldoc-devproxy.`,
		Example: `  clinicaldoc box -seed 20
  clinicaldoc box -variant cursor -fault "POST /v1/progress-notes:reset-after-commit"
  clinicaldoc box -upstream https://service.example`,
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			err := devproxy.Run(c.Context(), "clinicaldoc box", args, e.IO.Out, e.IO.Err)
			if wrong, ok := errors.AsType[*devproxy.UsageError](err); ok {
				return usagef("%s", wrong)
			}
			if taken, ok := errors.AsType[*devproxy.AddressError](err); ok {
				return &runError{codeOther, taken.Text, taken.Do}
			}
			if err != nil {
				return errors.New(err.Error()) // an error of this server does not mean that a service is unreachable
			}
			return nil
		},
	}
}
