package sending

import (
	"context"
	"net/http"

	"github.com/clinicaldoc/clinicaldoc-go/internal/handover"
)

// Accompany runs deliver, which sends a followed body, in another goroutine, since the source of the body may block. This one
// stays free to end with the context, and to run what the caller wants to have run here.
func (s *State) Accompany(ctx context.Context, progress func(sent int64), deliver func() (*http.Response, error)) (*http.Response, error) {
	var resp *http.Response
	err := error(errCallOver)
	work := handover.Go(func() { resp, err = deliver() }) //nolint:bodyclose // the caller does, or leave
	defer func() {
		select {
		case <-work.Done():
		default: // the context ended, or a callback panicked
			s.leave(work, &resp)
		}
	}()
	if !s.untilDelivered(ctx, progress, work.Done()) {
		return nil, context.Cause(ctx)
	}
	s.body.Load().end.Raise()
	work.Wait()
	return resp, err
}

// leave lets the work end by itself.
func (s *State) leave(work *handover.Work, resp **http.Response) {
	s.Watchdog.Cancel(errCallOver)
	s.Stop()
	go func() {
		<-work.Done()
		if *resp != nil {
			_ = (*resp).Body.Close()
		}
	}()
}

// untilDelivered runs the caller's callbacks until the request is delivered, and reports whether it was.
func (s *State) untilDelivered(ctx context.Context, progress func(sent int64), delivered <-chan struct{}) bool {
	reported := int64(-1)
	report := func(sent int64) {
		if progress != nil && sent != reported {
			reported = sent
			progress(sent)
		}
	}
	report(0)
	for {
		body := s.body.Load()
		select {
		case <-delivered:
			report(body.left())
			return true
		case <-body.progress:
			report(body.left())
		case reply := <-body.commits:
			body.runCommit(ctx, reply)
		case <-ctx.Done():
			if body.stop() {
				<-delivered // nothing blocks it any more
				return true
			}
			return false
		}
	}
}
