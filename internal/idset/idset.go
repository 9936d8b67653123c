// Package idset remembers which ids were seen, exactly and in little memory when ids are dense.
package idset

// Set is a set of ids, kept as bitmaps of 64 neighbours: a million consecutive ids take well under a megabyte.
// The zero value is empty and ready to use.
type Set struct{ words map[int64]uint64 }

// Add puts id into the set and reports whether it was new.
func (s *Set) Add(id int64) bool {
	if s.words == nil {
		s.words = make(map[int64]uint64)
	}
	word, bit := id>>6, uint64(1)<<(id&63)
	if s.words[word]&bit != 0 {
		return false
	}
	s.words[word] |= bit
	return true
}
