package contract_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/contract"
)

// bench is a box, an SDK client of its first user, and a record of everything that passed between the two.
type bench struct {
	*clinicaldoctest.Server
	client  *clinicaldoc.Client
	variant clinicaldoctest.Variant

	contract *contract.Contract
	mu       sync.Mutex
	seen     []contract.Exchange
}

// newBench starts a box in which notes are complete as soon as they are created.
func newBench(t *testing.T, variant clinicaldoctest.Variant) *bench {
	t.Helper()
	box := clinicaldoctest.NewServer(clinicaldoctest.WithVariant(variant), clinicaldoctest.WithDelays(clinicaldoctest.Delays{}))
	t.Cleanup(box.Close)
	b := &bench{Server: box, variant: variant, contract: loaded(t)}
	b.client = b.clientWith(t, box.Token)
	return b
}

// clientWith returns a client whose requests and answers are recorded.
func (b *bench) clientWith(t *testing.T, token string) *clinicaldoc.Client {
	t.Helper()
	opts := []clinicaldoc.Option{clinicaldoc.WithHTTPClient(&http.Client{Transport: b.transport(t)})}
	if b.variant.Query != defaultVariant(t).Query { // else the SDK's own names must be right
		opts = append(opts, clinicaldoc.WithQueryNames(clinicaldoc.QueryNames(b.variant.Query)))
	}
	client, err := clinicaldoc.NewClient(b.URL, token, opts...)
	require.NoError(t, err)
	return client
}

// transport records what passes through it, over TCP connections of its own.
func (b *bench) transport(t *testing.T) *contract.Transport {
	t.Helper()
	base, err := url.Parse(b.URL)
	require.NoError(t, err)
	wire := &http.Transport{ExpectContinueTimeout: time.Minute}
	t.Cleanup(wire.CloseIdleConnections)
	names := b.variant.Query
	return &contract.Transport{
		Contract: b.contract,
		Base:     base,
		Next:     wire,
		Observe:  b.record,
		Storage: func(u *url.URL) bool {
			address := u.String()
			return strings.HasPrefix(address, b.StorageURL+"/audio/") || b.variant.LocalDisk && strings.HasPrefix(address, b.URL+"/audio/")
		},
		QueryNames: map[string]string{
			names.PatientID: "patient_id", names.PerPage: "per_page", names.Sort: "sort", names.Page: "page", names.Cursor: "cursor",
		},
	}
}

func (b *bench) record(e contract.Exchange) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = append(b.seen, e)
}

// exchanges returns what was recorded so far.
func (b *bench) exchanges() []contract.Exchange {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.seen)
}

// defaultVariant is the likeliest reading of the description.
func defaultVariant(t *testing.T) clinicaldoctest.Variant {
	t.Helper()
	variant, ok := clinicaldoctest.VariantNamed("default")
	require.True(t, ok)
	return variant
}

var load = sync.OnceValues(contract.Load)

// loaded returns the contract, which all tests share.
func loaded(t *testing.T) *contract.Contract {
	t.Helper()
	c, err := load()
	require.NoError(t, err)
	return c
}
