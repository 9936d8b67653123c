package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest/jetstream"
)

// fleetRun is an upload by a fleet: what this machine put into the queue, and what it uploaded, of its own and of
// others.
type fleetRun struct {
	*uploadRun
	fleet     *jetstream.Fleet
	uploader  *ingest.Uploader
	published []ingest.Recording // with their keys
	had       ingest.Progress    // what this machine uploaded
	ended     map[string]ingest.Status
	awaited   map[string]bool // whose notes this machine waited for, in vain
	refused   int             // before they were in the queue
	drainedAt int             // how many recordings had been put into the queue when it was full last
}

// byFleet puts the recordings into the fleet's queue, and works on what is there until it is empty: each recording is
// done then, or is a dead letter. Notes that are not complete are waited for, for --max-wait at most. Its verdict is
// about all recordings of this machine, whichever machine uploaded them.
func (r *uploadRun) byFleet(ctx context.Context, uploader *ingest.Uploader, baseURL string, userID int64) error {
	defer r.show.Close()
	fleet, conn, err := r.openFleet(ctx, baseURL, userID)
	if err != nil {
		return err
	}
	defer conn.Close()
	run := &fleetRun{
		uploadRun: r, fleet: fleet, uploader: uploader, drainedAt: -1,
		ended: map[string]ingest.Status{}, awaited: map[string]bool{},
	}
	for i := range r.recordings {
		if err := run.publish(ctx, i); err != nil {
			return err
		}
	}
	ended := run.drain(ctx)
	r.show.Close()
	r.IO.Note("%s put into the queue; this machine handled %d of the fleet's recordings: %s%s",
		output.Count(len(run.published), "recording was", "recordings were"), run.had.Done(), countsText(run.had),
		r.stagesText(run.had))
	if ctx.Err() == nil && ended == nil {
		ended = run.verdict(ctx)
	}
	r.sumLeftOut()
	r.noteKeys()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return r.outcome(ctx, ended)
}

// countsText says how many recordings have a note, or none.
func countsText(p ingest.Progress) string {
	return fmt.Sprintf("%d with a note, %d refused, %d unresolved", p.Created+p.AlreadyThere, p.Refused, p.InDoubt)
}

// publish puts a recording into the queue. One that no machine could send is refused, and holds up no other. While the
// queue is full, what is there is worked on first.
func (r *fleetRun) publish(ctx context.Context, i int) error {
	recording := r.recordings[i]
	recording.Params.OnProgress = nil
	path, err := filepath.Abs(recording.File)
	if err != nil {
		return err
	}
	recording.File = path
	r.numbers[path] = i + 1
	if _, err := clinicaldoc.AudioFile(path); err != nil {
		r.refuse(ctx, recording, err)
		return nil
	}
	keyed, err := recording.WithKey()
	for err == nil {
		keyed.Params.Audio = nil
		err = r.fleet.Publish(ctx, keyed)
		if !errors.Is(err, jetstream.ErrQueueFull) || r.drainedAt == i {
			break
		}
		r.drainedAt = i
		err = r.drain(ctx)
	}
	switch {
	case err == nil:
		r.published = append(r.published, keyed)
	case errors.Is(err, ingest.ErrKeyReused), errors.Is(err, clinicaldoc.ErrInvalidArgument):
		r.refuse(ctx, recording, err)
	default:
		return fmt.Errorf("%s in the queue: %w", r.some(len(r.published), "is", "are"), err)
	}
	return nil
}

// refuse ends a recording that is not put into the queue.
func (r *fleetRun) refuse(ctx context.Context, recording ingest.Recording, err error) {
	r.refused++
	r.had.Refused++
	r.result(ctx, &ingest.Result{Recording: recording, Status: ingest.Refused, Err: err})
}

// drain works on what is in the queue until it is empty. The results of other machines' recordings are printed, and do
// not count for this machine's verdict.
func (r *fleetRun) drain(ctx context.Context) error {
	own := map[string]bool{}
	for _, recording := range r.published {
		own[recording.Key] = true
	}
	for result, err := range r.fleet.Drain(ctx, r.uploader) {
		if err != nil {
			return err
		}
		isOwn := own[result.Recording.Key]
		if result.Status == ingest.Processing {
			count(&r.had, result.Status)
			r.awaited[result.Recording.Key] = isOwn
		}
		if result.Ending == jetstream.Later {
			r.tell(
				"%s: %s; trying again in %s", keyOf(&result.Result), errorText(result.Err),
				result.Rest.Round(time.Second),
			)
			continue
		}
		count(&r.had, result.Status)
		if isOwn {
			r.ended[result.Recording.Key] = result.Status
			r.result(ctx, &result.Result)
			continue
		}
		r.present(ctx, &result.Result)
	}
	return nil
}

// verdict adds up what became of all recordings of this machine. It asks the fleet about those that other machines had.
func (r *fleetRun) verdict(ctx context.Context) error {
	all := ingest.Progress{Total: len(r.recordings), Refused: r.refused}
	elsewhere := 0
	for _, recording := range r.published {
		status, here := r.ended[recording.Key]
		if !here {
			result, err := r.fleet.Outcome(ctx, recording)
			if err != nil {
				return err
			}
			isOpen := result.Ending == jetstream.Later || result.Ending == 0
			if isOpen && result.Status != ingest.Processing && result.Status != ingest.Failed {
				continue
			}
			if !r.awaited[recording.Key] {
				elsewhere++
			}
			status = result.Status
			r.ended[recording.Key] = status
			r.result(ctx, &result.Result)
		}
		count(&all, status)
	}
	r.last = all
	if elsewhere > 0 {
		r.IO.Note("%s on other machines; all recordings of this command: %s%s",
			output.Count(elsewhere, "recording ended", "recordings ended"), countsText(all), r.stagesText(all))
	}
	if left := len(r.recordings) - all.Done(); left > 0 {
		text := r.some(left, "has", "have") + " no note yet; another machine has to finish"
		return &runError{codePending, text, "run the same command again to see the result"}
	}
	return nil
}

