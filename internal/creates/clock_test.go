package creates_test

import (
	"net/http"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func dated(at time.Time, age string) http.Header {
	h := http.Header{"Date": {at.Format(http.TimeFormat)}}
	if age != "" {
		h.Set("Age", age)
	}
	return h
}

func TestReadClocks(t *testing.T) {
	t.Parallel()
	asked, came := noon.Add(900*time.Millisecond), noon.Add(3100*time.Millisecond)
	for _, tc := range []struct {
		header http.Header
		want   creates.Clocks
	}{
		{http.Header{}, creates.Clocks{}},
		{http.Header{"Date": {"yesterday"}}, creates.Clocks{}},
		{dated(noon, ""), creates.Clocks{Known: true, Spread: 4}}, // the same second in which it was asked
		{dated(noon.Add(3*time.Second), ""), creates.Clocks{Known: true, Spread: 1}},
		{dated(noon.Add(-time.Second), ""), creates.Clocks{Known: true, Ahead: -1, Spread: 4}},
		{dated(noon.Add(4*time.Second), ""), creates.Clocks{Known: true, Ahead: 1, Spread: 1}},
		{dated(noon.Add(-time.Hour), "3601"), creates.Clocks{Known: true, Cached: 3601 * time.Second, Spread: 3}},
		{dated(noon.Add(-time.Hour), "60"), creates.Clocks{Known: true, Cached: time.Minute, Ahead: -3540, Spread: 4}},
		{dated(noon, "-5"), creates.Clocks{Known: true, Spread: 4}},
		{dated(noon, "soon"), creates.Clocks{Known: true, Spread: 4}},
		{http.Header{"Age": {"9223372036854775807"}}, creates.Clocks{Cached: 1 << 31 * time.Second}},
		{http.Header{"Age": {"7"}}, creates.Clocks{Cached: 7 * time.Second}},
	} {
		tc.want.Now = came.Unix()
		assert.Equal(t, tc.want, creates.ReadClocks(tc.header, asked, came), "%v", tc.header)
	}
}

// A response may take a second: a Date of the second before agrees with our clock.
func TestTheClockOfACreateMayBeASecondOld(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	m.SawClock(dated(noon, ""), noon.Add(1100*time.Millisecond))
	assert.Equal(t, creates.Clocks{Now: noon.Unix() + 1, Known: true, Spread: 2}, m.Clocks(noon))
	m.SawClock(http.Header{}, noon.Add(time.Hour))
	assert.True(t, m.Clocks(noon).Known, "what tells nothing changes nothing")
}

// What was lost after our clock was set back was lost by the service's clock of that moment: to another machine, an hour less of it
// would be an hour that has passed.
func TestTheClockOfACreateOutlivesAStepOfOurs(t *testing.T) {
	t.Parallel()
	for by, want := range map[time.Duration]int64{0: 5, -time.Hour: 3605, time.Hour: 5} {
		m := creates.NewRegistry()
		seen := time.Now()
		m.SawClock(dated(seen.Add(5*time.Second), ""), seen)
		lost := set(seen.Add(7*time.Second), by)
		assert.InDelta(t, want, m.Clocks(lost).Ahead, 1, "%s", by)
	}
}

// set is a time as it is read after the clock was set, which a monotonic clock does not follow.
func set(at time.Time, by time.Duration) time.Time {
	wall := (*uint64)(unsafe.Pointer(&at)) // seconds since 1885 above thirty bits of nanoseconds
	*wall += uint64(by/time.Second) << 30
	return at
}

func TestATimeWithoutAZoneMayBeHoursBehind(t *testing.T) {
	t.Parallel()
	window := creates.Window{Sent: noon.Unix(), Settled: noon.Add(10 * time.Minute).Unix()}
	clocks := creates.Clocks{Now: noon.Add(time.Minute).Unix(), Known: true}
	assert.Equal(t, creates.MadeEarlier, window.Made(noon.Add(-12*time.Hour), clocks))
	clocks.Behind = creates.MostBehind
	assert.Equal(t, creates.MadeJustBefore, window.Made(noon.Add(-12*time.Hour), clocks))
	assert.Equal(t, creates.MadeEarlier, window.Made(noon.Add(-13*time.Hour), clocks))
}

// Both may be: a cache that tells the age of what it keeps, and a clock that was set.
func TestHowOldWhatAResponseShowsIs(t *testing.T) {
	t.Parallel()
	var furthest creates.Clocks
	for i, tc := range []struct {
		clocks creates.Clocks
		want   time.Duration
	}{
		{creates.Clocks{Cached: time.Minute}, time.Minute}, // no Date
		{creates.Clocks{Known: true, Ahead: 100}, 0},
		{creates.Clocks{Known: true, Ahead: 99}, 0}, // rounded
		{creates.Clocks{Known: true, Ahead: 70}, 30 * time.Second},
		{creates.Clocks{Known: true, Ahead: 70, Cached: time.Minute}, 90 * time.Second},
		{creates.Clocks{Known: true, Ahead: 110, Cached: time.Minute}, time.Minute},
		{creates.Clocks{Known: true, Ahead: 100}, 10 * time.Second},
	} {
		assert.Equal(t, tc.want, tc.clocks.Stale(&furthest), i)
	}
}

func TestMade(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	window := creates.Window{Sent: noon.Add(600 * time.Millisecond).Unix(), Settled: noon.Add(10 * time.Minute).Unix()}
	at := func(ahead time.Duration) creates.Clocks {
		return creates.Clocks{Now: noon.Add(time.Minute).Unix(), Ahead: int64(ahead.Seconds()), Known: true}
	}
	for _, tc := range []struct {
		name    string
		created time.Time
		clocks  creates.Clocks
		want    creates.Made
	}{
		{"the same second", noon, at(0), creates.MadeSince},
		{"now", noon.Add(time.Minute), at(0), creates.MadeSince},
		{"a second before", noon.Add(-time.Millisecond), at(0), creates.MadeJustBefore},
		{"a second before, or not", noon.Add(-time.Millisecond), creates.Clocks{Now: noon.Add(time.Minute).Unix(), Known: true, Spread: 1}, creates.MadeUnclear},
		{"two seconds before", noon.Add(-2 * time.Second), creates.Clocks{Now: noon.Add(time.Minute).Unix(), Known: true, Spread: 1}, creates.MadeJustBefore},
		{"in the future", noon.Add(time.Minute + time.Second), at(0), creates.MadeAhead},
		{"in a local time ahead", noon.Add(2 * time.Hour), at(0), creates.MadeUnclear},
		{"in a local time behind", noon.Add(-5 * time.Hour), at(0), creates.MadeEarlier},
		{"not known", time.Time{}, at(0), creates.MadeUnclear},
		{"no Date", noon.Add(time.Second), creates.Clocks{Now: noon.Add(time.Minute).Unix()}, creates.MadeUnclear},
		{"no Date, in the future", noon.Add(2 * time.Minute), creates.Clocks{Now: noon.Add(time.Minute).Unix()}, creates.MadeUnclear},
		{"no Date, before", noon.Add(-time.Second), creates.Clocks{Now: noon.Add(time.Minute).Unix()}, creates.MadeJustBefore},
		{"a service an hour ahead", noon.Add(time.Hour), at(time.Hour), creates.MadeSince},
		{"a service an hour ahead, before", noon.Add(time.Hour - time.Second), at(time.Hour), creates.MadeUnclear},
		{"a machine that was an hour slow, before", noon.Add(5 * time.Minute), creates.Clocks{Now: noon.Add(2 * time.Hour).Unix(), Moved: 3600, Known: true}, creates.MadeUnclear},
		{"a machine that was five minutes slow", noon.Add(5 * time.Minute), creates.Clocks{Now: noon.Add(2 * time.Hour).Unix(), Moved: 300, Known: true}, creates.MadeSince},
		{"a machine that was an hour fast", noon.Add(-time.Hour), creates.Clocks{Now: noon.Add(2 * time.Hour).Unix(), Moved: -3600, Known: true}, creates.MadeUnclear},
		{"a machine that was an hour fast, before", noon.Add(-time.Hour - time.Second), creates.Clocks{Now: noon.Add(2 * time.Hour).Unix(), Moved: -3600, Known: true}, creates.MadeJustBefore},
		{"a note that seems five hours old", noon.Add(-5 * time.Hour), creates.Clocks{Now: noon.Add(time.Minute).Unix(), Late: 5 * 3600, Known: true}, creates.MadeUnclear},
		{"a service an hour behind", noon.Add(-time.Hour), at(-time.Hour), creates.MadeUnclear},
		{"a service an hour behind, before", noon.Add(-time.Hour - time.Second), at(-time.Hour), creates.MadeJustBefore},
		{"a service three seconds behind, which looks like two", noon.Add(-3 * time.Second), creates.Clocks{Now: noon.Add(time.Minute).Unix(), Known: true, Ahead: -2, Spread: 1}, creates.MadeUnclear},
		{"15 minutes before", noon.Add(-15 * time.Minute), at(0), creates.MadeJustBefore},
		{"more than 15 minutes before", noon.Add(-15*time.Minute - time.Second), at(0), creates.MadeEarlier},
		{"26 hours before", noon.Add(-26 * time.Hour), at(0), creates.MadeEarlier},
		{"more than 26 hours before", noon.Add(-26*time.Hour - time.Second), at(0), creates.MadeOutside},
		{"more than 26 hours before, a service behind", noon.Add(-26*time.Hour - time.Second), at(-time.Minute), creates.MadeEarlier},
		{"much later", noon.Add(10*time.Minute + 26*time.Hour + time.Second), creates.Clocks{Now: noon.Add(7 * day).Unix(), Known: true}, creates.MadeOutside},
		{"later, a service ahead", noon.Add(10*time.Minute + 27*time.Hour), creates.Clocks{Now: noon.Add(7 * day).Unix(), Ahead: 3600, Known: true}, creates.MadeUnclear},
		{"later", noon.Add(10*time.Minute + 26*time.Hour), creates.Clocks{Now: noon.Add(7 * day).Unix(), Known: true}, creates.MadeUnclear},
		{"as late as can be", noon.Add(10 * time.Minute), creates.Clocks{Now: noon.Add(7 * day).Unix(), Known: true}, creates.MadeSince},
		{"as late as can be, a service ahead", noon.Add(70 * time.Minute), creates.Clocks{Now: noon.Add(7 * day).Unix(), Ahead: 3600, Known: true}, creates.MadeSince},
		{"an hour before, in a local time ahead, asked when that has passed", noon.Add(time.Hour), creates.Clocks{Now: noon.Add(7 * day).Unix(), Known: true}, creates.MadeUnclear},
	} {
		assert.Equal(t, tc.want, window.Made(tc.created, tc.clocks), tc.name)
	}
}

func TestSentInTheFuture(t *testing.T) {
	t.Parallel()
	window := creates.Window{Sent: noon.Unix(), Settled: noon.Add(time.Minute).Unix()}
	for _, tc := range []struct {
		now, ahead   int64
		ours, theirs bool
	}{{0, 0, false, false}, {0, -1, false, true}, {-1, 5, true, false}, {-1, 0, true, true}} {
		ours, theirs := window.Future(creates.Clocks{Now: noon.Unix() + tc.now, Ahead: tc.ahead, Known: true})
		assert.Equal(t, tc.ours, ours, "%+v", tc)
		assert.Equal(t, tc.theirs, theirs, "%+v", tc)
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	window := creates.Window{Sent: noon.Unix(), Settled: noon.Add(time.Minute).Unix()}
	const old = 26*time.Hour + time.Second
	for _, tc := range []struct {
		name  string
		ago   []time.Duration // -1: not known
		ahead int64
		past  bool
	}{
		{"none", nil, 0, false},
		{"one", []time.Duration{old}, 0, false},
		{"newest first", []time.Duration{0, time.Hour, old}, 0, true},
		{"not far enough", []time.Duration{0, time.Hour, old - time.Second}, 0, false},
		{"not far enough for a service behind", []time.Duration{0, time.Hour, old}, -1, false},
		{"far enough for a service ahead", []time.Duration{0, time.Hour, old}, 3600, true},
		{"all of one second", []time.Duration{old, old - time.Nanosecond, old}, 0, false},
		{"equal ones in between", []time.Duration{0, 0, old, old}, 0, true},
		{"in any order within a second", []time.Duration{0, 400 * time.Millisecond, 300 * time.Millisecond, old}, 0, true},
		{"oldest first", []time.Duration{2 * old, old}, 0, false},
		{"once out of order", []time.Duration{0, 2 * time.Hour, time.Hour, old}, 0, false},
		{"one without a time", []time.Duration{0, -1, old}, 0, false},
		{"the last without a time", []time.Duration{0, time.Hour, -1}, 0, false},
	} {
		var order []time.Time
		for _, ago := range tc.ago {
			created := noon.Add(-ago)
			if ago < 0 {
				created = time.Time{}
			}
			order = append(order, created)
		}
		assert.Equal(t, tc.past, window.Past(order, creates.Clocks{Now: noon.Unix(), Ahead: tc.ahead, Known: true}), tc.name)
	}
}

func TestOrderIsFollowed(t *testing.T) {
	t.Parallel()
	var order []time.Time
	assert.False(t, creates.Followed(order, noon), "nothing was seen")
	order = []time.Time{noon, noon.Add(-time.Hour)}
	for ago, followed := range map[time.Duration]bool{0: false, 59 * time.Minute: false, time.Hour: true, 50 * time.Hour: true} {
		assert.Equal(t, followed, creates.Followed(order, noon.Add(-ago)), ago)
	}
	assert.False(t, creates.Followed(order, time.Time{}), "a note without a time shows nothing")
}
