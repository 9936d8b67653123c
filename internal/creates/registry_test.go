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

const (
	sumA = "aa" // of one recording
	sumB = "bb" // of another
)

// sent is a create of patient 7 that was sent some time after noon, and was given that id.
func sent(id string, after time.Duration, name string, size int64, sum string) creates.Create {
	return creates.NewCreate(7, name, size, id, noon.Add(after), sum)
}

// viewed returns what a registry that remembers these lost creates knows of mine.
func viewed(mine creates.Create, lost ...creates.Create) creates.View {
	m := creates.NewRegistry()
	m.AddLost(mine)
	for _, other := range lost {
		m.AddLost(other)
	}
	return viewOf(m, mine)
}

// viewOf returns what a registry knows of mine, whose note is identified by its recording. The caller knows of no other
// lost creates.
func viewOf(m *creates.Registry, mine creates.Create) creates.View { return m.View(mine, nil, false) }

// A create is known by its id, or else by what was sent and when, as precisely as both times are known.
func TestRegistry_SameCreate(t *testing.T) {
	t.Parallel()
	const fraction = 345 * time.Millisecond
	mine := sent("one", fraction, "Visit", 5, "")
	anonymous := sent("", fraction, "Visit", 5, "")
	for name, tc := range map[string]struct {
		mine, other creates.Create
		same        bool
	}{
		"same id":                            {mine, sent("one", 0, "Other", 9, ""), true},
		"other id":                           {mine, sent("two", fraction, "Visit", 5, ""), false},
		"no id":                              {mine, anonymous, true},
		"no ids":                             {anonymous, anonymous, true},
		"no id, less than a millisecond off": {mine, sent("", fraction+time.Microsecond, "Visit", 5, ""), true},
		"no id, a millisecond off":           {mine, sent("", fraction+time.Millisecond, "Visit", 5, ""), false},
		"no id, whole second":                {mine, sent("", 0, "Visit", 5, ""), true},
		"no id, whole second asked about":    {sent("", 0, "Visit", 5, ""), mine, true},
		"no id, other whole second":          {mine, sent("", time.Second, "Visit", 5, ""), false},
		"no id, other name":                  {mine, sent("", fraction, "Other", 5, ""), false},
		"no id, name with white space":       {mine, sent("", fraction, " Visit ", 5, ""), true},
		"no id, other size":                  {mine, sent("", fraction, "Visit", 6, ""), false},
		"no id, other patient": {
			mine, creates.NewCreate(8, "Visit", 5, "", noon.Add(fraction), ""), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := creates.NewRegistry()
			m.AddLost(tc.other)
			m.Claim(tc.other, creates.Ref{ID: 70})
			assert.Equal(t, tc.same, m.ClaimedNote(tc.mine).ID == 70)
		})
	}
}

// Another create may have made the matching note if its recording, or its unique name, is not known to be another.
func TestRegistryView_Twin(t *testing.T) {
	t.Parallel()
	const minute = time.Minute
	patient8 := creates.NewCreate(8, "Visit", 5, "other", noon.Add(minute), sumA)
	for name, tc := range map[string]struct {
		mine, other creates.Create
		twin        bool
		byName      bool // with a unique name
	}{
		"same recording":             {sent("me", 0, "Visit", 5, sumA), sent("other", minute, "Visit", 5, sumA), true, true},
		"other recording":            {sent("me", 0, "Visit", 5, sumA), sent("other", minute, "Visit", 5, sumB), false, true},
		"same recording, other name": {sent("me", 0, "Visit", 5, sumA), sent("other", minute, "Other", 5, sumA), true, false},
		"name in other letters": {
			sent("me", 0, "Größe", 5, sumA), sent("other", minute, "Gro\u0308ße", 5, sumB), false, true,
		},
		"same size":        {sent("me", 0, "Visit", 5, sumA), sent("other", minute, "Other", 5, ""), true, false},
		"other size":       {sent("me", 0, "Visit", 5, sumA), sent("other", minute, "Visit", 6, ""), false, true},
		"unknown size":     {sent("me", 0, "Visit", 5, sumA), sent("other", minute, "Other", -1, ""), true, false},
		"own size unknown": {sent("me", 0, "Visit", -1, ""), sent("other", minute, "Other", 6, sumB), true, false},
		"other patient":    {sent("me", 0, "Visit", 5, sumA), patient8, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for byName, isTwin := range map[bool]bool{false: tc.twin, true: tc.byName} {
				want := creates.NoTwin
				wantUnderWay := creates.NoTwin
				if isTwin {
					want = creates.TwinLost
					wantUnderWay = creates.TwinUnderWay
				}
				m := creates.NewRegistry()
				assert.Equal(t, want, m.View(tc.mine, []creates.Create{tc.other}, byName).Twin, "the caller knows of it")
				end := m.Begin(tc.other)
				assert.Equal(t, wantUnderWay, m.View(tc.mine, nil, byName).Twin, "it is under way")
				end()
				assert.Zero(t, m.View(tc.mine, nil, byName), "it has ended")
				m.AddLost(tc.other)
				assert.Equal(t, want, m.View(tc.mine, nil, byName).Twin, "it is lost")
				m.Resolve(tc.other)
				assert.Zero(t, m.View(tc.mine, nil, byName), "it was not created")
			}
		})
	}
}

