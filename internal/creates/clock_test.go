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

func TestReadClocks_DateAndAge_ShowHowFarTheServiceIsAhead(t *testing.T) {
	t.Parallel()
	asked := noon.Add(900 * time.Millisecond)
	came := noon.Add(3100 * time.Millisecond)
	for _, tc := range []struct {
		header http.Header
		want   creates.Clocks
	}{
		{http.Header{}, creates.Clocks{}},
		{http.Header{"Date": {"yesterday"}}, creates.Clocks{}},
		{dated(noon, ""), creates.Clocks{Known: true, AheadUncertainty: 4}}, // the same second in which it was asked
		{dated(noon.Add(3*time.Second), ""), creates.Clocks{Known: true, AheadUncertainty: 1}},
		{dated(noon.Add(-time.Second), ""), creates.Clocks{Known: true, ServiceAhead: -1, AheadUncertainty: 4}},
		{dated(noon.Add(4*time.Second), ""), creates.Clocks{Known: true, ServiceAhead: 1, AheadUncertainty: 1}},
		{dated(noon.Add(-time.Hour), "3601"), creates.Clocks{
			Known: true, CachedFor: 3601 * time.Second, AheadUncertainty: 3,
		}},
		{dated(noon.Add(-time.Hour), "60"), creates.Clocks{
			Known: true, CachedFor: time.Minute, ServiceAhead: -3540, AheadUncertainty: 4,
		}},
		{dated(noon, "-5"), creates.Clocks{Known: true, AheadUncertainty: 4}},
		{dated(noon, "soon"), creates.Clocks{Known: true, AheadUncertainty: 4}},
		{http.Header{"Age": {"9223372036854775807"}}, creates.Clocks{CachedFor: 1 << 31 * time.Second}},
		{http.Header{"Age": {"7"}}, creates.Clocks{CachedFor: 7 * time.Second}},
	} {
		tc.want.Now = came.Unix()
		assert.Equal(t, tc.want, creates.ReadClocks(tc.header, asked, came), "%v", tc.header)
	}
}

// A response may take a second, so a Date of the second before agrees with our clock.
func TestRegistryClocks_MayBeASecondOld(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	m.SawClock(dated(noon, ""), noon.Add(1100*time.Millisecond))
	assert.Equal(t, creates.Clocks{Now: noon.Unix() + 1, Known: true, AheadUncertainty: 2}, m.Clocks(noon))
	m.SawClock(http.Header{}, noon.Add(time.Hour))
	assert.True(t, m.Clocks(noon).Known, "a response without a Date changes nothing")
}

// A create that was lost after our clock was set back counts by the service's clock of that moment. Otherwise another
// machine would take the step for time that has passed.
func TestRegistryClocks_FollowAStepOfOurClock(t *testing.T) {
	t.Parallel()
	for by, want := range map[time.Duration]int64{0: 5, -time.Hour: 3605, time.Hour: 5} {
		m := creates.NewRegistry()
		seen := time.Now()
		m.SawClock(dated(seen.Add(5*time.Second), ""), seen)
		lost := set(seen.Add(7*time.Second), by)
		assert.InDelta(t, want, m.Clocks(lost).ServiceAhead, 1, "%s", by)
	}
}

// set is a time as it is read after the clock was set, which a monotonic clock does not follow.
func set(at time.Time, by time.Duration) time.Time {
	wall := (*uint64)(unsafe.Pointer(&at)) // seconds since 1885 above thirty bits of nanoseconds
	*wall += uint64(by/time.Second) << 30
	return at
}

// A response is as stale as the Age that a cache reports, plus the time that the service's clock has fallen behind
// since it was furthest ahead of ours. The responses arrive in this order: each one may move the furthest.
func TestClocksStaleFor_AgeAndFallenClock_AddUp(t *testing.T) {
	t.Parallel()
	var furthest creates.Clocks
	for _, response := range []struct {
		name   string
		clocks creates.Clocks
		want   time.Duration
	}{
		{"only an Age", creates.Clocks{CachedFor: time.Minute}, time.Minute},
		{"the first Date", creates.Clocks{Known: true, ServiceAhead: 100}, 0},
		{"a second behind, by rounding", creates.Clocks{Known: true, ServiceAhead: 99}, 0},
		{"30s behind", creates.Clocks{Known: true, ServiceAhead: 70}, 30 * time.Second},
		{"30s behind, and an Age", creates.Clocks{
			Known: true, ServiceAhead: 70, CachedFor: time.Minute,
		}, 90 * time.Second},
		{"the furthest ahead, and an Age", creates.Clocks{
			Known: true, ServiceAhead: 110, CachedFor: time.Minute,
		}, time.Minute},
		{"10s behind the new furthest", creates.Clocks{Known: true, ServiceAhead: 100}, 10 * time.Second},
	} {
		assert.Equal(t, response.want, response.clocks.StaleFor(&furthest), response.name)
	}
}