// count counts a result. A recording whose note was waited for counts among those that have a note.
func count(p *ingest.Progress, status ingest.Status) {
	switch status {
	case ingest.Created:
		p.Created++
	case ingest.Refused:
		p.Refused++
	case ingest.InDoubt:
		p.InDoubt++
	case ingest.AlreadyThere, ingest.Complete, ingest.Processing, ingest.Failed:
		p.AlreadyThere++
	}
	switch status {
	case ingest.Complete:
		p.Complete++
	case ingest.Processing:
		p.Processing++
	case ingest.Failed:
		p.Failed++
	default:
	}
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
	if err := o.outf("%s in the queue again\n", output.Count(n, "recording is", "recordings are")); err != nil {
		return err
	}
	if stays != nil && n == 0 {
		return &runError{codeRefused, errorText(stays), ""}
	}
	if stays != nil {
		return &runError{codeSome, errorText(stays), ""}
	}
	return o.needWorkers(ctx, fleet, n)
}

// needWorkers says which machines upload what was put into the queue. Without any, the recordings stay there.
func (o *uploadOptions) needWorkers(ctx context.Context, fleet *jetstream.Fleet, waiting int) error {
	if waiting == 0 {
		return nil
	}
	status, err := fleet.Status(ctx)
	if err != nil {
		return err
	}
	if workers := len(status.Workers); workers > 0 {
		o.IO.Note("A worker uploads them; %s now.", output.Count(workers, "is running", "are running"))
		return nil
	}
	text := "no worker is running: nothing is uploaded until one is"
	return &runError{
		codePending, text,
		"start a worker: run the same upload with --nats again, on any machine that reaches the files",
	}
}

func newFleet(e *Env) *cobra.Command {
	c := group(
		"fleet", "Show and repair machines that share uploads",
		"Show and repair a fleet: machines that share uploads with \"upload --nats\".",
	)
	c.AddCommand(newFleetStatus(e), newFleetRepair(e))
	return c
}

func newFleetRepair(e *Env) *cobra.Command {
	o := &uploadOptions{Env: e}
	c := &cobra.Command{
		Use: "repair", Short: "Make a fleet's store usable again", Args: noArgs,
		Long: `Make a fleet's store usable again if streams are missing and cannot be restored. The missing streams are
created again. The journal then has gaps: before an upload, the patient's notes are searched for each recording that it
does not know. If the queue was lost, upload its recordings again. End all uploads first.`,
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
	return o.outf("the fleet's store is complete\n")
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
	Processing  int                `json:"processing"`
	Doubts      []journalItem      `json:"doubts"`
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
		Use: "status", Short: "Show queue, unresolved recordings, dead letters, workers and pauses", Args: noArgs,
		Long: `Show a fleet: what waits, is being uploaded or is tried again later, what is unresolved, dead letters
(recordings that no worker tries any more) with their reasons, the workers, and whether they pause.
"upload resolve --nats" decides about an unresolved recording, "upload retry --nats" sends dead letters again.`,
		Example: "  clinicaldoc fleet status --nats nats://queue.example:4222\n" +
			"  clinicaldoc fleet status --json waiting,later",
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
	s := &fleetStatus{
		Waiting: now.Waiting, Uploading: now.Uploading, Later: now.Later, Processing: now.Processing,
		Workers: append([]jetstream.Worker{}, now.Workers...), Pause: now.Pause, Doubts: []journalItem{},
		DeadLetters: []deadLetter{},
	}
	for e, err := range fleet.Journal().Doubts(ctx) {
		if err != nil {
			return nil, err
		}
		s.Doubts = append(s.Doubts, itemOf(e))
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

// show prints a fleet's status as a table: the counts, the pause, each worker, and each unresolved recording and dead
// letter.
func (o *fleetOptions) show(s *fleetStatus) error {
	rows := [][]string{
		{"waiting", strconv.Itoa(s.Waiting), ""}, {"uploading", strconv.Itoa(s.Uploading), ""},
		{"later", strconv.Itoa(s.Later), ""},
		{"processing", strconv.Itoa(s.Processing), ""},
		{"unresolved", strconv.Itoa(len(s.Doubts)), ""}, {"dead letters", strconv.Itoa(len(s.DeadLetters)), ""},
		{"workers", strconv.Itoa(len(s.Workers)), ""},
	}
	if s.Pause != nil {
		rows = append(rows, []string{"pause", o.IO.Time(s.Pause.Until), ownWords(s.Pause.Reason)})
	}
	for _, w := range s.Workers {
		text := fmt.Sprintf("%d uploading, %d done %s", w.Uploading, w.Done, ownWords(w.Failing))
		rows = append(rows, []string{"worker", fmt.Sprintf("%s/%d", w.Host, w.Process), strings.TrimSpace(text)})
	}
	for _, d := range s.Doubts {
		rows = append(rows, []string{"doubt", d.Key[:keyDigits], d.Why})
	}
	for _, d := range s.DeadLetters {
		tries := output.Count(d.Tries, "try", "tries")
		text := fmt.Sprintf("%s, after %s %s", d.Reason, tries, output.Cell(d.File))
		rows = append(rows, []string{"dead letter", o.IO.Time(d.At), strings.TrimSpace(text)})
	}
	return o.IO.Table([]string{"WHAT", "HOW MANY", ""}, rows)
}
