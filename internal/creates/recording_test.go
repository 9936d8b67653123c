package creates_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
)

func TestRecordingCompare_HashOrSizeDecides(t *testing.T) {
	t.Parallel()
	const sum = "aa"
	type recording = creates.Recording
	for _, tc := range []struct {
		name string
		got  recording
		size int64 // of what was sent
		sum  string
		want creates.Match
	}{
		{"nothing is known of it", recording{}, 5, sum, creates.Unread},
		{"nothing is known of what was sent", recording{SHA256: sum, Size: 5}, 5, "", creates.Unread},
		{"nothing is known of either", recording{}, 5, "", creates.Unread},
		{"the same bytes", recording{SHA256: sum}, 5, sum, creates.Equal},
		{"the same bytes, no size was kept", recording{SHA256: sum, Size: 5}, 0, sum, creates.Equal},
		{"the same bytes, of which the size was kept wrongly", recording{SHA256: sum, Size: 5}, 6, sum, creates.Equal},
		{"other bytes", recording{SHA256: "bb"}, 5, sum, creates.Differs},
		{"other bytes of the same size", recording{SHA256: "bb", Size: 5}, 5, sum, creates.Differs},
		{"a shorter one", recording{Size: 4}, 5, sum, creates.Differs},
		{"a longer one", recording{Size: 6}, 5, sum, creates.Differs},
		{"the same size alone", recording{Size: 5}, 5, sum, creates.Unread},
		{"another size, but that of what was sent is not known", recording{Size: 4}, -1, sum, creates.Unread},
		{"longer than what was sent", recording{LongerThan: 5}, 5, sum, creates.Differs},
		{"longer than a shorter one that was compared before", recording{LongerThan: 4}, 5, sum, creates.Unread},
		{"longer, but the size of what was sent is not known", recording{LongerThan: 5}, 0, sum, creates.Unread},
	} {
		assert.Equal(t, tc.want, tc.got.Compare(tc.size, tc.sum), tc.name)
	}
}

func TestReading_BoundsALook(t *testing.T) {
	t.Parallel()
	var r creates.Reading
	r.Begin(noon)
	assert.True(t, r.MayRead(noon.Add(5*time.Minute-1)))
	assert.False(t, r.MayRead(noon.Add(5*time.Minute)), "it took too long")
	for range 3 {
		assert.True(t, r.MayRead(noon))
		r.Failed(true)
	}
	assert.False(t, r.MayRead(noon), "three recordings failed")
	assert.True(t, r.MayReadLater())

	later := noon.Add(time.Hour)
	r.Begin(later)
	assert.True(t, r.MayRead(later.Add(time.Minute)), "the next look has its own bounds")
	r.Failed(false)
	assert.False(t, r.MayRead(later), "storage does not work")
}

func TestReading_PausesLongerAfterEachLookWithFailures(t *testing.T) {
	t.Parallel()
	var r creates.Reading
	at := noon
	for _, pause := range []time.Duration{4 * time.Second, 8 * time.Second, 16 * time.Second} {
		r.Begin(at)
		assert.True(t, r.MayRead(at))
		r.Failed(true)
		r.Failed(true)
		assert.True(t, r.MayRead(at), "others may be stored")
		r.Begin(at.Add(pause - 1))
		assert.False(t, r.MayRead(at.Add(pause-1)))
		assert.True(t, r.MayReadLater())
		at = at.Add(pause)
	}
	r.Begin(at)
	r.Done()
	at = at.Add(time.Hour)
	r.Begin(at)
	assert.True(t, r.MayRead(at))
}

func TestReading_PausesAfterOneFailure(t *testing.T) {
	t.Parallel()
	for _, missing := range []bool{true, false} {
		var r creates.Reading
		r.Begin(noon)
		r.Failed(missing)
		r.Begin(noon.Add(4*time.Second - 1))
		assert.False(t, r.MayRead(noon.Add(4*time.Second-1)), "missing: %t", missing)
		r.Begin(noon.Add(4 * time.Second))
		assert.True(t, r.MayRead(noon.Add(4*time.Second)), "missing: %t", missing)
	}
}

func TestReading_BoundsASearch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		count func(*creates.Reading)
		most  int
	}{
		"recordings that were read":                    {(*creates.Reading).Done, 30},
		"recordings that are not stored yet":           {func(r *creates.Reading) { r.Failed(true) }, 30},
		"recordings that failed in another way":        {func(r *creates.Reading) { r.Failed(false) }, 6},
		"one read and one not stored yet, alternately": {func(r *creates.Reading) { r.Done(); r.Failed(true) }, 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r creates.Reading
			at := noon
			for range tc.most {
				r.Begin(at)
				require.True(t, r.MayRead(at))
				require.True(t, r.MayReadLater())
				tc.count(&r)
				at = at.Add(1000 * time.Hour)
			}
			r.Begin(at)
			assert.False(t, r.MayRead(at))
			assert.False(t, r.MayReadLater())
		})
	}
}