func TestWindowCompare_TimeOfSending_Decides(t *testing.T) {
	t.Parallel()
	const (
		hour = time.Hour
		day  = 24 * time.Hour
	)
	window := creates.Window{Sent: noon.Add(600 * time.Millisecond).Unix(), Settled: noon.Add(10 * time.Minute).Unix()}
	var same creates.Clocks // both clocks agree
	ahead := func(by time.Duration) creates.Clocks { return creates.Clocks{ServiceAhead: int64(by.Seconds())} }
	moved := func(by time.Duration) creates.Clocks {
		return creates.Clocks{FurtherAheadWhenSent: int64(by.Seconds())}
	}
	for _, tc := range []struct {
		name   string
		after  time.Duration // noon, by the service's clock
		clocks creates.Clocks
		want   creates.Made
	}{
		{"the same second", 0, same, creates.MadeSince},
		{"a minute after", time.Minute, same, creates.MadeSince},
		{"a second before", -time.Second, same, creates.MadeBefore},
		{"a second before, within the spread", -time.Second, creates.Clocks{AheadUncertainty: 1}, creates.MadeSince},
		{"two seconds before, beyond the spread", -2 * time.Second, creates.Clocks{
			AheadUncertainty: 1,
		}, creates.MadeBefore},
		{"15 minutes before", -15 * time.Minute, same, creates.MadeBefore},
		{"more than 15 minutes before", -15*time.Minute - time.Second, same, creates.MadeOutside},

		{"26 hours before, times without a zone", -26 * hour, creates.Clocks{MayBeHoursOff: true}, creates.MadeBefore},
		{"longer ago, times without a zone", -26*hour - time.Second, creates.Clocks{
			MayBeHoursOff: true,
		}, creates.MadeOutside},
		{"a date alone, of the day before", -36 * hour, creates.Clocks{
			MayBeHoursOff: true, Zoneless: true,
		}, creates.MadeBefore},
		{"a date alone, with a zone", -36 * hour, creates.Clocks{MayBeHoursOff: true}, creates.MadeOutside},
		{"a date alone, of two days before", -60 * hour, creates.Clocks{
			MayBeHoursOff: true, Zoneless: true,
		}, creates.MadeOutside},
		{"no date alone, longer ago", -36*hour - time.Second, creates.Clocks{
			MayBeHoursOff: true, Zoneless: true,
		}, creates.MadeOutside},
		{"hours before, as notes have appeared", -5 * hour, creates.Clocks{
			NotesBackdatedBy: 5 * 3600,
		}, creates.MadeSince},
		{"days before, as notes have appeared, times without a zone", -40 * hour, creates.Clocks{
			NotesBackdatedBy: 40 * 3600, MayBeHoursOff: true,
		}, creates.MadeSince},
		{"earlier than notes have appeared", -5*hour - time.Second, creates.Clocks{
			NotesBackdatedBy: 5 * 3600,
		}, creates.MadeOutside},

		{"service ahead", hour, ahead(hour), creates.MadeSince},
		{"service ahead, a second before", hour - time.Second, ahead(hour), creates.MadeBefore},
		{"service ahead, 15 minutes before by our clock", -15 * time.Minute, ahead(hour), creates.MadeBefore},
		{"service behind", -hour, ahead(-hour), creates.MadeSince},
		{"service behind, a second before", -hour - time.Second, ahead(-hour), creates.MadeBefore},
		{"service behind, 15 minutes before", -hour - 15*time.Minute, ahead(-hour), creates.MadeBefore},
		{"service behind, longer ago", -hour - 16*time.Minute, ahead(-hour), creates.MadeOutside},
		{"service behind by what looks like less", -3 * time.Second, creates.Clocks{
			ServiceAhead: -2, AheadUncertainty: 1,
		}, creates.MadeSince},

		{"sent by a clock that was fast", -hour, moved(-hour), creates.MadeSince},
		{"sent by a clock that was fast, a second before", -hour - time.Second, moved(-hour), creates.MadeBefore},
		{"sent by a clock that was slow", hour, moved(hour), creates.MadeSince},
		{"sent by a clock that was slow, a second before", hour - time.Second, moved(hour), creates.MadeBefore},

		{"a day later: a local time", day, same, creates.MadeSince},
		{"26 hours after it settled", 10*time.Minute + 26*hour, same, creates.MadeSince},
		{"longer after it settled", 10*time.Minute + 26*hour + time.Second, same, creates.MadeOutside},
		{"26 hours in the future", 3*day + 26*hour, same, creates.MadeOutside},
		{"longer in the future", 3*day + 26*hour + time.Second, same, creates.MadeSince},
		{"longer, service further ahead", 3*day + 26*hour + time.Second, ahead(hour), creates.MadeOutside},
		{"longer, service ahead", 10*time.Minute + 27*hour, ahead(hour), creates.MadeSince},
		{"longer, service ahead no more", 10*time.Minute + 27*hour, moved(hour), creates.MadeSince},
		{"longer, service behind", 10*time.Minute + 26*hour + time.Second, ahead(-hour), creates.MadeOutside},
	} {
		tc.clocks.Now = noon.Add(3 * day).Unix()
		assert.Equal(t, tc.want, window.Compare(noon.Add(tc.after), tc.clocks), tc.name)
	}
	assert.Equal(t, creates.MadeSince, window.Compare(time.Time{}, same), "a note without a time may be of any")
}

