package clinicaldoctest_test

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

func TestParseFault_EveryKind_HasOneName(t *testing.T) {
	t.Parallel()
	for _, kind := range boxlink.FaultKinds {
		text := kind.Name
		if kind.Example != "" {
			text += "=" + kind.Example
		}
		f, err := clinicaldoctest.ParseFault(text)
		require.NoError(t, err, text)
		again, err := clinicaldoctest.ParseFault(f.String())
		require.NoError(t, err, f.String())
		assert.Equal(t, f.String(), again.String())
		assert.NotEmpty(t, kind.Usage)
	}
	for text, fault := range map[string]clinicaldoctest.Fault{
		"status=502:every=20:after=2":   clinicaldoctest.Answer(502, "page").Every(20).After(2),
		"reset-after-request:rate=0.05": clinicaldoctest.ResetAfterRequest().Rate(0.05),
		"429=30s:3":                     clinicaldoctest.TooManyRequests(30 * time.Second).Times(3),
		"delay=2s:always":               clinicaldoctest.Delay(2 * time.Second).Always(),
		"status=504:commit=1m35s":       clinicaldoctest.Answer(504, "").CommitAfter(95 * time.Second),
		"lagging=10s:every=2:5":         clinicaldoctest.Lagging(10 * time.Second).Every(2).Times(5),
		"throttle=60/1m0s":              clinicaldoctest.Throttle(60, time.Minute),
		"slow=100/50ms":                 clinicaldoctest.SlowBody(100, 50*time.Millisecond),
		"truncate=20":                   clinicaldoctest.Truncate(20),
	} {
		assert.Equal(t, text, fault.String())
		parsed, err := clinicaldoctest.ParseFault(text)
		require.NoError(t, err, text)
		assert.Equal(t, text, parsed.String())
	}
}

func TestParseFault_Status_RespondsWithItsText(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.InProcess())
	for status, text := range map[string]string{"status=503": "Service Unavailable", "status=409": "Conflict"} {
		fault, err := clinicaldoctest.ParseFault(status)
		require.NoError(t, err)
		c.srv.Inject(clinicaldoctest.RouteMe, fault)
		a := c.get("/user")
		assert.Equal(t, object{"message": text}, a.object(t))
		assert.Equal(t, "application/json", a.Header.Get("Content-Type"))
	}
}

// ParseFault reads the String of a fault as the same fault, whatever numbers it has.
func TestParseFault_String_IsTheSameFault(t *testing.T) {
	t.Parallel()
	numbers, lengths := []int{-5, 0, 1, 7}, []time.Duration{-time.Second, 0, 1, 90 * time.Second}
	faults := []clinicaldoctest.Fault{
		clinicaldoctest.Reset(), clinicaldoctest.ResetAfterCommit(), clinicaldoctest.ResetAfterRequest(), clinicaldoctest.Silent(),
		clinicaldoctest.Answer(200, ""), clinicaldoctest.Answer(599, "x"),
	}
	for _, d := range lengths {
		faults = append(faults, clinicaldoctest.Delay(d), clinicaldoctest.TooManyRequests(d), clinicaldoctest.Lagging(d))
		for _, n := range numbers {
			faults = append(faults, clinicaldoctest.Throttle(n, d), clinicaldoctest.SlowBody(n, d))
		}
	}
	for _, n := range numbers {
		faults = append(faults, clinicaldoctest.Truncate(n), clinicaldoctest.TruncateChunked(n), clinicaldoctest.Vanish(n), clinicaldoctest.Arrive(n))
	}
	for _, f := range faults {
		variations := []clinicaldoctest.Fault{f, f.Always(), f.Rate(math.NaN()), f.Rate(-1), f.Rate(2), f.Rate(0.5)}
		for _, n := range numbers {
			variations = append(variations, f.Times(n), f.Every(n), f.After(n), f.Every(n).Times(n), f.Rate(0.5).Times(n).After(n).CommitAfter(-1), f.Always().CommitAfter(time.Second))
		}
		for _, fault := range variations {
			parsed, err := clinicaldoctest.ParseFault(fault.String())
			require.NoError(t, err, fault.String())
			assert.Equal(t, fault.String(), parsed.String())
			if !strings.HasPrefix(fault.String(), "status") { // whose body is not told
				assert.Equal(t, fault, parsed)
			}
		}
	}
}

func TestAnswer_InvalidStatus_Panics(t *testing.T) {
	t.Parallel()
	assert.Panics(t, func() { clinicaldoctest.Answer(99, "") })
}

func TestParseFault_InvalidText_IsRejected(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                   "no such kind of fault",
		"explode":            "no such kind of fault",
		"status":             "status needs a status, as in status=503",
		"status=99":          "status needs a status",
		"reset=1":            "reset takes no argument",
		"delay=2":            "delay needs a duration",
		"truncate=-1":        "truncate needs a number, as in truncate=20",
		"throttle=1":         "throttle needs a number and a duration",
		"throttle=0/1s":      "throttle needs a number and a duration",
		"throttle=1/0s":      "throttle needs a number and a duration",
		"throttle=x/1s":      "throttle needs a number and a duration",
		"throttle=1/x":       "throttle needs a number and a duration",
		"reset:-1":           "neither a number of times",
		"reset:every":        "neither a number of times",
		"reset:every=0":      "neither a number of times",
		"reset:rate=1.5":     "neither a number of times",
		"reset:commit=-1s":   "neither a number of times",
		"reset:sometimes=20": "neither a number of times",
	} {
		_, err := clinicaldoctest.ParseFault(text)
		require.ErrorContains(t, err, want, text)
	}
}

