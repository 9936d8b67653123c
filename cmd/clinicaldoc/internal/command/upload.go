package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/header"
)

type uploadOptions struct {
	*Env
	format
	paths           []string
	patient, prompt int64
	manifest        string
	workers         int
	journal         string
	status          bool
	settle          time.Duration
	unique, trust   bool
	reveal          bool
	ignore          []string
	left            []leftOut
	nats, natsCreds string
	natsReplicas    int
	natsBegin       bool
}

func newUpload(e *Env) *cobra.Command {
	o := &uploadOptions{Env: e}
	c := &cobra.Command{
		Use: "upload FILE|FOLDER...", Short: "Upload recordings, each to one note",
		Long: `Upload recordings, each to one note: a journal on disk remembers what became of each, so that the same command can be run
again after whatever ended it. What is done is not sent again, what is in doubt is asked about first.

Of folders, files that are called as audio is (.wav, .mp3, .m4a, .ogg, .flac, .dss ...) are taken, those of folders inside too.
What else is there is left out, counted, and makes exit code 9, unless it is hidden or --ignore names it.
A manifest says more about each: a CSV file with the columns file, patient, prompt and name, of which patient, prompt and
name may be missing where the flags say them. A note is named after its file otherwise.

Several machines can share the work: with --nats they keep one journal in NATS JetStream, and each recording becomes one note
whichever of them sends it.

Recordings are told by their number in the order of their paths: file names may be patients' names. --reveal shows them.`,
		Example: `  clinicaldoc upload --patient 7 --prompt 1 visit.wav
  clinicaldoc upload --patient 7 --prompt 1 --workers 8 recordings/
  clinicaldoc upload --manifest tonight.csv
  clinicaldoc upload --nats nats://queue.example:4222 --nats-begin --patient 7 --prompt 1 /mnt/shared
  clinicaldoc upload --status`,
		RunE: func(c *cobra.Command, args []string) error {
			o.paths = args
			if err := o.checkNATS(); err != nil {
				return err
			}
			if o.status {
				return o.runStatus(c.Context())
			}
			return o.run(c.Context())
		},
	}
	o.flags(c, uploadResult{})
	f := c.Flags()
	f.Int64Var(&o.patient, "patient", 0, "`ID` of the patient whose encounters were recorded")
	f.Int64Var(&o.prompt, "prompt", 0, "`ID` of the prompt to use")
	f.StringVar(&o.manifest, "manifest", "", "a CSV `FILE` that lists the recordings")
	f.IntVar(&o.workers, "workers", 4, "this `NUMBER` of uploads at a time")
	f.StringVar(&o.journal, "journal", "", "keep the journal in this `FILE` (default one for each service and user, in the state folder)")
	f.StringVar(&o.nats, "nats", "", "share the journal of a fleet on the NATS server at this `URL` (also CLINICALDOC_NATS)")
	f.StringVar(&o.natsCreds, "nats-creds", "", "a `FILE` with the credentials for it")
	f.IntVar(&o.natsReplicas, "nats-replicas", 0, "the `NUMBER` of servers that keep the journal; 3 survive the loss of one (default 1 for a new one)")
	f.BoolVar(&o.natsBegin, "nats-begin", false, "begin the fleet's journal if there is none, which is done once")
	f.BoolVar(&o.status, "status", false, "only tell what the journal knows; asks the service nothing")
	f.DurationVar(&o.settle, "settle", 0, "how long the service may still be at work on an upload whose response was lost, a `TIME`; 0: 10m")
	f.BoolVar(&o.unique, "unique-names", false, "vouch that no other note of a patient has or will have the same name: settles doubts sooner")
	f.BoolVar(&o.trust, "trust-patient-filter", false, "take rows that name no patient when a note is looked for")
	f.StringArrayVar(&o.ignore, "ignore", nil, "files of folders that are no recordings are expected to be called so, a `PATTERN` such as '*.txt'")
	f.BoolVar(&o.reveal, "reveal", false, "show the files' names")
	return c
}

func (o *uploadOptions) run(ctx context.Context) error {
	recordings, err := o.recordings()
	if err != nil {
		return err
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	// Also shows that the token works, before anything is sent.
	user, err := client.Users.Me(ctx)
	if err != nil {
		return err
	}
	journal, closeJournal, err := o.openJournal(ctx, client.BaseURL(), user.ID)
	if err != nil {
		return err
	}
	// A reader of the results that ends must not end the upload.
	signal.Ignore(syscall.SIGPIPE)
	run := newUploadRun(o, recordings)
	err = run.all(ctx, &ingest.Uploader{
		Client: client, Journal: journal, Workers: o.workers, Total: len(recordings), OnEvent: run.event,
		Find: clinicaldoc.FindCreatedParams{Settle: o.settle, UniqueName: o.unique, TrustPatientFilter: o.trust},
	})
	return errors.Join(err, closeJournal())
}

// journalName tells accounts apart. A service has one name, however its address is written.
func journalName(baseURL string, userID int64) string {
	sum := sha256.Sum256([]byte(header.Service(baseURL)))
	return fmt.Sprintf("%s-user%d", hex.EncodeToString(sum[:6]), userID)
}

// uploadResult is what is printed of a recording.
type uploadResult struct {
	Number int       `json:"number"`
	Status string    `json:"status"`
	NoteID int64     `json:"note_id,omitempty"`
	Size   int64     `json:"size,omitempty"`
	Until  time.Time `json:"until,omitzero"`
	Error  string    `json:"error,omitempty"`
	File   string    `json:"file,omitempty"`
}
