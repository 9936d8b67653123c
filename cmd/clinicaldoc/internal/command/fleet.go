package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest/jetstream"
)

// fleet puts the recordings into the fleet's queue, and works on what is there until it is empty: each recording has a note then,
// or is a dead letter. What other machines do is theirs to tell.
func (r *uploadRun) fleet(ctx context.Context, uploader *ingest.Uploader, baseURL string, userID int64) error {
	defer r.show.Close()
	fleet, conn, err := r.openFleet(ctx, baseURL, userID)
	if err != nil {
		return err
	}
	defer conn.Close()
	handed := ingest.Progress{}
	put, drained := 0, -1 // drained: when so many had been seen to
	for i := 0; i < len(r.recordings); {
		recording := r.recordings[i]
		recording.Params.OnProgress = nil
		if recording.File, err = filepath.Abs(recording.File); err != nil {
			return err
		}
		r.numbers[recording.File] = i + 1
		_, err = clinicaldoc.AudioFile(recording.File)
		refused := err != nil // others could not send it either
		if !refused {
			err = fleet.Publish(ctx, recording)
			refused = errors.Is(err, ingest.ErrKeyReused) || errors.Is(err, clinicaldoc.ErrInvalidArgument)
		}
		switch {
		case refused: // and holds up no other
			handed.Refused++
			r.result(ctx, &ingest.Result{Recording: recording, Status: ingest.Refused, Err: err})
			i++
		case errors.Is(err, jetstream.ErrQueueFull) && i > drained: // what is there is worked on first
			drained = i
			if err := r.drain(ctx, fleet, uploader, &handed); err != nil {
				return err
			}
		case err != nil:
			return fmt.Errorf("%s in the queue: %w", r.some(put, "is", "are"), err)
		default:
			put++
			i++
		}
	}
	ended := r.drain(ctx, fleet, uploader, &handed)
	r.show.Close()
	r.last = handed
	counts := fmt.Sprintf("%d created, %d already there, %d refused, %d in doubt",
		handed.Created, handed.AlreadyThere, handed.Refused, handed.InDoubt)
	r.IO.Note("%s put into the queue; this machine had %d of the fleet's: %s",
		output.Count(put, "recording was", "recordings were"), handed.Done(), counts)
	r.sumLeftOut()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return r.outcome(ctx, ended)
}

// drain works on what is in the queue until it is empty.
func (r *uploadRun) drain(ctx context.Context, fleet *jetstream.Fleet, uploader *ingest.Uploader, handed *ingest.Progress) error {
	for result, err := range fleet.Drain(ctx, uploader) {
		if err != nil {
			return err
		}
		if result.Ending == jetstream.Later {
			r.tell("%s: %s; again in %s", keyOf(&result.Result), errorText(result.Err), result.Rest.Round(time.Second))
			continue
		}
		switch result.Status {
		case ingest.Created:
			handed.Created++
		case ingest.AlreadyThere:
			handed.AlreadyThere++
		case ingest.Refused:
			handed.Refused++
		case ingest.InDoubt:
			handed.InDoubt++
		}
		r.result(ctx, &result.Result)
	}
	return nil
}

// redrive puts the fleet's dead letters back into its queue.
func (o *uploadOptions) redrive(ctx context.Context) error {
	client, user, err := o.me(ctx)
	if err != nil {
		return err
	}
	fleet, conn, err := o.openFleet(ctx, client.BaseURL(), user.ID)
	if err != nil {
		return err
	}
	defer conn.Close()
	n, stays := 0, error(nil)
	for letter, err := range fleet.DeadLetters(ctx) {
		if err == nil {
			err = fleet.Redrive(ctx, letter)
		}
		switch {
		case errors.Is(err, ingest.ErrKeyReused), errors.Is(err, clinicaldoc.ErrInvalidArgument):
			stays = err // and holds up no other
		case err != nil:
			return err
		default:
			n++
		}
	}
	err = o.outf("%s in the queue again\n", output.Count(n, "recording is", "recordings are"))
	switch {
	case err != nil || stays == nil:
		return err
	case n > 0:
		return &runError{codeSome, errorText(stays), ""}
	}
	return &runError{codeRefused, errorText(stays), ""}
}

func newFleet(e *Env) *cobra.Command {
	c := group("fleet", "See how machines that share uploads stand", "See how machines that share uploads by \"upload --nats\" stand, from any of them.")
	c.AddCommand(newFleetStatus(e), newFleetRepair(e))
	return c
}

func newFleetRepair(e *Env) *cobra.Command {
	o := &uploadOptions{Env: e}
	c := &cobra.Command{
		Use: "repair", Short: "Make a fleet's store usable again", Args: noArgs,
		Long: `Make a fleet's store usable again that is refused because some of it is gone and cannot be restored: it is made anew, and remembers
that it has gaps. A recording that it does not know is looked for among the patient's notes before it is uploaded. What waited in
a queue that is gone has to be uploaded again. End all uploads before.`,
		Example: "  clinicaldoc fleet repair --nats nats://queue.example:4222",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.checkFleet(); err != nil {
				return err
			}
			return o.repair(c.Context())
		},
	}
	o.fleetFlags(c)
	return c
}

