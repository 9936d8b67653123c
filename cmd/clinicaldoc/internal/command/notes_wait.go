package command

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/poll"
)

type waitOptions struct {
	*Env
	ids      []int64
	until    string
	timeout  time.Duration
	interval time.Duration
}

func newNotesWait(e *Env) *cobra.Command {
	o := &waitOptions{Env: e}
	c := &cobra.Command{
		Use: "wait ID...", Short: "Wait until notes are complete", Args: atLeast(1, "one or more note ids"),
		Long: "Wait until notes reach a stage, and print each note when it does. The exit code is 1 if " +
			"a note failed, and 8 if one did not reach the stage in time. The command names these notes.",
		Example: "  clinicaldoc notes wait 42\n" +
			"  clinicaldoc notes wait 42 43 44 --until transcribed --timeout 10m",
		ValidArgsFunction: e.completeNotes,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if o.ids, err = parseIDs(args); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&o.until, "until", clinicaldoc.StageComplete.String(), "the `STAGE` to wait for")
	f.DurationVar(&o.timeout, "timeout", 0, "the longest `TIME` to wait, such as 10m; 0: a day")
	f.DurationVar(&o.interval, "interval", 0, "the shortest `PAUSE` between two polls; 0: 2s")
	_ = c.RegisterFlagCompletionFunc("until", cobra.FixedCompletions(stageNames(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (o *waitOptions) run(ctx context.Context) error {
	until, err := parseStage(o.until)
	if err != nil {
		return err
	}
	if o.timeout < 0 {
		return usagef("--timeout must not be negative")
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	var failures []error
	for note, err := range client.Notes.WaitAll(
		ctx, o.ids, clinicaldoc.WaitParams{Until: until, Interval: o.interval},
	) {
		if errors.Is(err, clinicaldoc.ErrInvalidArgument) { // the ids and the stage were checked before
			return usagef("--interval must be %s to %s", poll.MinInterval, poll.MaxWait)
		}
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if err := o.outf("%d\t%s\n", note.ID, note.Stage()); err != nil {
			return err
		}
	}
	return o.worst(ctx, failures)
}

// worst tells all failures and returns the exit code of the first that is not a matter of time.
func (o *waitOptions) worst(ctx context.Context, failures []error) error {
	if len(failures) == 0 {
		return nil
	}
	first := failures[0]
	for _, err := range failures {
		if !errors.Is(err, context.DeadlineExceeded) {
			first = err
			break
		}
	}
	for _, err := range failures {
		o.tellText(err)
	}
	if do := kindOf(first).do; do != "" {
		o.IO.Note("  do: %s", despiteVariables(do))
	}
	return &codeError{exitCode(ctx, first)}
}
