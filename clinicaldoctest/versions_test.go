package clinicaldoctest

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newLog() *noteLog { return &noteLog{lists: map[listKey][]*note{}} }

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
			log.add(&note{id: id + 1, teamID: 1, patientID: 1 + random.Int64N(2), createdAt: created, at: created})
		}
		for range random.IntN(10) {
			if n := log.get(1 + random.Int64N(40)); n != nil && !n.deleted {
				gone := *n
				gone.before, gone.deleted = n, true
				log.add(&gone)
			}
		}
		for _, sorted := range []order{{true, true}, {true, false}, {false, true}, {false, false}} {
			for patientID := range int64(3) {
				list := log.list(listKey{1, patientID}, time.Time{}, 0)
				whole := slices.DeleteFunc(slices.Clone(log.all), func(n *note) bool {
					return n.deleted || patientID != 0 && n.patientID != patientID
				})
				slices.SortFunc(whole, sorted.compare)
				start, count := random.IntN(45), random.IntN(20)
				want := whole[min(start, len(whole)):min(start+count, len(whole))]
				require.Equal(t, append([]*note{}, want...), append([]*note{}, sorted.rows(list, start, count)...))
				last := &note{id: random.Int64N(45), createdAt: time.UnixMilli(random.Int64N(5000)).UTC()}
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
		n := &note{id: id + 1, teamID: 1, patientID: id + 1}
		log.add(n)
		if id > 0 {
			gone := *n
			gone.before, gone.deleted = n, true
			log.add(&gone)
		}
	}
	assert.Less(t, len(log.all), maxGone)
	assert.NotNil(t, log.get(1), "what is there stays")
	assert.Nil(t, log.get(2))
	assert.NotNil(t, log.get(maxGone+2))
	assert.Len(t, log.lists, 2, "nothing is kept of patients without notes")

	for i := range 3 * maxVersions {
		next := *log.get(1)
		next.before, next.version, next.at = log.get(1), log.get(1).version+1, time.Unix(int64(i), 0)
		log.add(&next)
	}
	versions := 0
	for n := log.get(1); n != nil; n = n.before {
		versions++
	}
	assert.LessOrEqual(t, versions, maxVersions+1)
	assert.Greater(t, versions, maxVersions/3)
}
