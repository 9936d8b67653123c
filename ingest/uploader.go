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

// Uploader uploads recordings so that each becomes one note, across crashes and restarts. Client and Journal must be
// set. It must not be changed while it runs. The client's token must always belong to the journal's user: after a
// crash, the next process searches for the note in that user's list.
type Uploader struct {
	Client  *clinicaldoc.Client
	Journal Journal
	Workers int // concurrent uploads; 0: 4
	// Find configures FindCreated for recordings whose outcome is unknown. Exclude and Unresolved are added to what the
	// journal knows. OnProgress is not called. With WithoutAudio no recording of a note is read, for any purpose.
	Find clinicaldoc.FindCreatedParams
	// AllNew states that only this journal's own uploads can have made notes of the recordings. Otherwise the
	// patient's notes are searched before a recording is uploaded that the journal does not know. A note with the same
	// content is "already there". A note with the same name that cannot be ruled out leaves the recording unresolved.
	// The search costs one list for each patient and run, and prevents a second note if the journal was lost,
	// restored, or begun in another place.
	AllNew bool
	// Until is the stage at which a recording is done. It makes results Complete, Processing or Failed. If it is
	// [clinicaldoc.StageUploaded], a recording is done when its note exists. If zero, it defaults to StageComplete for
	// RunAll, and to StageUploaded for Run.
	Until clinicaldoc.Stage
	// MaxWait is how long a run waits for notes in processing after its last upload. If zero, it defaults to 15
	// minutes. If negative, the run reads each note once and does not wait.
	MaxWait time.Duration
	// SkipRecordingCheck uploads recordings without checking their bytes. Otherwise a recording that [CheckRecording]
	// rejects is refused, unless its note exists already. Recordings from AudioReader are never checked.
	SkipRecordingCheck bool
	// MaxPause is how long the run pauses if everything fails in the same way, before it ends with the reason.
	// Examples are an unreachable service, a refused token, and a share that is not mounted. If zero, it defaults
	// to 15 minutes. If negative, the run ends immediately, and no recording is tried twice. OnEvent reports
	// pauses.
	MaxPause time.Duration
	// Owner is the owner of the recordings, as [OwnerOf] returns it for the Client. If zero, each run calls OwnerOf.
	Owner Owner
	// Total is the number of recordings, for the estimate of the time left. If zero, it is not known.
	Total int
	// OnEvent, if not nil, is called with each event, in the goroutine that ranges over the results.
	OnEvent func(Event)
}

const (
	defaultWorkers = 4
	maxWorkers     = 1024
)

func (u *Uploader) workers() int { return cmp.Or(u.Workers, defaultWorkers) }

// Run uploads the recordings and yields a result for each as it ends, in no particular order. A recording that fails
// does not end the others, and temporary failures are tried again a few times. An unresolved recording does not
// occupy a worker: FindCreated searches for its note, for ten minutes if necessary. Cancel the context to wait no
// longer.
//
// An error that ends the run is yielded once, last, with a zero Result. It means that the journal cannot be used, that
// everything fails in the same way, that the context ended, or that the recordings ended with an error. [errors.Is]
// and [errors.As] find that error. Unless the context ended, uploads that were begun are finished. Recordings that
// were not begun have no result.
//
// If Until is above StageUploaded, the result of a recording is yielded when its note has reached that stage, or has
// failed. Run reads the notes from time to time during the uploads, and after the last one for up to MaxWait. It also
// reads the notes that earlier runs left in processing, if the journal can list them ([ProcessingJournal]); see
// [Result].Earlier. Other notes are Processing. Results that wait for their notes are kept in memory.
//
// Run ends within 20 seconds after its context, a break or a panic. It ends the uploads that are not complete, waits
// up to 10 seconds for the responses to the others, and leaves unresolved recordings to the next run. Another
// goroutine draws recordings one by one as workers become free. The iterator may wait for the next one, if its wait
// ends with the context. Memory does not grow with the number of recordings.
func (u *Uploader) Run(ctx context.Context, recordings iter.Seq2[Recording, error]) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		if err := u.check(ctx); err != nil {
			yield(Result{}, err)
			return
		}
		r := u.newRun(ctx)
		r.goroutines.Go(func() { r.feed(recordings) })
		r.goroutines.Go(r.probeService)
		defer r.stop()
		if r.loop(yield) { //nolint:contextcheck // the run has one of its own, which outlives it
			if err := r.failure(); err != nil {
				yield(Result{}, err)
			}
		}
	}
}

// check returns an error if the uploader cannot run, or the context has ended.
func (u *Uploader) check(ctx context.Context) error {
	switch {
	case u.Client == nil || u.Journal == nil:
		return fail("an Uploader needs a Client and a Journal", clinicaldoc.ErrInvalidArgument)
	case u.Workers < 0 || u.Workers > maxWorkers:
		return fail("Workers must be from 0 to 1024", clinicaldoc.ErrInvalidArgument)
	case u.Owner.Service != "" && ServiceName(u.Owner.Service) != ServiceName(u.Client.BaseURL()):
		return fail("Owner names another service than the Client", ErrOtherService, clinicaldoc.ErrInvalidArgument)
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
