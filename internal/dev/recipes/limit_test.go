package recipes

import (
	"golang.org/x/time/rate"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// newLimitedClient returns a client that sends at most perSecond requests a second, retries
// included, with short bursts. Share one limiter among all clients of a process.
func newLimitedClient(perSecond float64) (*clinicaldoc.Client, error) {
	limiter := rate.NewLimiter(rate.Limit(perSecond), 5)
	return clinicaldoc.NewClientFromEnv(clinicaldoc.WithLimiter(limiter))
}
