package clinicaldoctest_test

import (
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

func TestFault_HeadersAreItsOwn(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.InProcess())
	one := clinicaldoctest.Answer(http.StatusBadGateway, "").WithHeader("X-Custom", "one")
	two := one.WithHeader("X-Custom", "two")
	three := one.WithHeader("X-Custom", "three")
	for _, want := range []struct {
		fault  clinicaldoctest.Fault
		values []string
	}{{one, []string{"one"}}, {two, []string{"one", "two"}}, {three, []string{"one", "three"}}} {
		c.srv.Inject(clinicaldoctest.RouteMe, want.fault)
		assert.Equal(t, want.values, c.get("/user").Header.Values("X-Custom"))
	}
}

func TestFault_EmptyHeaderIsNotSent(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.InProcess())
	c.srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(http.StatusOK, "{}").WithHeader("X-Request-Id", ""))
	assert.NotContains(t, c.get("/user").Header, "X-Request-Id")
	assert.Contains(t, c.get("/user").Header, "X-Request-Id")
}

func TestRate_NotANumberNeverStrikes(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.InProcess())
	c.srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(http.StatusBadGateway, "").Rate(math.NaN()))
	assert.Empty(t, c.struck(20))
}

func TestRate_BeginsAnewWithTheSeedAndAfterClearing(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.InProcess(), clinicaldoctest.WithSeed(7))
	fault := clinicaldoctest.Answer(http.StatusBadGateway, "").Rate(0.5).After(3)
	c.srv.Inject(clinicaldoctest.RouteMe, fault)
	first := c.struck(40)
	require.NotEmpty(t, first)
	c.srv.SetSeed(7)
	assert.Equal(t, first, c.struck(40), "with what it lets pass")
	c.srv.ClearFaults()
	c.srv.Inject(clinicaldoctest.RouteMe, fault)
	assert.Equal(t, first, c.struck(40), "all faults were removed")
}

func TestRate_FaultsHaveChancesOfTheirOwn(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.InProcess())
	fault := clinicaldoctest.Answer(http.StatusBadGateway, "").Rate(0.5)
	c.srv.Inject(clinicaldoctest.RouteMe, fault)
	c.srv.Inject(clinicaldoctest.RouteListTokens, fault)
	var other []int
	for i := range 40 {
		if c.get("/v1/auth/tokens").StatusCode == http.StatusBadGateway {
			other = append(other, i+1)
		}
	}
	assert.NotEqual(t, other, c.struck(40))
}

// What Handler serves has no connection that Close could cut.
func TestClose_EndsASilentRequestOfTheHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess())
		srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Silent())
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/user", nil)
		require.NoError(t, err)
		ended := make(chan any, 1)
		go func() {
			defer func() { ended <- recover() }()
			srv.Handler().ServeHTTP(newRecorder(), req)
		}()
		synctest.Wait()
		assert.Empty(t, ended, "it is silent")
		srv.Close()
		assert.Equal(t, http.ErrAbortHandler, <-ended)
	})
}

func TestClose_WaitsForHandlersWithoutAConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess(), clinicaldoctest.WithMiddleware(func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err == nil {
					_ = conn.Close()
				}
				<-release
			})
		}))
		c := caller{t, srv, srv.Token}
		_, err := c.try(c.request(http.MethodGet, "/user", nil))
		require.Error(t, err)
		closed := make(chan struct{})
		go func() {
			srv.Close()
			close(closed)
		}()
		synctest.Wait()
		select {
		case <-closed:
			assert.Fail(t, "a handler is still running")
		default:
		}
		close(release)
		<-closed
	})
}