func (o *uploadOptions) repair(ctx context.Context) error {
	client, user, err := o.me(ctx)
	if err != nil {
		return err
	}
	conn, params, err := o.connect(client.BaseURL(), user.ID)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := jetstream.Repair(ctx, conn, params); err != nil {
		return err
	}
	return o.outf("the fleet's store is whole\n")
}

type fleetOptions struct {
	*Env
	format
	journalPlace
	reveal bool
}

// fleetStatus is how a fleet stands.
type fleetStatus struct {
	Waiting     int                `json:"waiting"`
	Uploading   int                `json:"uploading"`
	Later       int                `json:"later"`
	Doubts      []journalDoubt     `json:"doubts"`
	DeadLetters []deadLetter       `json:"dead_letters"`
	Workers     []jetstream.Worker `json:"workers"`
	Pause       *jetstream.Pause   `json:"pause,omitempty"`
}

type deadLetter struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
	Tries  int       `json:"tries"`
	File   string    `json:"file,omitempty"`
}

func newFleetStatus(e *Env) *cobra.Command {
	o := &fleetOptions{Env: e}
	c := &cobra.Command{
		Use: "status", Short: "Show queue, doubts, dead letters, workers and pauses", Args: noArgs,
		Long: `Show how a fleet stands: what waits in its queue, is being uploaded or is tried again later, what is in doubt, what no worker tries
any more and why, which machines work, and whether all of them pause. "upload resolve --nats" decides a doubt, "upload retry --nats"
sends dead letters again.`,
		Example: "  clinicaldoc fleet status --nats nats://queue.example:4222\n  clinicaldoc fleet status --json waiting,later",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.checkFleet(); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	o.flags(c, fleetStatus{})
	o.fleetFlags(c)
	c.Flags().BoolVar(&o.reveal, "reveal", false, "show the files of dead letters")
	return c
}

func (o *fleetOptions) run(ctx context.Context) error {
	client, user, err := o.me(ctx)
	if err != nil {
		return err
	}
	fleet, conn, err := o.openFleet(ctx, client.BaseURL(), user.ID)
	if err != nil {
		return err
	}
	defer conn.Close()
	s, err := o.read(ctx, fleet)
	if err != nil {
		return err
	}
	return o.print(ctx, &o.format, s, func() error { return o.show(s) })
}

func (o *fleetOptions) read(ctx context.Context, fleet *jetstream.Fleet) (*fleetStatus, error) {
	now, err := fleet.Status(ctx)
	if err != nil {
		return nil, err
	}
	s := &fleetStatus{Waiting: now.Waiting, Uploading: now.Uploading, Later: now.Later, Workers: append([]jetstream.Worker{}, now.Workers...), Pause: now.Pause, Doubts: []journalDoubt{}, DeadLetters: []deadLetter{}}
	for e, err := range fleet.Journal().Doubts(ctx) {
		if err != nil && !errors.Is(err, ingest.ErrJournalDamaged) {
			return nil, err
		}
		s.Doubts = append(s.Doubts, doubtOf(e))
	}
	for letter, err := range fleet.DeadLetters(ctx) {
		if err != nil {
			return nil, err
		}
		d := deadLetter{At: letter.At, Reason: ownWords(letter.Reason), Tries: letter.Tries}
		if o.reveal {
			d.File = letter.Recording.File
		}
		s.DeadLetters = append(s.DeadLetters, d)
	}
	return s, nil
}

func (o *fleetOptions) show(s *fleetStatus) error {
	rows := [][]string{
		{"waiting", strconv.Itoa(s.Waiting), ""}, {"uploading", strconv.Itoa(s.Uploading), ""}, {"later", strconv.Itoa(s.Later), ""},
		{"in doubt", strconv.Itoa(len(s.Doubts)), ""}, {"dead letters", strconv.Itoa(len(s.DeadLetters)), ""}, {"workers", strconv.Itoa(len(s.Workers)), ""},
	}
	if s.Pause != nil {
		rows = append(rows, []string{"pause", o.IO.Time(s.Pause.Until), ownWords(s.Pause.Reason)})
	}
	for _, w := range s.Workers {
		rows = append(rows, []string{"worker", fmt.Sprintf("%s/%d", w.Host, w.Process), fmt.Sprintf("%d uploading, %d done %s", w.Uploading, w.Done, ownWords(w.Failing))})
	}
	for _, d := range s.Doubts {
		rows = append(rows, []string{"doubt", d.Key[:keyDigits], d.Why})
	}
	for _, d := range s.DeadLetters {
		tries := output.Count(d.Tries, "try", "tries")
		text := fmt.Sprintf("%s, after %s %s", d.Reason, tries, output.Cell(d.File))
		rows = append(rows, []string{"dead letter", o.IO.Time(d.At), text})
	}
	return o.IO.Table([]string{"WHAT", "HOW MANY", ""}, rows)
}
