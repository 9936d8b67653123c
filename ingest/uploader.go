package ingest

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Uploader uploads recordings, each to one note, however often it is started and whatever ends it. Client and Journal must
// be set; it must not be changed while it runs. The client's token is always that of one user, the journal's: what the next process
// finds out about an upload that a crash ended is found out in that user's list.
type Uploader struct {
	Client  *clinicaldoc.Client
	Journal Journal
	Workers int // uploads at a time; 0: 4
	// Find configures FindCreated for recordings whose outcome is unknown. Exclude and Unresolved are added to what the journal
	// knows. OnProgress is not called. With WithoutAudio no recording of a note is read, for any purpose.
	Find clinicaldoc.FindCreatedParams
	// AllNew states that nothing but this journal's own uploads can have made notes of the recordings. Otherwise the patient's
	// notes are searched before a recording is uploaded that the journal does not know. A note with the same content is
	// "already there". A note with the same name that cannot be ruled out leaves the recording in doubt. The search costs one
	// list for each patient and run, and prevents a second note if the journal was lost, restored, or begun in another place.
	AllNew bool
	// Until is the stage at which a recording is done. It makes results Complete, Processing or Failed. If it is
	// [clinicaldoc.StageUploaded], a recording is done when its note exists. If zero, it defaults to StageComplete for RunAll,
	// and to StageUploaded for Run.
	Until clinicaldoc.Stage
	// MaxWait is how long a run waits for notes in processing after its last upload. If zero, it defaults to 15 minutes. If
	// negative, the run reads each note once and does not wait.
	MaxWait time.Duration
	// SkipRecordingCheck uploads recordings without looking at their bytes. Otherwise a recording that [CheckRecording] rejects
	// is refused, unless its note exists already. Recordings from AudioReader are never checked.
	SkipRecordingCheck bool
	// MaxPause is how long the run pauses when everything fails in the same way (the service is gone, the token refused, a share
	// not mounted), before it ends with that reason; 0: 15 minutes. Pauses are told by OnEvent. Negative: the run ends at once,
	// and no recording is tried twice: for those who try again themselves.
	MaxPause time.Duration
	// Owner is whose recordings they are, as [OwnerOf] tells of the Client; zero: the service is asked in each run.
	Owner Owner
	// Total is how many recordings there will be, for the estimate of the time left; 0: not known.
	Total int
	// OnEvent, when set, is told what happens. It is called by the goroutine that ranges over the results.
	OnEvent func(Event)
}

const (
	defaultWorkers = 4
	maxWorkers     = 1024
)

func (u *Uploader) workers() int { return cmp.Or(u.Workers, defaultWorkers) }

// Run uploads the recordings and yields a result for each as it ends, in no certain order. One that fails does not end the
// others. One in doubt keeps no worker: FindCreated is asked about it, for ten minutes if need be, while the others go on;
// end the context to wait no longer. What fails for a reason that may pass is tried again a few times.
//
// An error of the whole run is yielded once, last, with a zero Result: the journal cannot be used, everything fails in the
// same way, the context has ended, or the recordings ended with an error, which is found in it by [errors.Is] and
// [errors.As]; what was begun before is finished. What was not begun has no result.
//
// If Until is above StageUploaded, the result of a recording comes when its note has reached that stage, or has failed. Notes
// are looked at now and then during the uploads, and after the last one for up to MaxWait. So are the notes that earlier runs
// left in processing, if the journal can list them ([ProcessingJournal]); see [Result].Earlier. What the run does not see end is
// Processing. Results that wait for their notes are held in memory.
//
// Run ends within 20 seconds after its context, a break or a panic, whatever is under way: uploads are ended, what had been
// sent whole is waited for half that time, and doubts are left to the next run. Recordings are drawn one by one as workers
// become free, in another goroutine: an iterator may wait for the next one, if its wait ends with the context; one that does
// not end is left behind. Memory does not grow with their number.
func (u *Uploader) Run(ctx context.Context, recordings iter.Seq2[Recording, error]) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		if err := u.check(ctx); err != nil {
			yield(Result{}, err)
			return
		}
		r := u.newRun(ctx)
		r.workers.Go(func() { r.feed(recordings) })
		r.workers.Go(r.identify)
		defer r.stop()
		if r.loop(yield) { //nolint:contextcheck // the run has one of its own, which outlives it
			if err := r.failure(); err != nil {
				yield(Result{}, err)
			}
		}
	}
}

func (u *Uploader) check(ctx context.Context) error {
	switch {
	case u.Client == nil || u.Journal == nil:
		return fail("an Uploader needs a Client and a Journal", clinicaldoc.ErrInvalidArgument)
	case u.Workers < 0 || u.Workers > maxWorkers:
		return fail("Workers must be from 0 to 1024", clinicaldoc.ErrInvalidArgument)
	case u.Owner.Service != "" && ServiceName(u.Owner.Service) != ServiceName(u.Client.BaseURL()):
		return fail("Owner is another service's than the Client's", ErrOtherService, clinicaldoc.ErrInvalidArgument)
	case !slices.Contains(untilStages, u.Until):
		return fail("Until must be a stage that can be waited for", clinicaldoc.ErrInvalidArgument)
	case u.Find.Settle < 0:
		return fail("Find.Settle must not be negative", clinicaldoc.ErrInvalidArgument)
	case ctx.Err() != nil:
		return contextFailure(ctx)
	}
	return nil
}

func contextFailure(ctx context.Context) error {
	err := redact.ContextErr(ctx)
	return fail("the run was ended: "+redact.Cause(err), err)
}