// A lost create stays lost, so it counts for more than one that is under way.
func TestRegistryView_LostTwinOutweighsOneUnderWay(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	mine := sent("me", 0, "Visit", 5, sumA)
	m.AddLost(sent("other", time.Minute, "Visit", 5, sumA))
	m.Begin(sent("", 0, "Visit", 5, sumA))
	assert.Equal(t, creates.TwinLost, m.View(mine, nil, false).Twin)
}

func TestRegistryView_UnderWay(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	mine := sent("me", 0, "Visit", 5, sumA)
	m.Begin(creates.NewCreate(8, "Visit", 5, "", time.Time{}, ""))
	assert.False(t, m.View(mine, nil, false).AnotherUnderWay, "for another patient")
	first := m.Begin(sent("", 0, "Other", 6, ""))
	second := m.Begin(sent("", 0, "Other", 6, ""))
	assert.Equal(t, creates.View{AnotherUnderWay: true}, m.View(mine, nil, false), "it cannot have made the same note")
	first()
	assert.True(t, m.View(mine, nil, false).AnotherUnderWay, "the second one still is")
	second()
	assert.False(t, m.View(mine, nil, false).AnotherUnderWay)
}

// Creates that were sent more than a day apart do not concern each other.
func TestRegistryView_OtherDay(t *testing.T) {
	t.Parallel()
	mine := sent("me", 0, "Visit", 5, sumA)
	const day = 26 * time.Hour
	near := creates.View{Twin: creates.TwinLost, Recordings: []string{sumA}}
	for after, want := range map[time.Duration]creates.View{
		day: {}, -day: {}, day - time.Millisecond: near, -day + time.Millisecond: near,
	} {
		other := sent("other", after, "Visit", 5, sumA)
		assert.Equal(t, want, viewed(mine, other), "lost %s later", after)
		assert.Equal(t, want, creates.NewRegistry().View(mine, []creates.Create{other}, false), "%s later", after)
	}
}

// View contains the hashes of the recordings that the patient's other lost creates sent, so their notes are not taken
// for this one's. These are the creates that the registry remembers, also after their note was found, and those that
// only the caller knows.
func TestRegistryView_OtherLostCreates_HasTheirHashes(t *testing.T) {
	t.Parallel()
	mine := sent("mine", 0, "Visit", 5, sumA)
	resolved := sent("resolved", time.Minute, "Visit", 5, sumB)
	withoutHash := sent("without hash", time.Minute, "Visit", 6, "")
	ofOtherPatient := creates.NewCreate(8, "Visit", 5, "of another patient", noon, "dd")
	knownToCaller := sent("known to the caller", time.Minute, "Visit", 9, "cc")
	m := creates.NewRegistry()
	m.AddLost(mine)
	m.AddLost(withoutHash)
	m.AddLost(ofOtherPatient)
	assert.True(t, m.Claim(resolved, creates.Ref{ID: 70}), "its note is found")
	// The caller may also list mine, and one that is resolved by now: neither is counted again.
	unresolved := []creates.Create{mine, resolved, knownToCaller}
	assert.Equal(t, creates.View{Recordings: []string{sumB, "cc"}}, m.View(mine, unresolved, false))
}

