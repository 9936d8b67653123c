package creates_test

import (
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
)

func view(m *creates.Registry, l creates.Create) creates.View {
	v := m.View(l)
	v.Same = creates.NoOthers // by their recordings; see below
	return v
}

func TestCreatesUnderWay(t *testing.T) {
	t.Parallel()
	mine := creates.NewCreate(7, "Visit", 5, "", noon, "")
	for _, tc := range []struct {
		name  string
		other creates.Create
		want  creates.View
	}{
		{"equal", creates.NewCreate(7, "Visit", 5, "", time.Time{}, ""), creates.View{Sized: creates.EqualUnderWay, Unsized: creates.EqualUnderWay}},
		{"white space aside", creates.NewCreate(7, " Visit ", 5, "", time.Time{}, ""), creates.View{Sized: creates.EqualUnderWay, Unsized: creates.EqualUnderWay}},
		{"a size not known", creates.NewCreate(7, "Visit", -1, "", time.Time{}, ""), creates.View{Sized: creates.EqualUnderWay, Unsized: creates.EqualUnderWay}},
		{"another size", creates.NewCreate(7, "Visit", 6, "", time.Time{}, ""), creates.View{Sized: creates.OthersUnderWay, Unsized: creates.EqualUnderWay}},
		{"another name", creates.NewCreate(7, "Other", 5, "", time.Time{}, ""), creates.View{Sized: creates.OthersUnderWay, Unsized: creates.OthersUnderWay}},
		{"another patient", creates.NewCreate(8, "Visit", 5, "", time.Time{}, ""), creates.View{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := creates.NewRegistry()
			m.Lost(mine)
			end := m.Begin(tc.other)
			assert.Equal(t, tc.want, view(m, mine))
			second := m.Begin(tc.other)
			end()
			assert.Equal(t, tc.want, view(m, mine), "the second one still is")
			second()
			assert.Equal(t, creates.View{}, view(m, mine))
		})
	}
}

func TestALossOfUnknownSizeEqualsAll(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	mine := creates.NewCreate(7, "Visit", -1, "", noon, "")
	m.Begin(creates.NewCreate(7, "Visit", 5, "", time.Time{}, ""))
	m.Lost(creates.NewCreate(7, "Visit", 6, "", noon, ""))
	assert.Equal(t, creates.View{Sized: creates.EqualLost, Unsized: creates.EqualLost}, view(m, mine))
}

func TestOtherLosses(t *testing.T) {
	t.Parallel()
	visit := func(at time.Time) creates.Create { return creates.NewCreate(7, "Visit", 5, "", at, "") }
	mine := visit(noon)
	later := noon.Add(time.Minute)
	for _, tc := range []struct {
		name  string
		other creates.Create
		want  creates.View
	}{
		{"the same", visit(noon), creates.View{}},
		{"equal", visit(later), creates.View{Sized: creates.EqualLost, Unsized: creates.EqualLost}},
		{"equal, before", visit(noon.Add(-time.Minute)), creates.View{Sized: creates.EqualLost, Unsized: creates.EqualLost}},
		{"another size", creates.NewCreate(7, "Visit", 6, "", later, ""), creates.View{Unsized: creates.EqualLost}},
		{"another name", creates.NewCreate(7, "Other", 5, "", later, ""), creates.View{}},
		{"another patient", creates.NewCreate(8, "Visit", 5, "", later, ""), creates.View{}},
		{"of another day", visit(noon.Add(26 * time.Hour)), creates.View{}},
		{"of the other day", visit(noon.Add(-26 * time.Hour)), creates.View{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := creates.NewRegistry()
			m.Lost(mine)
			m.Lost(tc.other)
			assert.Equal(t, tc.want, view(m, mine))
			m.Resolve(tc.other)
			assert.Equal(t, creates.View{}, view(m, mine), "it made no note")
		})
	}
}

