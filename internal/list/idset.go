package list

import "slices"

// IDSet is a set of ids. The IDs of a list are close together, so the set stores their low bits, sorted, under
// their high bits. This takes about three bytes per ID, where a map takes 36. The zero value is an empty set.
type IDSet struct {
	low   map[int64][]uint16 // by the high bits
	count int
}

const lowBits = 12 // so that an insertion moves few of them

// Add adds id to the set and reports whether it was new.
func (s *IDSet) Add(id int64) bool {
	high, low := split(id)
	at, found := slices.BinarySearch(s.low[high], low)
	if found {
		return false
	}
	if s.low == nil {
		s.low = map[int64][]uint16{}
	}
	s.low[high] = slices.Insert(s.low[high], at, low)
	s.count++
	return true
}

// Has reports whether id is in the set.
func (s *IDSet) Has(id int64) bool {
	high, low := split(id)
	_, found := slices.BinarySearch(s.low[high], low)
	return found
}

// split returns the high bits of an id, under which it is stored, and its low bits.
func split(id int64) (high int64, low uint16) {
	return id >> lowBits, uint16(id & (1<<lowBits - 1))
}

// HasAll reports whether all ids are in the set.
func (s *IDSet) HasAll(ids []int64) bool {
	for _, id := range ids {
		if !s.Has(id) {
			return false
		}
	}
	return true
}

// Len returns the number of ids in the set.
func (s *IDSet) Len() int { return s.count }
