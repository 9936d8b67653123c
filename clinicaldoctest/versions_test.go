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

// The rows of a page and the position of a cursor are those of the complete sorted list, although only few rows are
// sorted for a page.
func TestOrder_RowsAndCursors_MatchTheSortedList(t *testing.T) {
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
			if n := log.get(1 + random.Int64N(40)).current(); n != nil {
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
				require.Equal(t, before, sorted.countUpTo(list, last))
			}
		}
	}
}

// Of more than maxGone deleted notes the oldest are forgotten. A note that exists is not, however old it is.
func TestNoteLog_ManyDeletedNotes_ForgetsTheOldest(t *testing.T) {
	t.Parallel()
	log := newLog()
	assert.Empty(t, log.list(listKey{1, 1}, time.Time{}, 0))
	const kept, oldestDeleted, lastDeleted = 1, 2, maxGone + 2
	for id := int64(kept); id <= lastDeleted; id++ { // each note is of its own patient
		n := &note{entry: &entry{id: id, teamID: 1, patientID: id}}
		log.add(n)
		assert.Len(t, log.list(listKey{1, id}, time.Time{}, 0), 1)
		if id != kept {
			log.add(&note{entry: n.entry, before: n, deletes: true})
		}
	}
	assert.Less(t, len(log.all), maxGone)
	assert.NotNil(t, log.get(kept))
	assert.Nil(t, log.get(oldestDeleted))
	assert.NotNil(t, log.get(lastDeleted))
	assert.Len(t, log.lists, 2, "the team's list, and that of the patient whose note exists")
}

// A note keeps only its newest versions. When old ones are dropped, the newer half stays.
func TestNoteLog_ManyVersions_ForgetsTheOldest(t *testing.T) {
	t.Parallel()
	log := newLog()
	last := &note{entry: &entry{id: 1, teamID: 1, patientID: 1}}
	log.add(last)
	for i := range 3 * maxVersions {
		last = &note{entry: last.entry, before: last, version: last.version + 1, at: time.Unix(int64(i), 0)}
		log.add(last)
	}
	remembered := 0
	for n := log.get(1).last; n != nil; n = n.before {
		remembered++
	}
	assert.LessOrEqual(t, remembered, maxVersions+1)
	assert.Greater(t, remembered, maxVersions/3)
}

// A reader sees all commits that are due, also one that another reader is carrying out at that moment.
func TestCommitDue_Concurrent_WaitsForTheOther(t *testing.T) {
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