func TestOneNoteForOneLoss(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	a, b := creates.NewCreate(7, "Visit", 5, "", noon, ""), creates.NewCreate(7, "Visit", 5, "", noon.Add(time.Second), "")
	m.Lost(a)
	m.Lost(b)
	assert.True(t, m.Claim(a, creates.Ref{ID: 70}, false))
	assert.True(t, m.Claim(a, creates.Ref{ID: 70}, false), "asked twice, the same note")
	assert.False(t, m.Claim(b, creates.Ref{ID: 70}, false))
	assert.Equal(t, creates.View{Note: creates.Ref{ID: 70}, Sized: creates.EqualLost, Unsized: creates.EqualLost}, view(m, a))
	assert.Equal(t, creates.Claimed, m.Knows(b, time.Time{}, nil, creates.Ref{ID: 70}), "what it made is known")
	assert.True(t, m.Claim(b, creates.Ref{ID: 71}, false))
	assert.EqualValues(t, 71, view(m, b).Note.ID)
	assert.True(t, m.Claim(b, creates.Ref{ID: 71}, true))
	assert.Equal(t, creates.Explained, m.Knows(a, time.Time{}, nil, creates.Ref{ID: 71}), "its recording is what the other sent")
	// One of another process is remembered from when it is found.
	c := creates.NewCreate(7, "Visit", 5, "", noon.Add(time.Hour), "")
	assert.True(t, m.Claim(c, creates.Ref{ID: 72}, false))
	assert.EqualValues(t, 72, m.View(c).Note.ID)
}

// What its recording is may be known later: then it is the same loss, and told apart from others by that.
func TestALossWhoseRecordingIsKnownLater(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	visit := func(at time.Time, sha256 string) creates.Create {
		return creates.NewCreate(7, "Visit", 5, "", at, sha256)
	}
	m.Lost(visit(noon, ""))
	assert.Equal(t, creates.View{}, m.View(visit(noon, "first")), "it is no other than itself")
	other := visit(noon.Add(time.Second), "second")
	assert.Equal(t, creates.EqualLost, m.View(other).Same)
	m.Lost(visit(noon, "first"))
	assert.Equal(t, creates.NoOthers, m.View(other).Same)
}

// A note that is found for a loss whose first one was deleted is there.
func TestANoteThatIsFoundAgainIsThere(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	first, second := creates.NewCreate(7, "Visit", 5, "first", noon, ""), creates.NewCreate(7, "Visit", 5, "second", noon, "")
	assert.True(t, m.Claim(first, creates.NewRef(5, noon, ""), false))
	m.SetDeleted(5)
	again := creates.NewRef(5, noon.Add(time.Hour), "")
	assert.True(t, m.Claim(first, again, false))
	assert.Equal(t, creates.Claimed, m.Knows(second, time.Time{}, nil, again))
}

func TestItSaysWhatItForgot(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	of := func(i int) creates.Create {
		return creates.NewCreate(int64(i+1), "Visit", 5, "", noon.Add(time.Duration(i)*time.Second), "")
	}
	for i := range creates.MaxRemembered {
		m.Lost(of(i))
		m.Lost(of(i)) // once is enough
	}
	assert.False(t, m.View(of(0)).Forgot)
	assert.True(t, m.Claim(of(0), creates.Ref{ID: 70}, false))
	m.Lost(of(creates.MaxRemembered))
	assert.Zero(t, m.View(of(0)).Note.ID, "the oldest made room")
	assert.True(t, m.View(of(1)).Forgot, "it may have had the same note")
	assert.False(t, m.View(creates.NewCreate(1, "Visit", 5, "", noon.Add(27*time.Hour), "")).Forgot)
}

func TestTheLatestThatWasForgottenCounts(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	late := noon.Add(100 * time.Hour)
	m.Lost(creates.NewCreate(1, "Visit", 5, "", late, ""))
	for i := range creates.MaxRemembered + 1 {
		m.Lost(creates.NewCreate(int64(i+2), "Visit", 5, "", noon, ""))
	}
	assert.True(t, m.View(creates.NewCreate(1, "Visit", 5, "", late, "")).Forgot)
}

