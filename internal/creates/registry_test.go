package creates_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
)

func view(m *creates.Registry, l creates.Loss) creates.View {
	v := m.View(l)
	v.SameUnderWay, v.SameLost = false, false // by their recordings; see below
	return v
}

func TestCreatesUnderWay(t *testing.T) {
	t.Parallel()
	mine := creates.NewCreate(7, "Visit", 5).Lost("", noon, "")
	for _, tc := range []struct {
		name  string
		other creates.Create
		want  creates.View
	}{
		{"equal", creates.NewCreate(7, "Visit", 5), creates.View{UnderWay: true, EqualUnderWay: true, AlikeUnderWay: true}},
		{"white space aside", creates.NewCreate(7, " Visit ", 5), creates.View{UnderWay: true, EqualUnderWay: true, AlikeUnderWay: true}},
		{"a size not known", creates.NewCreate(7, "Visit", -1), creates.View{UnderWay: true, EqualUnderWay: true, AlikeUnderWay: true}},
		{"another size", creates.NewCreate(7, "Visit", 6), creates.View{UnderWay: true, AlikeUnderWay: true}},
		{"another name", creates.NewCreate(7, "Other", 5), creates.View{UnderWay: true}},
		{"another patient", creates.NewCreate(8, "Visit", 5), creates.View{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var m creates.Registry
			m.Unresolved(mine)
			end := m.Begin(tc.other)
			assert.Equal(t, tc.want, view(&m, mine))
			second := m.Begin(tc.other)
			end()
			assert.Equal(t, tc.want, view(&m, mine), "the second one still is")
			second()
			assert.Equal(t, creates.View{}, view(&m, mine))
		})
	}
}

func TestALossOfUnknownSizeEqualsAll(t *testing.T) {
	t.Parallel()
	var m creates.Registry
	mine := creates.NewCreate(7, "Visit", -1).Lost("", noon, "")
	m.Begin(creates.NewCreate(7, "Visit", 5))
	m.Unresolved(creates.NewCreate(7, "Visit", 6).Lost("", noon, ""))
	assert.Equal(t, creates.View{UnderWay: true, EqualUnderWay: true, AlikeUnderWay: true, EqualLost: true, AlikeLost: true}, view(&m, mine))
}

func TestOtherLosses(t *testing.T) {
	t.Parallel()
	visit := creates.NewCreate(7, "Visit", 5)
	mine := visit.Lost("", noon, "")
	later := noon.Add(time.Minute)
	for _, tc := range []struct {
		name  string
		other creates.Loss
		want  creates.View
	}{
		{"the same", visit.Lost("", noon, ""), creates.View{}},
		{"equal", visit.Lost("", later, ""), creates.View{EqualLost: true, AlikeLost: true}},
		{"equal, before", visit.Lost("", noon.Add(-time.Minute), ""), creates.View{EqualLost: true, AlikeLost: true}},
		{"another size", creates.NewCreate(7, "Visit", 6).Lost("", later, ""), creates.View{AlikeLost: true}},
		{"another name", creates.NewCreate(7, "Other", 5).Lost("", later, ""), creates.View{}},
		{"another patient", creates.NewCreate(8, "Visit", 5).Lost("", later, ""), creates.View{}},
		{"of another day", visit.Lost("", noon.Add(26*time.Hour), ""), creates.View{}},
		{"of the other day", visit.Lost("", noon.Add(-26*time.Hour), ""), creates.View{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var m creates.Registry
			m.Unresolved(mine)
			m.Unresolved(tc.other)
			assert.Equal(t, tc.want, view(&m, mine))
			m.Resolve(tc.other)
			assert.Equal(t, creates.View{}, view(&m, mine), "it made no note")
		})
	}
}

func TestOneNoteForOneLoss(t *testing.T) {
	t.Parallel()
	var m creates.Registry
	a, b := creates.NewCreate(7, "Visit", 5).Lost("", noon, ""), creates.NewCreate(7, "Visit", 5).Lost("", noon.Add(time.Second), "")
	m.Unresolved(a)
	m.Unresolved(b)
	assert.True(t, m.Claim(a, creates.Ref{ID: 70}, false))
	assert.True(t, m.Claim(a, creates.Ref{ID: 70}, false), "asked twice, the same note")
	assert.False(t, m.Claim(b, creates.Ref{ID: 70}, false))
	assert.Equal(t, creates.View{Note: creates.Ref{ID: 70}, EqualLost: true, AlikeLost: true}, view(&m, a))
	assert.Equal(t, creates.View{Claimed: []creates.Ref{{ID: 70}}}, view(&m, b), "what it made is known")
	assert.True(t, m.Claim(b, creates.Ref{ID: 71}, false))
	assert.Equal(t, creates.View{Note: creates.Ref{ID: 71}, Claimed: []creates.Ref{{ID: 70}}}, view(&m, b))
	// One of another process is remembered from when it is found.
	c := creates.NewCreate(7, "Visit", 5).Lost("", noon.Add(time.Hour), "")
	assert.True(t, m.Claim(c, creates.Ref{ID: 72}, false))
	assert.EqualValues(t, 72, m.View(c).Note.ID)
}

func TestItSaysWhatItForgot(t *testing.T) {
	t.Parallel()
	var m creates.Registry
	of := func(i int) creates.Loss {
		return creates.NewCreate(int64(i+1), "Visit", 5).Lost("", noon.Add(time.Duration(i)*time.Second), "")
	}
	for i := range creates.MaxUnresolved {
		m.Unresolved(of(i))
		m.Unresolved(of(i)) // once is enough
	}
	assert.False(t, m.View(of(0)).Forgot)
	assert.True(t, m.Claim(of(0), creates.Ref{ID: 70}, false))
	m.Unresolved(of(creates.MaxUnresolved))
	assert.Zero(t, m.View(of(0)).Note.ID, "the oldest made room")
	assert.True(t, m.View(of(1)).Forgot, "it may have had the same note")
	assert.False(t, m.View(creates.NewCreate(1, "Visit", 5).Lost("", noon.Add(27*time.Hour), "")).Forgot)
}

func TestTheLatestThatWasForgottenCounts(t *testing.T) {
	t.Parallel()
	var m creates.Registry
	late := noon.Add(100 * time.Hour)
	m.Unresolved(creates.NewCreate(1, "Visit", 5).Lost("", late, ""))
	for i := range creates.MaxUnresolved + 1 {
		m.Unresolved(creates.NewCreate(int64(i+2), "Visit", 5).Lost("", noon, ""))
	}
	assert.True(t, m.View(creates.NewCreate(1, "Visit", 5).Lost("", late, "")).Forgot)
}

func TestManyGoroutinesShareIt(t *testing.T) {
	t.Parallel()
	var m creates.Registry
	var claims sync.Map
	var workers sync.WaitGroup
	for worker := range 8 {
		workers.Go(func() {
			for i := range 100 {
				l := creates.NewCreate(7, "Visit", 5).Lost("", noon.Add(time.Duration(100*worker+i)*time.Second), "")
				end := m.Begin(creates.NewCreate(7, "Visit", 5))
				m.Unresolved(l)
				m.View(l)
				if m.Claim(l, creates.Ref{ID: int64(i + 1)}, false) {
					_, twice := claims.LoadOrStore(i, worker)
					assert.False(t, twice, i)
				}
				end()
			}
		})
	}
	workers.Wait()
}
