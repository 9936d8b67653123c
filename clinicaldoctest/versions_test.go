package clinicaldoctest

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newLog() *noteLog { return &noteLog{lists: map[listKey][]*entry{}} }

// TestPagesAreThoseOfTheWholeListSorted holds pages and cursors that look at their own rows alone against a list that is
// sorted whole.
func TestPagesAreThoseOfTheWholeListSorted(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		log := newLog()
		asked := random.Int64N(40) // when a patient's notes are asked for the first time
		for id := range random.Int64N(40) {
			if id == asked {
				log.list(listKey{1, 1}, time.Time{}, 0)
			}
			created := time.UnixMilli(random.Int64N(5000)).UTC()
			log.add(&note{entry: &entry{id: id + 1, teamID: 1, patientID: 1 + random.Int64N(2), createdAt: created}, at: created})
		}
		for range random.IntN(10) {
			if n := log.get(1+random.Int64N(40)).read(time.Time{}, 0); n != nil {
				log.add(&note{entry: n.entry, before: n, deletes: true})
			}
		}
		for _, sorted := range []order{{true, true}, {true, false}, {false, true}, {false, false}} {
			for patientID := range int64(3) {
				list := log.list(listKey{1, patientID}, time.Time{}, 0)
				whole := slices.DeleteFunc(slices.Clone(log.all), func(n *entry) bool {
					return n.deleted() || patientID != 0 && n.patientID != patientID
				})
				slices.SortFunc(whole, sorted.compare)
				start, count := random.IntN(45), random.IntN(20)
				want := whole[min(start, len(whole)):min(start+count, len(whole))]
				require.Equal(t, append([]*entry{}, want...), append([]*entry{}, sorted.rows(list, start, count)...))
				last := &entry{id: random.Int64N(45), createdAt: time.UnixMilli(random.Int64N(5000)).UTC()}
				if len(whole) > 0 && random.IntN(2) == 0 {
					last = whole[random.IntN(len(whole))]
				}
				before := 0
				for _, n := range whole {
					if sorted.compare(n, last) <= 0 {
						before++
					}
				}
				require.Equal(t, before, sorted.after(list, last))
			}
		}
	}
}

func TestTheLogOfNotesIsBounded(t *testing.T) {
	t.Parallel()
	log := newLog()
	assert.Empty(t, log.list(listKey{1, 1}, time.Time{}, 0))
	for id := range int64(maxGone + 2) {
		n := &note{entry: &entry{id: id + 1, teamID: 1, patientID: id + 1}}
		log.add(n)
		assert.Len(t, log.list(listKey{1, id + 1}, time.Time{}, 0), 1)
		if id > 0 {
			log.add(&note{entry: n.entry, before: n, deletes: true})
		}
	}
	assert.Less(t, len(log.all), maxGone)
	assert.NotNil(t, log.get(1), "what is there stays")
	assert.Nil(t, log.get(2))
	assert.NotNil(t, log.get(maxGone+2))
	assert.Len(t, log.lists, 2, "nothing is kept of patients without notes")

	for i := range 3 * maxVersions {
		last := log.get(1).last
		log.add(&note{entry: last.entry, before: last, version: last.version + 1, at: time.Unix(int64(i), 0)})
	}
	versions := 0
	for n := log.get(1).last; n != nil; n = n.before {
		versions++
	}
	assert.LessOrEqual(t, versions, maxVersions+1)
	assert.Greater(t, versions, maxVersions/3)
}

// Who looks at the notes sees all that is due, also what another look is just bringing about.
func TestALookWaitsForWhatIsDue(t *testing.T) {
	t.Parallel()
	srv := NewServer(InProcess())
	t.Cleanup(srv.Close)
	s := srv.state()
	var landed atomic.Bool
	seen := make(chan bool, 1)
	s.commitLater(func(now time.Time) answer {
		go func() {
			s.commitDue(now)
			seen <- landed.Load()
		}()
		for range 10_000 {
			runtime.Gosched() // so that it would have looked
		}
		landed.Store(true)
		return answer{}
	}, 0)
	assert.True(t, <-seen)
}
