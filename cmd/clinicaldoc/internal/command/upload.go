package command

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/account"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/report"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

type uploadOptions struct {
	*Env
	format
	journalPlace
	paths           []string
	patient, prompt int64
	manifest        string
	workers         int
	settle          time.Duration
	maxPause        time.Duration
	until           string
	maxWait         time.Duration
	unique, trust   bool
	reveal          bool
	dry, unchecked  bool
	ignore          []string
	left            []leftOut
	leftOutDo       string // what to do about these; empty: as for folders
	record          *report.Writer
}

func newUpload(e *Env) *cobra.Command {
	o := &uploadOptions{Env: e}
	c := &cobra.Command{
		Use: "upload FILE|FOLDER...", Short: "Upload recordings, each to one note", Args: cobra.ArbitraryArgs,
		Long: `Upload recordings; each becomes one note. A journal on disk records what became of each, so you can run
the same command again whatever ended it. It does not send again what is done, and searches for the notes of unresolved
recordings first. The first upload of a user to a service begins the journal: the command asks, or needs --begin
without a terminal.

A recording is done when the service has processed it. Only then may its file be moved or deleted. After the last
upload, the command waits for the notes, also for those of earlier uploads, but at most for --max-wait. If some are
still processing then, the exit code is 8: run the same command again later. If the service could not process some, the
exit code is 9: "clinicaldoc upload resolve KEY --send-again" lets the next upload send one again.

From folders, it takes files with an extension of audio files (.wav, .mp3, .m4a, .ogg, .flac, .dss ...), also in
subfolders. Other files are left out and counted, and the exit code is 9, unless they are hidden or match --ignore.

A manifest lists recordings with path, key, patient, prompt and name, as CSV or as one JSON object per line. Only path
is required if flags set the others. All of it is checked before anything is sent. A key, such as an encounter's number,
identifies a recording: one key becomes one note. Without a name, a note is named after its file.

A recording that is cut short, such as one that is still being copied, is refused, and so is a file that is not a
recording. --dry-run lists them and sends nothing. --skip-recording-check uploads them as they are.

Every upload keeps a report: "clinicaldoc upload report" shows the last one, with what to do. If everything fails in
the same way, the upload pauses, and ends after --max-pause.

Several machines can share the work with --nats: they use one queue and one journal in NATS JetStream, and each
recording becomes one note. The files must have the same absolute paths on all machines.

The output names recordings by the first digits of their keys, because file names may contain patients' names. --reveal
shows file names.`,
		Example: `  clinicaldoc upload --begin --patient 7 --prompt 1 visit.wav
  clinicaldoc upload --patient 7 --prompt 1 --workers 8 recordings/
  clinicaldoc upload --manifest tonight.csv
  clinicaldoc upload report`,
		RunE: func(c *cobra.Command, args []string) error {
			o.paths = args
			if err := o.checkPlace(); err != nil {
				return err
			}
			if o.dry {
				return o.dryRun(c.Context())
			}
			return o.runRecorded(c.Context(), o.recordings)
		},
	}
	o.flags(c, uploadResult{}, checkedRecording{})
	o.uploadFlags(c)
	f := c.Flags()
	f.Int64Var(&o.patient, "patient", 0, "`ID` of the patient whose encounters were recorded")
	f.Int64Var(&o.prompt, "prompt", 0, "`ID` of the prompt to use")
	f.StringVar(&o.manifest, "manifest", "", "a `FILE` that lists the recordings, CSV or JSON lines")
	f.BoolVar(&o.dry, "dry-run", false, "only list files that are cut short or are not recordings; send nothing")
	f.BoolVar(&o.begin, "begin", false, "begin the journal if there is none; needed once per service and user")
	f.IntVar(
		&o.natsReplicas, "nats-replicas", 0,
		"the `NUMBER` of servers that store the journal; with 3, one may be lost (default 1 for a new journal)",
	)
	f.StringArrayVar(
		&o.ignore, "ignore", nil,
		"leave out files in folders that match this `PATTERN`, such as '*.txt', without exit code 9",
	)
	c.AddCommand(
		newUploadReport(e), newUploadResolve(e), newUploadRetry(e), newUploadStatus(e), newUploadSalvage(e),
		newUploadRename(e),
	)
	return c
}

// uploadFlags are those of all commands that upload.
func (o *uploadOptions) uploadFlags(c *cobra.Command) {
	o.placeFlags(c)
	f := c.Flags()
	f.IntVar(&o.workers, "workers", 4, "this `NUMBER` of uploads at a time")
	f.DurationVar(
		&o.settle, "settle", 0,
		"how long the service may still be processing an upload whose response was lost, a `TIME`; 0: 10m",
	)
	f.DurationVar(
		&o.maxPause, "max-pause", 15*time.Minute,
		"how long to pause when everything fails in the same way, a `TIME`; 0: end immediately",
	)
	f.StringVar(
		&o.until, "until", "complete",
		"the `STAGE` at which a recording is done: complete (the note is complete) or uploaded",
	)
	f.DurationVar(
		&o.maxWait, "max-wait", 15*time.Minute, "how long to wait for notes in processing, a `TIME`; 0: check once",
	)
	f.BoolVar(
		&o.unique, "unique-names", false,
		"resolve recordings sooner by their names. Use it only if no two notes of a patient ever have the same name",
	)
	f.BoolVar(&o.trust, "trust-patient-filter", false, "accept rows without a patient when searching for a note")
	f.BoolVar(&o.reveal, "reveal", false, "show the files' names")
	f.BoolVar(&o.unchecked, "skip-recording-check", false, "also upload files that are cut short or are not recordings")
}