// struck returns which of n requests met a fault.
func (c caller) struck(n int) (positions []int) {
	c.t.Helper()
	for i := range n {
		if c.get("/user").StatusCode != http.StatusOK {
			positions = append(positions, i+1)
		}
	}
	return positions
}

func TestFault_EveryAndAfter_StrikeThoseRequests(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.InProcess())
	fault := clinicaldoctest.Answer(http.StatusBadGateway, "")
	c.srv.Inject(clinicaldoctest.RouteMe, fault.Every(3))
	assert.Equal(t, []int{3, 6, 9}, c.struck(10))
	c.srv.ClearFaults()
	c.srv.Inject(clinicaldoctest.RouteMe, fault.Every(3).After(2).Times(2))
	assert.Equal(t, []int{5, 8}, c.struck(20))
	for _, text := range []string{"status=502:every=3:2", "status=502:2:every=3", "status=502:2:rate=1:every=3"} {
		parsed, err := clinicaldoctest.ParseFault(text)
		require.NoError(t, err)
		c.srv.ClearFaults()
		c.srv.Inject(clinicaldoctest.RouteMe, parsed)
		assert.Equal(t, []int{3, 6}, c.struck(20), text)
	}
}

func TestRate_SameSeed_StrikesSameRequests(t *testing.T) {
	t.Parallel()
	strike := func(opts ...clinicaldoctest.Option) []int {
		c := start(t, append(opts, clinicaldoctest.InProcess())...)
		c.srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(http.StatusBadGateway, "").Rate(0.2))
		return c.struck(200)
	}
	first := strike(clinicaldoctest.WithSeed(7))
	assert.InDelta(t, 40, len(first), 20)
	assert.Equal(t, first, strike(clinicaldoctest.WithSeed(7)))
	assert.NotEqual(t, first, strike(clinicaldoctest.WithSeed(8)))
}

func TestRate_ZeroOrNotANumber_NeverStrikes(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.InProcess())
	for _, rate := range []float64{0, math.NaN()} {
		c.srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(http.StatusBadGateway, "").Rate(rate))
		assert.Empty(t, c.struck(20), rate)
	}
}

func TestRate_SeedSetOrFaultsCleared_StartsAgain(t *testing.T) {
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

func TestSetSeed_FaultWithoutRate_GoesOnCounting(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.InProcess())
	c.srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(http.StatusBadGateway, "").After(1))
	assert.Empty(t, c.struck(1))
	c.srv.SetSeed(8)
	assert.Equal(t, []int{1}, c.struck(2))
}

func TestRate_SeveralFaults_AreIndependent(t *testing.T) {
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

// A request that one fault strikes does not count for the faults after it.
func TestFault_BehindAnother_CountsOnlyWhatIsLeft(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.InProcess())
	c.srv.Inject("", clinicaldoctest.Answer(http.StatusBadGateway, "").Every(2))
	c.srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(http.StatusTeapot, "").After(2))
	var got []int
	for range 6 {
		got = append(got, c.get("/user").StatusCode)
	}
	assert.Equal(t, []int{200, 502, 200, 502, 418, 502}, got)
}

func TestFaults_InjectedAndRemoved_AreListed(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.InProcess())
	c.srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(http.StatusBadGateway, "").Times(2))
	c.srv.Inject("", clinicaldoctest.Lagging(time.Second).Always())
	c.struck(5)
	faults := c.srv.Faults()
	require.Len(t, faults, 2)
	assert.Equal(t, clinicaldoctest.RouteMe, faults[0].Route)
	assert.Equal(t, "status=502:2", faults[0].Fault.String())
	assert.Equal(t, 2, faults[0].Struck)
	assert.True(t, faults[0].Spent)
	assert.Equal(t, 3, faults[1].Struck)
	assert.False(t, faults[1].Spent)

	c.srv.RemoveFault(faults[1].ID)
	c.srv.RemoveFault(99)
	assert.Len(t, c.srv.Faults(), 1)
	assert.Equal(t, faults[0].ID, c.srv.Faults()[0].ID)
}

// FuzzParseFault checks that the String of each parsed fault is parsed as the same fault.
func FuzzParseFault(f *testing.F) {
	for _, seed := range []string{"status=503", "429=30s:every=20", "slow=100/50ms:rate=0.05:3", "silent:commit=0s:after=2", "throttle=60/1m", ":::", "delay=-1s", "reset:0x1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fault, err := clinicaldoctest.ParseFault(text)
		if err != nil {
			return
		}
		again, err := clinicaldoctest.ParseFault(fault.String())
		require.NoError(t, err, "%q was read as %q", text, fault)
		assert.Equal(t, fault.String(), again.String())
	})
}