// A recording may be hashed only later. From then on the hash distinguishes its create from others.
func TestRegistryAddLost_LearnsTheRecording(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	other := sent("other", time.Second, "Visit", 5, sumB)
	m.AddLost(sent("me", 0, "Visit", 5, ""))
	assert.Equal(t, creates.TwinLost, m.View(other, nil, false).Twin)
	m.AddLost(sent("me", 0, "Visit", 5, sumA))
	assert.Equal(t, creates.View{Recordings: []string{sumA}}, m.View(other, nil, false))
	m.AddLost(sent("me", 0, "Visit", 5, ""))
	assert.Equal(t, creates.View{Recordings: []string{sumA}}, m.View(other, nil, false), "it is not forgotten")
}

func TestRegistryLearnRecording_AddsItToALostCreate(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	mine := sent("me", 0, "Visit", 5, sumA)
	other := sent("other", time.Second, "Visit", 5, "")
	m.LearnRecording(sent("other", time.Second, "Visit", 5, sumB))
	assert.Zero(t, m.View(mine, nil, false), "it is not remembered")
	m.AddLost(other)
	m.LearnRecording(sent("third", time.Second, "Visit", 5, "cc"))
	assert.Equal(t, creates.View{Twin: creates.TwinLost}, m.View(mine, nil, false))
	m.LearnRecording(sent("other", time.Second, "Visit", 5, sumB))
	m.LearnRecording(other)
	assert.Equal(t, creates.View{Recordings: []string{sumB}}, m.View(mine, nil, false))
}

func TestRegistryClaim_OneNoteForOneCreate(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	first := sent("first", 0, "Visit", 5, "")
	second := sent("second", time.Second, "Visit", 5, "")
	m.AddLost(first)
	m.AddLost(second)
	note := creates.NewRef(70, noon, "")
	assert.True(t, m.Claim(first, note))
	assert.True(t, m.Claim(first, note), "it is asked about again")
	assert.False(t, m.Claim(second, note))
	assert.False(t, m.Claim(second, creates.NewRef(70, noon.Add(time.Second), "")), "the time was rounded")
	assert.Equal(t, note, m.ClaimedNote(first))
	assert.Zero(t, m.ClaimedNote(second))
	assert.Equal(t, creates.NoTwin, m.View(second, nil, false).Twin, "the note of the first is known")
	assert.Equal(t, creates.NoTwin, m.View(second, []creates.Create{first}, false).Twin, "whatever the caller lists")
	assert.True(t, m.Claim(second, creates.NewRef(70, noon.Add(time.Minute), "")), "another note has its id")

	other := sent("other process", time.Hour, "Visit", 5, "")
	assert.True(t, m.Claim(other, creates.Ref{ID: 72}), "it is remembered from when it is found")
	assert.EqualValues(t, 72, m.ClaimedNote(other).ID)
}

// A create that the caller constructed has no id, so two lost creates of one second can be the same one.
func TestRegistryClaimedNote_CreateWithoutID_IsTheNoteItClaimed(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	m.AddLost(sent("first", 0, "Visit", 5, ""))
	m.AddLost(sent("second", 0, "Visit", 5, ""))
	constructed := sent("", 0, "Visit", 5, "")
	note := creates.NewRef(70, noon, "")
	assert.True(t, m.Claim(constructed, note))
	assert.Equal(t, note, m.ClaimedNote(constructed))
	m.Unclaim(constructed)
	assert.Zero(t, m.ClaimedNote(constructed))
}

// A create that gives its note back is lost again, and another may claim the note.
func TestRegistryUnclaim_FreesTheNote(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	first := sent("first", 0, "Visit", 5, sumA)
	second := sent("second", time.Second, "Visit", 5, sumA)
	note := creates.NewRef(70, noon, "")
	assert.True(t, m.Claim(first, note))
	m.Unclaim(first)
	assert.Zero(t, m.ClaimedNote(first))
	assert.False(t, m.Explains(second, noon, note))
	want := creates.View{Twin: creates.TwinLost, Recordings: []string{sumA}}
	assert.Equal(t, want, viewOf(m, second), "first is unresolved again, and its recording is known")
	assert.True(t, m.Claim(second, note))
}

