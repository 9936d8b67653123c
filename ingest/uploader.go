package ingest

import (
	"context"
	"iter"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Uploader uploads recordings, each to one note, however often it is started and whatever ends it. Client and Journal must
// be set; it must not be changed while it runs.
type Uploader struct {
	Client  *clinicaldoc.Client
	Journal Journal
	Workers int // uploads at a time; 0: 4
	// Find says how sure FindCreated has to be about recordings in doubt. Its ExcludeIDs are added to the notes that the
	// journal knows of.
	Find clinicaldoc.FindCreatedParams
	// Total is how many recordings there will be, for the estimate of the time left; 0: not known.
	Total int
	// OnEvent, when set, is told what happens. It is called by the goroutine that ranges over the results.
	OnEvent func(Event)
}

const (
	defaultWorkers = 4
	maxWorkers     = 1024
)

// Run uploads the recordings and yields a result for each as it ends, in no certain order. One that fails does not end the
// others. One in doubt keeps no worker: FindCreated is asked about it, for ten minutes if need be, while the others go on;
// end the context to wait no longer.
//
// An error of the whole run is yielded once, last, with a zero Result: the journal cannot be used, the context has ended, or
// the recordings ended with an error, which is found in it by [errors.Is] and [errors.As]; what was begun before is finished.
// What was not begun by then has no result. A break ends the uploads under way; what had been sent whole is waited for
// briefly. Recordings are drawn one by one as workers become free, in another goroutine: an iterator may wait for the next
// one, if its wait ends with the context, for Run ends when the iterator has. Memory does not grow with their number.
func (u *Uploader) Run(ctx context.Context, recordings iter.Seq2[Recording, error]) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		r, err := u.newRun(ctx)
		if err != nil {
			yield(Result{}, err)
			return
		}
		r.start(recordings)
		defer r.stop()
		if r.loop(yield) {
			if err := r.failure(); err != nil {
				yield(Result{}, err)
			}
		}
	}
}

func (u *Uploader) newRun(ctx context.Context) (*run, error) {
	switch {
	case u.Client == nil || u.Journal == nil:
		return nil, fail("an Uploader needs a Client and a Journal", clinicaldoc.ErrInvalidArgument)
	case u.Workers < 0 || u.Workers > maxWorkers:
		return nil, fail("Workers must be from 0 to 1024", clinicaldoc.ErrInvalidArgument)
	case u.Find.Settle < 0:
		return nil, fail("Find.Settle must not be negative", clinicaldoc.ErrInvalidArgument)
	case ctx.Err() != nil:
		return nil, contextFailure(ctx)
	}
	owner, err := OwnerOf(ctx, u.Client)
	if err != nil {
		return nil, err
	}
	binding, err := u.Journal.Bind(ctx, owner)
	if err != nil {
		return nil, err
	}
	r := &run{
		uploader: u, service: binding.Origin, owner: owner, parent: ctx, active: map[Key]*task{},
		drawn: make(chan Recording), halt: make(chan struct{}), jobs: make(chan Recording), again: make(chan *task), messages: make(chan message), finding: make(chan struct{}, 1), quit: make(chan struct{}),
	}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.asking, r.stopAsking = context.WithCancel(r.ctx)
	r.progress = newProgress(u.Total)
	return r, nil
}

func contextFailure(ctx context.Context) error {
	err := redact.ContextErr(ctx)
	return fail("the run was ended: "+redact.Cause(err), err)
}
