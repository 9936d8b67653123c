package command

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/snapshot"
)

type watchOptions struct {
	*Env
	format
	patient  int64
	interval time.Duration
	count    int
	exec     string
	state    string
	trust    bool
	initial  bool
}

func newWatch(e *Env) *cobra.Command {
	o := &watchOptions{Env: e}
	c := &cobra.Command{
		Use: "watch", Short: "Print changes of notes as they happen", Args: noArgs,
		Long: `Print a line for each note that is new, has changed or is gone: time, id, event, stage. The service
sends no events, so the complete list is read at every interval. It ends with Ctrl-C, or after --count changes.

--exec runs a program for each change, one after the other, with CLINICALDOC_NOTE_ID, CLINICALDOC_NOTE_STAGE and
CLINICALDOC_NOTE_EVENT in its environment. A shell runs it, so quotes and variables work. It does not receive token and
base URL: if it calls clinicaldoc, that uses the current context. A failure is reported, and the watch continues. When
the watch is ended, it waits for the program. If the program fails then, the next watch with the same --state runs it
again.`,
		Example: "  clinicaldoc watch\n  clinicaldoc watch --patient 7 --interval 1m --exec ./on-change.sh\n" +
			"  clinicaldoc watch --exec 'clinicaldoc notes show \"$CLINICALDOC_NOTE_ID\" > \"last note.txt\"'",
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	o.flags(c, change{})
	f := c.Flags()
	f.Int64Var(&o.patient, "patient", 0, "only notes of the patient with this `ID`; every row is checked")
	f.DurationVar(&o.interval, "interval", 30*time.Second, "the `PAUSE` between two polls, at least 1s")
	f.IntVar(&o.count, "count", 0, "end after this `NUMBER` of changes; 0: never")
	f.StringVar(&o.exec, "exec", "", "run this shell `COMMAND` for each change")
	f.StringVar(
		&o.state, "state", "", "remember the notes in this `FILE`, and start with what changed since the last watch",
	)
	f.BoolVar(&o.initial, "initial", false, "also print the notes that exist at the start")
	f.BoolVar(&o.trust, "trust-patient-filter", false, "with --patient: accept rows without a patient")
	return c
}

// change is one line of the watch.
type change struct {
	At    time.Time         `json:"at"`
	ID    int64             `json:"id"`
	Event string            `json:"event"` // there, new, changed, gone
	Stage clinicaldoc.Stage `json:"stage"`
}

func (o *watchOptions) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	params := clinicaldoc.ListNotesParams{
		PatientID: o.patient, Sort: clinicaldoc.SortOldest, PerPage: 100, TrustPatientFilter: o.trust,
	}
	seen, err := snapshot.Open(ctx, client, o.state, params)
	if err != nil {
		return stateRefused(err)
	}
	defer func() { _ = seen.Close() }()
	for left := o.count; ; {
		begun := seen.Begun()
		err := o.lookAndSave(ctx, seen, &left)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && (!begun || !mayPass(err)):
			return err
		case err != nil:
			o.tellText(err)
			o.IO.Note("  checking again in %s", o.interval)
		case o.count > 0 && left == 0:
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(o.interval):
		}
	}
}

func (o *watchOptions) check() error {
	switch {
	case o.exec != "" && strings.TrimSpace(o.exec) == "":
		return usagef("--exec needs a command to run")
	case o.interval < time.Second || o.count < 0 || o.patient < 0:
		return usagef("--interval must be at least 1s, --count and --patient must not be negative")
	}
	return nil
}

// lookAndSave reads the list once and saves what was seen. A first look that ended early is saved only if it printed
// something.
func (o *watchOptions) lookAndSave(ctx context.Context, seen *snapshot.Snapshot, left *int) error {
	err := o.look(ctx, seen, left)
	printed := *left != o.count
	if seen.Begun() || printed {
		err = errors.Join(err, seen.Save())
	}
	return err
}

// stateRefused says what is wrong with the file of an earlier watch, and what to do about it.
func stateRefused(err error) error {
	switch {
	case errors.Is(err, snapshot.ErrInUse):
		return refusedf("another watch is using the file of --state")
	case errors.Is(err, snapshot.ErrOtherService), errors.Is(err, snapshot.ErrOtherUser),
		errors.Is(err, snapshot.ErrDamaged), errors.Is(err, disk.ErrNotPrivate):
		return refusedf(
			"the file of --state is damaged, not private, or was made for another account or --patient; remove it, " +
				"or name another",
		)
	}
	return err
}

// mayPass is for failures that the next look may not meet.
func mayPass(err error) bool {
	return clinicaldoc.Retryable(err) || errors.Is(err, clinicaldoc.ErrIncompleteList)
}

// look tells the changes since the last look, at most so many as are left if there is a count.
func (o *watchOptions) look(ctx context.Context, seen *snapshot.Snapshot, left *int) error {
	begun := seen.Begun()
	for c, err := range seen.Changes(ctx) {
		switch {
		case err != nil:
			return err
		case !begun && !o.initial:
			continue // it was there at the start
		case o.count > 0 && *left == 0:
			return nil // this one is for the next watch, those before it are seen
		}
		event := string(c.Event)
		if !begun {
			event = "there"
		}
		err := o.tellChange(ctx, change{time.Now().UTC().Truncate(time.Millisecond), c.ID, event, c.Stage})
		if err != nil {
			return err
		}
		*left--
	}
	return nil
}

func (o *watchOptions) tellChange(ctx context.Context, c change) error {
	err := o.print(ctx, &o.format, c, func() error {
		return o.outf("%s\t%d\t%s\t%s\n", o.IO.Time(c.At), c.ID, c.Event, c.Stage)
	})
	if err != nil || o.exec == "" {
		return err
	}
	run := shell(ctx, o.exec)
	run.Stdout, run.Stderr = o.IO.Out, o.IO.Err
	run.Env = append(
		run.Env, "CLINICALDOC_NOTE_ID="+strconv.FormatInt(c.ID, 10), "CLINICALDOC_NOTE_STAGE="+c.Stage.String(),
		"CLINICALDOC_NOTE_EVENT="+c.Event,
	)
	waits := context.AfterFunc(ctx, func() {
		o.IO.Note(
			"clinicaldoc: the watch ends when the program for note %d ends; a second signal ends it immediately", c.ID,
		)
	})
	err = run.Run()
	waits()
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // it was ended with the watch: the next one tells the change again
	}
	if err != nil {
		o.IO.Note("clinicaldoc: the program failed for note %d: %s", c.ID, execReason(err))
	}
	return nil
}

func execReason(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Sprintf("exit code %d", exit.ExitCode())
	}
	return "it cannot be run"
}