// How late a service's times can be is what the worst of them showed, also after one that was right.
func TestTheWorstTimeOfAServiceCounts(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	m.SawClock(http.Header{"Date": {noon.UTC().Format(http.TimeFormat)}}, noon)
	m.Returned(creates.NewRef(1, noon.Add(-5*time.Hour), ""), noon, noon)
	m.Returned(creates.NewRef(2, noon, ""), noon, noon)
	assert.InDelta(t, 5*3600, m.Clocks(noon).Late, 2)
}

func TestManyGoroutinesShareIt(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	var claims sync.Map
	var workers sync.WaitGroup
	for worker := range 8 {
		workers.Go(func() {
			for i := range 100 {
				l := creates.NewCreate(7, "Visit", 5, "", noon.Add(time.Duration(100*worker+i)*time.Second), "")
				end := m.Begin(creates.NewCreate(7, "Visit", 5, "", time.Time{}, ""))
				m.Lost(l)
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

// Nothing of it belongs to one goroutine: the race detector says so.
func TestManyGoroutinesShareAllOfIt(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	header := http.Header{"Date": {noon.UTC().Format(http.TimeFormat)}}
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for i := range 100 {
				at := noon.Add(time.Duration(i) * time.Second)
				id, token := int64(i+1), strconv.Itoa(i)
				note, l := creates.NewRef(id, at, ""), creates.NewCreate(id, "Visit", 5, "", at, "")
				m.Lost(l)
				m.SawClock(header, at)
				m.Clocks(at)
				m.Returned(note, at, at)
				m.Recordings.Put(note, creates.Recording{Size: 5})
				m.Recordings.Get(note)
				m.SetControl("audio/wav", creates.Control{Note: note})
				m.Controls.Get("audio/wav")
				m.Users.Put(token, id)
				m.Users.Get(token)
				m.Knows(l, time.Time{}, nil, note)
				m.SetDeleted(id)
				m.Note(id)
				m.Resolve(l)
			}
		})
	}
	workers.Wait()
	assert.True(t, m.Clocks(noon).Known)
	assert.EqualValues(t, 100, m.Users.Get("99"))
	assert.Equal(t, creates.View{}, m.View(creates.NewCreate(1, "Visit", 5, "", noon.Add(time.Millisecond), "")), "all are resolved")
}

func TestAddRemembersTheTime(t *testing.T) {
	t.Parallel()
	ids := creates.NewRegistry()
	_, ok := ids.Note(7)
	assert.False(t, ok)
	assert.False(t, has(ids, 7))
	ids.Returned(creates.Ref{ID: 7}, noon, noon)
	at, ok := ids.Note(7)
	assert.True(t, ok)
	assert.Equal(t, noon, at)
	assert.True(t, has(ids, 7))
	assert.False(t, has(ids, 8))
	ids.Returned(creates.Ref{ID: 7}, noon, noon.Add(time.Hour))
	at, _ = ids.Note(7)
	assert.Equal(t, noon.Add(time.Hour), at, "the latest time counts")
}

func TestExpireKeepsTheID(t *testing.T) {
	t.Parallel()
	ids := creates.NewRegistry()
	ids.SetDeleted(7)
	assert.False(t, has(ids, 7))
	ids.Returned(creates.Ref{ID: 7}, noon, noon)
	ids.SetDeleted(7)
	at, ok := ids.Note(7)
	assert.True(t, ok)
	assert.Zero(t, at)
}

func TestTheOldestMakeRoom(t *testing.T) {
	t.Parallel()
	ids := creates.NewRegistry()
	const more = 10
	for id := int64(1); id <= 2*creates.MaxRemembered+more; id++ {
		ids.Returned(creates.Ref{ID: id}, noon, noon)
		ids.Returned(creates.Ref{ID: id}, noon, noon) // an id added twice takes one place
		assert.True(t, has(ids, id))
	}
	for id := int64(1); id <= 2*creates.MaxRemembered+more; id++ {
		assert.Equal(t, id > creates.MaxRemembered+more, has(ids, id), id)
	}
}

func TestManyGoroutinesShareTheReturned(t *testing.T) {
	t.Parallel()
	ids := creates.NewRegistry()
	var workers sync.WaitGroup
	for worker := range int64(8) {
		workers.Go(func() {
			for id := 100*worker + 1; id <= 100*worker+100; id++ {
				ids.Returned(creates.Ref{ID: id}, noon, noon)
				assert.True(t, has(ids, id))
			}
		})
	}
	workers.Wait()
	for id := int64(1); id <= 800; id++ {
		assert.True(t, has(ids, id), id)
	}
}

func TestReturnedSaysWhatItForgot(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	since := func(at time.Duration) bool {
		return m.View(creates.NewCreate(7, "Visit", 5, "", noon.Add(at), "")).Forgot
	}
	for id := range int64(creates.MaxRemembered) {
		m.Returned(creates.Ref{ID: id}, noon, noon.Add(time.Duration(id)*time.Second))
	}
	assert.False(t, since(-time.Hour), "all are remembered")
	m.Returned(creates.Ref{ID: 0}, noon, noon.Add(time.Hour)) // keeps its place
	m.SetDeleted(0)
	m.Returned(creates.Ref{ID: creates.MaxRemembered}, noon, noon)
	assert.True(t, since(time.Hour))
	assert.False(t, since(time.Hour+time.Second), "it was sent later")
	m.Returned(creates.Ref{ID: creates.MaxRemembered + 1}, noon, noon)
	assert.True(t, since(time.Hour), "the latest time counts")
}

func has(m *creates.Registry, id int64) bool {
	_, known := m.Note(id)
	return known
}

// What this client has deleted, or tried to, explains no note that has its id, not even one of the same second.
func TestADeletedNoteExplainsNoOther(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	note := creates.NewRef(3, noon, "")
	l := creates.NewCreate(7, "Visit", 5, "", noon, "")
	m.Returned(note, noon, noon)
	for late, known := range map[time.Duration]creates.Known{-time.Second: creates.Explained, 0: creates.Explained, time.Second: creates.Explained, 2 * time.Second: creates.Reused} {
		assert.Equal(t, known, m.Knows(l, time.Time{}, nil, creates.NewRef(3, noon.Add(late), "")), "a list may round the time")
	}
	m.SetDeleted(3)
	assert.Equal(t, creates.Excluded, m.Knows(l, time.Time{}, nil, note), "nobody knows which of the two it is")
	assert.Equal(t, creates.Excluded, m.Knows(l, time.Time{}, []creates.Ref{note}, note), "whatever the caller has kept")
	m.Returned(note, noon, noon)
	assert.Equal(t, creates.Explained, m.Knows(l, time.Time{}, nil, note), "the next one is this client's too")
}

// The id of a note that this client deleted may be another's in the same second.
func TestAFoundNoteThatWasDeletedExplainsNoOther(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	first := creates.NewCreate(7, "Visit", 1000, "first", noon, "")
	second := creates.NewCreate(7, "Visit", 1000, "second", noon, "")
	note := creates.NewRef(5, noon, "")
	assert.True(t, m.Claim(first, note, true))
	m.Recordings.Put(note, creates.Recording{Size: 1000})
	assert.Equal(t, creates.Explained, m.Knows(second, time.Time{}, nil, note))
	assert.False(t, m.Claim(second, note, true))
	m.SetDeleted(5)
	assert.Equal(t, creates.Excluded, m.Knows(second, time.Time{}, nil, note))
	assert.Equal(t, creates.Excluded, m.Knows(second, time.Time{}, []creates.Ref{{ID: 5}}, note))
	assert.Zero(t, m.Recordings.Get(note))
	assert.Equal(t, note, m.View(first).Note, "that one is still its own")
}