// listing returns the recordings to upload.
type listing func(context.Context) ([]ingest.Recording, error)

// runRecorded uploads, and keeps a report of the upload, also if it fails. It needs a folder for reports. If the report
// itself cannot be written, the upload goes on.
func (o *uploadOptions) runRecorded(ctx context.Context, recordings listing) error {
	folder, err := account.StateFolder("reports")
	if err != nil {
		return err
	}
	o.record = report.Begin(folder, version())
	o.record.Run.Command = shellWords("clinicaldoc", o.args)
	o.record.Run.Folder, _ = os.Getwd()
	err = o.run(ctx, recordings)
	run := &o.record.Run
	if err != nil {
		run.Code, run.Error, run.Do = exitCode(ctx, err), errorText(err), kindOf(err).do
		if _, ended := errors.AsType[*runError](err); !ended {
			run.Reason = reasonOf(ctx, err)
		}
		if run.Code > 128 {
			run.Do = "run the same upload again: what is done is not sent twice"
		}
	}
	if failed := o.record.Close(); failed != nil {
		o.IO.Note("clinicaldoc: the report is incomplete, because it could not be written: %s", reason(failed))
	}
	return err
}

func (o *uploadOptions) run(ctx context.Context, list listing) error {
	recordings, err := list(ctx)
	o.plan(recordings)
	if err != nil {
		return err
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	o.record.Run.Service = ingest.ServiceName(client.BaseURL())
	o.record.Update()
	// Also shows that the token works, before anything is sent.
	user, err := client.Users.Me(ctx)
	if err != nil {
		return err
	}
	o.record.Run.UserID = user.ID
	stage, err := o.stage()
	if err != nil {
		return err
	}
	// A reader of the results that ends must not end the upload.
	signal.Ignore(syscall.SIGPIPE)
	run := newUploadRun(o, recordings)
	run.compare = client
	run.stage = stage
	o.showAbove(run.show)
	uploader := &ingest.Uploader{
		Client: client, Workers: o.workers, Total: len(recordings), OnEvent: run.event, MaxPause: o.maxPause,
		SkipRecordingCheck: o.unchecked,
		Find: clinicaldoc.FindCreatedParams{
			Settle: o.settle, UniqueName: o.unique, TrustPatientFilter: o.trust,
		},
	}
	if o.maxPause <= 0 {
		uploader.MaxPause = -1
	}
	uploader.Until = run.stage
	uploader.MaxWait = o.maxWait
	if o.maxWait <= 0 {
		uploader.MaxWait = -1
	}
	if o.nats != "" {
		return run.byFleet(ctx, uploader, client.BaseURL(), user.ID)
	}
	journal, err := o.openJournal(ctx, client.BaseURL(), user.ID)
	if err != nil {
		return err
	}
	o.record.Run.Journal = o.journal
	o.record.Update()
	uploader.Journal = journal
	err = run.all(ctx, uploader)
	return errors.Join(err, journal.Close())
}

// stage is what --until names.
func (o *uploadOptions) stage() (clinicaldoc.Stage, error) {
	switch o.until {
	case "complete":
		return clinicaldoc.StageComplete, nil
	case "uploaded":
		return clinicaldoc.StageUploaded, nil
	}
	return 0, usagef("--until must be complete or uploaded")
}

// plan writes into the report what is to be uploaded, and what was left out.
func (o *uploadOptions) plan(recordings []ingest.Recording) {
	o.record.Run.Total, o.record.Run.Fleet = len(recordings), o.nats != ""
	for _, l := range o.left {
		o.record.AddLeftOut(report.LeftOut(l))
	}
	for i := range recordings {
		if o.nats == "" {
			planned := described(&recordings[i])
			planned.Position = i + 1
			o.record.Plan(planned)
		}
	}
}

// uploadResult is what is printed of a recording.
type uploadResult struct {
	At     time.Time `json:"at"`
	Key    string    `json:"key"`
	Status string    `json:"status"`
	NoteID int64     `json:"note_id,omitempty"`
	Stage  string    `json:"stage,omitempty"` // of the note
	Size   int64     `json:"size,omitempty"`
	Until  time.Time `json:"until,omitzero"`
	Error  string    `json:"error,omitempty"`
	File   string    `json:"file,omitempty"`
	// Position is the place of the recording in the upload, from 1 on.
	Position int `json:"position,omitempty"`
	// Candidates are the ids of the notes that a person should compare.
	Candidates []int64 `json:"candidates,omitempty"`
	// Earlier reports that the recording is one of an earlier upload.
	Earlier bool `json:"earlier,omitempty"`
	// Replaced are the ids of earlier notes of the recording, which was sent again.
	Replaced []int64 `json:"replaced,omitempty"`
}

// uploadSum is the last line of --json.
type uploadSum struct {
	Report       string `json:"report"`
	Recordings   int    `json:"recordings"`
	Created      int    `json:"created"`
	AlreadyThere int    `json:"already_there"`
	Refused      int    `json:"refused"`
	Unresolved   int    `json:"unresolved"`
	Left         int    `json:"not_finished"`
	LeftOut      int    `json:"left_out"`
	Complete     int    `json:"complete"`
	Processing   int    `json:"processing"`
	Failed       int    `json:"failed"`
	SentAgain    int    `json:"sent_again"`
	// Of earlier uploads.
	EarlierComplete   int `json:"earlier_complete"`
	EarlierProcessing int `json:"earlier_processing"`
	EarlierFailed     int `json:"earlier_failed"`
}
