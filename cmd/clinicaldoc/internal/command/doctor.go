package command

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// check is one line of the doctor's report.
type check struct {
	Name    string `json:"check"`
	State   string `json:"state"` // good, doubtful, bad, skipped
	Detail  string `json:"detail"`
	Remedy  string `json:"remedy,omitempty"`
	Elapsed int64  `json:"ms"`
}

const (
	good     = "good"
	doubtful = "doubtful"
	bad      = "bad"
	skipped  = "skipped"
)

// checkLimit is how long one check may take.
const checkLimit = 10 * time.Second

type doctorOptions struct {
	*Env
	format
	gaps            bool
	patient, prompt int64
}

func newDoctor(e *Env) *cobra.Command {
	o := &doctorOptions{Env: e}
	c := &cobra.Command{
		Use: "doctor", Short: "Find out why the service cannot be used", Args: noArgs,
		Long: `Check step by step whether the service can be used: settings, proxy, name, connection, certificate, base
path, clock, token, list. Each line is good, doubtful or bad, and says what to do. Steps that depend on a bad one are
skipped. The report contains a host and times, but no ids, names or tokens, so you can send it to somebody who helps
you. The exit code is 1 if anything is bad.

--gaps also tests what the service's description does not say. It creates a few synthetic notes for a patient and a
prompt that are meant for tests, and deletes them.`,
		Example: "  clinicaldoc doctor\n  clinicaldoc doctor --json\n" +
			"  clinicaldoc doctor --gaps --patient 1 --prompt 1",
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	o.flags(c, check{})
	c.Flags().BoolVar(
		&o.gaps, "gaps", false, "also test what the service's description does not say; creates synthetic notes",
	)
	c.Flags().Int64Var(&o.patient, "patient", 0, "`ID` of a patient for tests, with --gaps")
	c.Flags().Int64Var(&o.prompt, "prompt", 0, "`ID` of a prompt for tests, with --gaps")
	return c
}

func (o *doctorOptions) run(ctx context.Context) error {
	if o.gaps && (o.patient < 1 || o.prompt < 1) {
		return usagef("--gaps creates notes: name a --patient and a --prompt that are meant for tests")
	}
	d := &doctor{doctorOptions: o, broken: map[string]bool{}}
	d.all(ctx)
	if o.gaps {
		d.askGaps(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := o.print(ctx, &o.format, d.checks, func() error { return d.unprinted }); err != nil {
		return err
	}
	if len(d.broken) > 0 {
		return &codeError{codeOther}
	}
	return nil
}

// doctor is one run of the checks.
type doctor struct {
	*doctorOptions
	checks    []check
	broken    map[string]bool
	unprinted error // of standard output
	visit
}

// step does one check, unless one that it needs is bad, and prints it at once.
func (d *doctor) step(ctx context.Context, name string, needs []string, do func(context.Context) check) {
	c := check{Name: name, State: skipped}
	for _, need := range needs {
		if d.broken[need] || d.unknown(need) {
			c.Detail = "needs " + need
		}
	}
	if c.Detail == "" {
		limited, cancel := context.WithTimeout(ctx, checkLimit)
		begun := time.Now()
		c = do(limited)
		cancel()
		c.Name, c.Elapsed = name, time.Since(begun).Milliseconds()
		c.Remedy = despiteVariables(c.Remedy)
	}
	if c.State == bad {
		d.broken[name] = true
	}
	d.checks = append(d.checks, c)
	if d.wanted() || ctx.Err() != nil {
		return
	}
	d.unprinted = cmp.Or(d.unprinted, d.outf("%-9s %-9s %s\n", c.State, c.Name, d.IO.Text(c.Detail)))
	if c.Remedy != "" {
		d.unprinted = cmp.Or(d.unprinted, d.outf("%19s do: %s\n", "", c.Remedy))
	}
}

// unknown reports whether a check was skipped.
func (d *doctor) unknown(name string) bool {
	for _, c := range d.checks {
		if c.Name == name && c.State == skipped {
			return true
		}
	}
	return false
}

func found(state, remedy, format string, args ...any) check {
	return check{State: state, Detail: strings.TrimSpace(fmt.Sprintf(format, args...)), Remedy: remedy}
}