// When a lost create is forgotten, any create that was sent about as late may have had it for a twin.
func TestRegistryView_ForgottenCreateIsATwin(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	of := func(i int) creates.Create {
		return creates.NewCreate(int64(i+1), "Visit", 5, "", noon.Add(time.Duration(i)*time.Second), "")
	}
	for i := range creates.MaxRemembered {
		m.AddLost(of(i))
		m.AddLost(of(i)) // takes one place
	}
	assert.True(t, m.Claim(of(0), creates.Ref{ID: 70}))
	assert.Zero(t, m.View(of(1), nil, false))
	m.AddLost(of(creates.MaxRemembered))
	assert.Zero(t, m.ClaimedNote(of(0)).ID, "the oldest made room")
	assert.Equal(t, creates.TwinLost, m.View(of(1), nil, false).Twin)
	assert.Equal(t, creates.TwinLost, m.View(of(1), nil, true).Twin)
	later := creates.NewCreate(1, "Visit", 5, "", noon.Add(26*time.Hour+time.Millisecond), "")
	assert.Zero(t, m.View(later, nil, false))
}

func TestRegistryView_LatestForgottenCreateCounts(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	late := noon.Add(100 * time.Hour)
	m.AddLost(creates.NewCreate(1, "Visit", 5, "", late, ""))
	for i := range creates.MaxRemembered + 1 {
		m.AddLost(creates.NewCreate(int64(i+2), "Visit", 5, "", noon, ""))
	}
	assert.Equal(t, creates.TwinLost, m.View(creates.NewCreate(1, "Visit", 5, "", late, ""), nil, false).Twin)
}

// A note that Create returned comes from that create. One with its id may be another note.
func TestRegistryExplains_ReturnedNote(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		note creates.Ref
		sent time.Duration // after the note was returned
		want bool
	}{
		"it":                                     {creates.NewRef(3, noon, "a"), 0, true},
		"other id":                               {creates.NewRef(4, noon, "a"), 0, false},
		"other tenant":                           {creates.NewRef(3, noon, "b"), 0, false},
		"no time":                                {creates.NewRef(3, time.Time{}, "a"), 0, true},
		"a second earlier: rounded":              {creates.NewRef(3, noon.Add(-time.Second), "a"), time.Second, true},
		"a second later, sent before":            {creates.NewRef(3, noon.Add(time.Second), "a"), -time.Minute, true},
		"a second later, sent at the same time":  {creates.NewRef(3, noon.Add(time.Second), "a"), 0, true},
		"a second later, sent right after":       {creates.NewRef(3, noon.Add(time.Second), "a"), time.Millisecond, false},
		"a second later, sent two seconds after": {creates.NewRef(3, noon.Add(time.Second), "a"), 2 * time.Second, true},
		"same second, sent right after":          {creates.NewRef(3, noon, "a"), time.Millisecond, true},
		"two seconds later: the id used again":   {creates.NewRef(3, noon.Add(2*time.Second), "a"), -time.Minute, false},
		"two seconds earlier":                    {creates.NewRef(3, noon.Add(-2*time.Second), "a"), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := creates.NewRegistry()
			m.Returned(creates.NewRef(3, noon, "a"), noon, noon)
			mine := sent("me", tc.sent, "Visit", 5, "")
			assert.Equal(t, tc.want, m.Explains(mine, noon.Add(tc.sent), tc.note))
		})
	}
}

// Create made the note and returned an error instead, so the caller searches for it by its ID.
func TestRegistryExplains_WithheldNote_IsLeftToItsOwnCreate(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	note := creates.NewRef(3, noon, "")
	own := sent("own", 0, "Visit", 5, "")
	own.Note = note.ID
	other := sent("other", 0, "Visit", 5, "")
	m.Returned(note, noon, noon)
	assert.True(t, m.Explains(own, noon, note), "it was returned")
	m.Withhold(note.ID)
	assert.False(t, m.Explains(own, noon, note))
	assert.True(t, m.Explains(other, noon, note))
}

