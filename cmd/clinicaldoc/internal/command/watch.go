package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

type watchOptions struct {
	*Env
	format
	patient  int64
	interval time.Duration
	count    int
	exec     string
	trust    bool
	initial  bool
}

func newWatch(e *Env) *cobra.Command {
	o := &watchOptions{Env: e}
	c := &cobra.Command{
		Use: "watch", Short: "Print changes of notes as they are seen", Args: noArgs,
		Long: `Print a line for each note that is new, has changed or is gone: time, id, event, stage. The service sends no events, so that the
whole list is read at every interval. It ends by Ctrl-C, or after --count changes.

--exec runs a program for each change, one after the other, with CLINICALDOC_NOTE_ID, CLINICALDOC_NOTE_STAGE and
CLINICALDOC_NOTE_EVENT in its environment. It is read by a shell, with its quotes and variables, and sees neither token nor base URL:
a clinicaldoc in it uses the current context. One that fails is told, and the watch goes on.`,
		Example: "  clinicaldoc watch\n  clinicaldoc watch --patient 7 --interval 1m --exec ./on-change.sh\n  clinicaldoc watch --exec 'clinicaldoc notes show \"$CLINICALDOC_NOTE_ID\" > \"last note.txt\"'",
		RunE:    func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	o.flags(c, change{})
	f := c.Flags()
	f.Int64Var(&o.patient, "patient", 0, "only notes of the patient with this `ID`; every row is checked")
	f.DurationVar(&o.interval, "interval", 30*time.Second, "the `PAUSE` between two looks, at least 1s")
	f.IntVar(&o.count, "count", 0, "end after this `NUMBER` of changes; 0: never")
	f.StringVar(&o.exec, "exec", "", "run this `COMMAND` of a shell for each change")
	f.BoolVar(&o.initial, "initial", false, "print also the notes that are there at the start")
	f.BoolVar(&o.trust, "trust-patient-filter", false, "take rows that name no patient, with --patient")
	return c
}

// change is one line of the watch.
type change struct {
	At    time.Time         `json:"at"`
	ID    int64             `json:"id"`
	Event string            `json:"event"` // there, new, changed, gone
	Stage clinicaldoc.Stage `json:"stage"`
}

// sight is how a note was last seen.
type sight struct {
	stage     clinicaldoc.Stage
	updatedAt time.Time
}

func (o *watchOptions) run(ctx context.Context) error {
	if o.exec != "" && strings.TrimSpace(o.exec) == "" {
		return usagef("--exec names no program")
	}
	if o.interval < time.Second || o.count < 0 || o.patient < 0 {
		return usagef("--interval is at least 1s, --count and --patient are not below 0")
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	var known map[int64]sight
	printed := 0
	for {
		now, err := o.look(ctx, client)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && known == nil, err != nil && !mayPass(err):
			return err
		case err != nil:
			o.tellText(err)
			o.IO.Note("  looking again in %s", o.interval)
		default:
			for _, c := range o.changes(known, now) {
				if err := o.tellChange(ctx, c); err != nil {
					return err
				}
				if printed++; printed == o.count {
					return nil
				}
			}
			known = now.notes
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(o.interval):
		}
	}
}

// mayPass is for failures that the next look may not meet.
func mayPass(err error) bool {
	return clinicaldoc.Retryable(err) || errors.Is(err, clinicaldoc.ErrIncompleteList)
}

// snapshot is the list at one moment.
type snapshot struct {
	order []int64
	notes map[int64]sight
}

func (o *watchOptions) look(ctx context.Context, client *clinicaldoc.Client) (snapshot, error) {
	s := snapshot{notes: map[int64]sight{}}
	params := clinicaldoc.ListNotesParams{PatientID: o.patient, Sort: clinicaldoc.SortOldest, PerPage: 100, TrustPatientFilter: o.trust}
	for note, err := range client.Notes.All(ctx, params) {
		if err != nil {
			return s, err
		}
		s.order = append(s.order, note.ID)
		s.notes[note.ID] = sight{note.Stage(), note.UpdatedAt}
	}
	return s, nil
}

func (o *watchOptions) changes(known map[int64]sight, now snapshot) []change {
	var list []change
	at := time.Now().UTC().Truncate(time.Millisecond)
	for _, id := range now.order {
		seen := now.notes[id]
		before, was := known[id]
		switch {
		case known == nil && o.initial:
			list = append(list, change{at, id, "there", seen.stage})
		case known == nil:
		case !was:
			list = append(list, change{at, id, "new", seen.stage})
		case before.stage != seen.stage || !before.updatedAt.Equal(seen.updatedAt):
			list = append(list, change{at, id, "changed", seen.stage})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		if _, is := now.notes[id]; !is {
			list = append(list, change{at, id, "gone", known[id].stage})
		}
	}
	return list
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
	run.Env = append(run.Env, "CLINICALDOC_NOTE_ID="+strconv.FormatInt(c.ID, 10), "CLINICALDOC_NOTE_STAGE="+c.Stage.String(), "CLINICALDOC_NOTE_EVENT="+c.Event)
	if err := run.Run(); err != nil && ctx.Err() == nil {
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
