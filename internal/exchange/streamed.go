package exchange

import (
	"context"
	"net/http"
	"time"
)

// SendStreamed runs deliver, which sends a followed body, in a goroutine of its own, since the source of the body may block.
// This one stays free to end with the context, and to run what the caller wants to have run here.
func (s *SendState) SendStreamed(ctx context.Context, progress func(sent int64), deliver func() (*http.Response, error)) (*http.Response, error) {
	if progress == nil {
		s.upload.progress = nil // waking this goroutine at each read would cost a tenth of an upload's CPU time
	}
	var resp *http.Response
	var err error
	work := GoGuarded(func() { resp, err = deliver() }) //nolint:bodyclose // the caller does, or abandon
	returned := false
	defer func() {
		if !returned { // the context ended, or something of the caller's panicked
			s.abandon(work, &resp)
		}
	}()
	delivered := s.untilDelivered(ctx, progress, work.Done())
	if source := s.upload.exited.Load(); source != nil {
		source.Wait()
	}
	if !delivered {
		return nil, context.Cause(ctx)
	}
	work.Wait()
	if refused := s.upload.refused.Load(); refused != nil && err == nil && resp.StatusCode/100 != 2 {
		return nil, *refused // whatever the server thought of a part of the request
	}
	returned = true
	return resp, err
}

// abandon lets the work end by itself.
func (s *SendState) abandon(work *Guarded, resp **http.Response) {
	s.Watchdog.cancel(errCallOver)
	s.Stop()
	go func() {
		<-work.Done()
		if *resp != nil {
			_ = (*resp).Body.Close()
		}
	}()
}

// untilDelivered runs the caller's callbacks until the request is delivered, and reports whether it was.
func (s *SendState) untilDelivered(ctx context.Context, progress func(sent int64), delivered <-chan struct{}) bool {
	if progress == nil {
		progress = func(int64) {}
	}
	progress(0) // also where the request is on its way already
	for {
		select {
		case <-delivered:
			progress(s.body.Load().left())
			return true
		case <-s.upload.progress:
			progress(s.body.Load().left())
		case reply := <-s.upload.commits:
			s.runCommit(ctx, reply)
		case <-ctx.Done():
			if !s.body.Load().stop() {
				return false
			}
			select {
			case <-delivered:
				return true
			case <-time.After(stopTimeout):
				return false
			}
		}
	}
}

// commit is the fence before the last bytes: it opens when Do's goroutine says so.
func (s *SendState) commit(quit <-chan struct{}) error {
	if s.BeforeCommit == nil {
		return nil
	}
	reply := make(chan error, 1)
	select {
	case s.upload.commits <- reply:
		return <-reply
	case <-quit:
		return errCallOver
	}
}

// runCommit runs BeforeCommit for a body that waits at the fence. The context's end before or while it runs keeps the
// fence shut, and so does an earlier refusal.
func (s *SendState) runCommit(ctx context.Context, reply chan<- error) {
	err := error(errCallOver) // also if it panics
	defer func() { reply <- err }()
	if ctx.Err() != nil || s.upload.refused.Load() != nil {
		return
	}
	s.Watchdog.Pause()
	began := time.Now()
	refusal := s.BeforeCommit(ctx)
	s.upload.held.Add(int64(time.Since(began)))
	s.Watchdog.Progress()
	switch {
	case refusal != nil:
		s.upload.refused.Store(&refusal)
	case ctx.Err() == nil:
		err = nil
	}
}