func TestRegistryExplains_NoteFoundForAnotherCreate(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	first := sent("first", 0, "Visit", 5, "")
	second := sent("second", 0, "Visit", 5, "")
	note := creates.NewRef(5, noon, "a")
	assert.False(t, m.Explains(second, noon, note))
	assert.True(t, m.Claim(first, note))
	assert.True(t, m.Explains(second, noon, note))
	assert.False(t, m.Explains(first, noon, note), "it is its own")
	assert.False(t, m.Explains(second, noon, creates.NewRef(5, noon, "b")), "at another tenant")
	assert.False(t, m.Explains(second, noon, creates.NewRef(5, noon.Add(time.Hour), "a")), "its id was used again")
}

// Once this client has deleted a note, or tried to, the service may give its id to another note of the same second.
// So it no longer explains a note as another create's.
func TestRegistryExplains_DeletedNoteExplainsNothing(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	first := sent("first", 0, "Visit", 5, "")
	second := sent("second", 0, "Visit", 5, "")
	returned := creates.NewRef(3, noon, "")
	found := creates.NewRef(5, noon, "")
	kept := creates.NewRef(6, noon, "")
	m.Returned(returned, noon, noon)
	assert.True(t, m.Claim(first, found))
	for _, note := range []creates.Ref{returned, found, kept} {
		m.Recordings.Put(note, creates.Recording{Size: 5})
	}
	m.SetDeleted(returned.ID)
	assert.True(t, m.Explains(second, noon, found), "another note was deleted")
	m.SetDeleted(found.ID)
	assert.False(t, m.Explains(second, noon, returned))
	assert.False(t, m.Explains(second, noon, found))
	assert.Zero(t, m.Recordings.Get(returned))
	assert.Zero(t, m.Recordings.Get(found))
	assert.NotZero(t, m.Recordings.Get(kept))
	assert.Equal(t, found, m.ClaimedNote(first), "it is still the one that was found")

	m.Returned(returned, noon, noon)
	assert.True(t, m.Explains(second, noon, returned), "the next note with its id is this client's too")
	again := creates.NewRef(5, noon.Add(time.Hour), "")
	assert.True(t, m.Claim(first, again), "the next note with its id can be found too")
	assert.True(t, m.Explains(second, noon, again), "and then is known to be another create's")
}

// Wait uses the time to excuse a 404 of a note that was created just before. After a deletion, the note is still known
// to be one of this client's, and its zero time excuses nothing.
func TestRegistryReturnedAt_IsWhenCreateReturned(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	m.SetDeleted(7)
	_, known := m.ReturnedAt(7)
	assert.False(t, known)
	m.Returned(creates.Ref{ID: 7}, noon, noon)
	at, known := m.ReturnedAt(7)
	assert.True(t, known)
	assert.Equal(t, noon, at)
	_, known = m.ReturnedAt(8)
	assert.False(t, known)
	m.Returned(creates.Ref{ID: 7}, noon, noon.Add(time.Hour))
	at, _ = m.ReturnedAt(7)
	assert.Equal(t, noon.Add(time.Hour), at, "the latest time counts")
	m.SetDeleted(7)
	at, known = m.ReturnedAt(7)
	assert.True(t, known)
	assert.Zero(t, at)
}

func TestRegistryReturned_ForgetsTheOldest(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	const more = 10
	const all = creates.MaxRemembered + more
	mine := sent("me", 0, "Visit", 5, "")
	for id := int64(1); id <= all; id++ {
		m.Returned(creates.NewRef(id, noon, ""), noon, noon)
		if id%2 == 0 {
			m.Returned(creates.NewRef(id, noon, ""), noon, noon) // takes one place
		}
	}
	for id := int64(1); id <= all; id++ {
		_, known := m.ReturnedAt(id)
		assert.Equal(t, id > more, known, id)
		assert.Equal(t, id > more, m.Explains(mine, noon, creates.NewRef(id, noon, "")), "what is forgotten explains nothing")
	}
}

