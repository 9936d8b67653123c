package download

import (
	"context"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

// question asks for the recording's size while the recording flows: waiting for it before or afterwards would cost the
// time of a request.
type question struct {
	cancel context.CancelFunc
	work   *exchange.Guarded
	size   int64
}

// askSize asks for the recording's size, once.
func (d *Download) askSize(ctx context.Context) {
	if d.asked != nil || d.source.Size == nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	q := &question{cancel: cancel}
	q.work = exchange.GoGuarded(func() { q.size = d.source.Size(ctx) })
	d.asked = q
}

// knownSize is the recording's size as others than storage tell it, -1 when they do not.
func (d *Download) knownSize(ctx context.Context) int64 {
	d.askSize(ctx)
	if d.asked != nil {
		d.asked.work.Wait()
	}
	return d.heardSize()
}

// heardSize is knownSize if that is known by now, else -1.
func (d *Download) heardSize() int64 {
	if d.asked == nil {
		return -1
	}
	select {
	case <-d.asked.work.Done():
		if d.asked.size > 0 {
			return d.asked.size
		}
	default:
	}
	return -1
}

// Stop ends what the download has begun and does not need any more.
func (d *Download) Stop() {
	if d.asked != nil {
		d.asked.cancel()
		d.asked.work.Wait()
	}
}