func TestWindowInFuture_EitherClock_Decides(t *testing.T) {
	t.Parallel()
	window := creates.Window{Sent: noon.Unix(), Settled: noon.Add(time.Minute).Unix()}
	for _, tc := range []struct {
		now, ahead int64
		want       bool
	}{{0, 0, false}, {5, -5, false}, {0, 5, false}, {0, -1, true}, {-1, 5, true}, {-1, 0, true}} {
		clocks := creates.Clocks{Now: noon.Unix() + tc.now, ServiceAhead: tc.ahead, Known: true}
		assert.Equal(t, tc.want, window.InFuture(clocks), "%+v", tc)
	}
}

// The notes of a date alone may have been made at its end.
func TestWindowPast_DatesAlone_CountADayLater(t *testing.T) {
	t.Parallel()
	window := creates.Window{Sent: noon.Unix(), Settled: noon.Add(time.Minute).Unix()}
	const toMidnight, day = 12 * time.Hour, 24 * time.Hour
	for oldest, past := range map[time.Duration]bool{
		toMidnight + day: false, toMidnight + 2*day: true, toMidnight + day + time.Second: true,
	} {
		made := []time.Time{noon.Add(-toMidnight), noon.Add(-oldest)}
		assert.Equal(t, past, window.Past(made, creates.Clocks{Known: true, Zoneless: true}), oldest)
	}
}

func TestWindowPast_OnlySortedLists_AreDecided(t *testing.T) {
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
		clocks := creates.Clocks{Now: noon.Unix(), ServiceAhead: tc.ahead, Known: true}
		assert.Equal(t, tc.past, window.Past(order, clocks), tc.name)
	}
}

// The service sorts as it is asked to if the list in the other order begins with a note that is not newer than the last
// one seen. Only then may FindCreated stop before the end of the list.
func TestReversedBeginsWithOldest_NewerNote_IsFalse(t *testing.T) {
	t.Parallel()
	var order []time.Time
	assert.False(t, creates.ReversedBeginsWithOldest(order, noon), "nothing was seen")
	order = []time.Time{noon, noon.Add(-time.Hour)}
	sorted := map[time.Duration]bool{0: false, 59 * time.Minute: false, time.Hour: true, 50 * time.Hour: true}
	for ago, want := range sorted {
		assert.Equal(t, want, creates.ReversedBeginsWithOldest(order, noon.Add(-ago)), ago)
	}
	assert.False(t, creates.ReversedBeginsWithOldest(order, time.Time{}), "a note without a time shows nothing")
}