// The largest difference between a note's time and the service's clock counts, also after a note whose time was right.
func TestRegistryClocks_KeepTheLatestNote(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	m.Returned(creates.NewRef(1, noon.Add(-5*time.Hour), ""), noon, noon)
	assert.Zero(t, m.Clocks(noon).NotesBackdatedBy, "the service's clock is not known yet")
	m.SawClock(dated(noon, ""), noon)
	m.Returned(creates.NewRef(1, noon.Add(-5*time.Hour), ""), noon, noon)
	m.Returned(creates.NewRef(2, noon, ""), noon, noon)
	m.Returned(creates.NewRef(3, time.Time{}, ""), noon, noon)
	m.SawClock(dated(noon, ""), noon)
	assert.EqualValues(t, 5*3600, m.Clocks(noon).NotesBackdatedBy)
}

// Tenants may have a user of the same number each.
func TestNewUser_FingerprintTellsTenantsApart(t *testing.T) {
	t.Parallel()
	user := creates.NewUser(1, "one@clinic.test", noon)
	assert.EqualValues(t, 1, user.ID)
	assert.Len(t, user.Fingerprint, 32)
	assert.Equal(t, user, creates.NewUser(1, "one@clinic.test", noon.In(time.FixedZone("", 3600))))
	for name, other := range map[string]creates.User{
		"other id":            creates.NewUser(2, "one@clinic.test", noon),
		"other email address": creates.NewUser(1, "two@clinic.test", noon),
		"created later":       creates.NewUser(1, "one@clinic.test", noon.Add(time.Microsecond)),
		"without either":      creates.NewUser(1, "", time.Time{}),
	} {
		assert.NotEqual(t, user.Fingerprint, other.Fingerprint, name)
	}
}

func TestMemo_ForgetsWhenFull(t *testing.T) {
	t.Parallel()
	var m creates.Memo[int, string]
	assert.Empty(t, m.Get(0))
	for i := range creates.MaxRemembered {
		m.Put(i, "synthetic")
	}
	assert.Equal(t, "synthetic", m.Get(0))
	m.Put(creates.MaxRemembered, "synthetic")
	assert.Empty(t, m.Get(0))
	assert.Equal(t, "synthetic", m.Get(creates.MaxRemembered))
}

func TestRegistryClaim_ManyGoroutines(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	var claims sync.Map
	var workers sync.WaitGroup
	for worker := range 8 {
		workers.Go(func() {
			for i := range 100 {
				mine := sent("", time.Duration(100*worker+i)*time.Second, "Visit", 5, "")
				end := m.Begin(sent("", 0, "Visit", 5, ""))
				m.AddLost(mine)
				m.View(mine, nil, false)
				if m.Claim(mine, creates.Ref{ID: int64(i + 1)}) {
					_, twice := claims.LoadOrStore(i, worker)
					assert.False(t, twice, i)
				}
				end()
			}
		})
	}
	workers.Wait()
}

// The race detector checks that nothing belongs to one goroutine.
func TestRegistry_ManyGoroutines(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	header := http.Header{"Date": {noon.UTC().Format(http.TimeFormat)}}
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for i := range 100 {
				at := noon.Add(time.Duration(i) * time.Second)
				id := int64(i + 1)
				token := strconv.Itoa(i)
				note := creates.NewRef(id, at, "")
				mine := creates.NewCreate(id, "Visit", 5, "", at, "")
				m.AddLost(mine)
				m.SawClock(header, at)
				m.Clocks(at)
				m.Returned(note, at, at)
				m.Recordings.Put(note, creates.Recording{Size: 5})
				m.Recordings.Get(note)
				m.Users.Put(token, creates.User{ID: id})
				m.Users.Get(token)
				m.Explains(mine, at, note)
				m.Unclaim(mine)
				m.SetDeleted(id)
				m.ReturnedAt(id)
				m.Resolve(mine)
			}
		})
	}
	workers.Wait()
	assert.True(t, m.Clocks(noon).Known)
	assert.EqualValues(t, 100, m.Users.Get("99").ID)
	unknown := creates.NewCreate(1, "Visit", 5, "", noon.Add(time.Millisecond), "")
	assert.Zero(t, m.View(unknown, nil, false), "all are resolved")
}
