// Package idset remembers which ids were seen, exactly and in little memory when ids are dense.
package idset

// Set is a set of ids, kept as bitmaps of 64 neighbours: a million consecutive ids take well under a megabyte.
// The zero value is empty and ready to use.
type Set struct {
	words map[int64]uint64
	count int
}

// Add puts id into the set and reports whether it was new.
func (s *Set) Add(id int64) bool {
	if s.words == nil {
		s.words = make(map[int64]uint64)
	}
	word, bit := place(id)
	if s.words[word]&bit != 0 {
		return false
	}
	s.words[word] |= bit
	s.count++
	return true
}

// Has reports whether id is in the set.
func (s *Set) Has(id int64) bool {
	word, bit := place(id)
	return s.words[word]&bit != 0
}

// Len returns how many ids the set has.
func (s *Set) Len() int { return s.count }

func place(id int64) (word int64, bit uint64) { return id >> 6, 1 << (id & 63) }
