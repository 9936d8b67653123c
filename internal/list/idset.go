package list

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// IDSet is a set of ids, kept as runs of consecutive ones, in chunks that are sorted and coded in few bytes. The zero value is
// empty and ready to use.
type IDSet struct {
	chunks []chunk
	count  int
	open   int    // place of the chunk that was changed last: lists come in order, so that it is mostly the next to be changed
	runs   []run  // of that chunk, in place of what is coded in it
	buffer []byte // for coding
}

// run is one or more consecutive ids, both ends included.
type run struct{ first, last int64 }

// chunk holds some runs. Each is coded by its distance from the end of the one before, which is at least 2: a run of one id
// as this distance alone, a longer one as 0, the distance, and how many ids follow its first.
type chunk struct {
	first, last int64
	coded       []byte
}

// maxRuns is how many runs a chunk has: many, so that the chunk itself weighs little, but all are gone through for one id.
const maxRuns = 128

// Add puts id into the set and reports whether it was new.
func (s *IDSet) Add(id int64) bool {
	if len(s.chunks) == 0 {
		s.chunks = make([]chunk, 1)
	}
	if at := s.find(id); at != s.open {
		s.store(s.open, s.runs)
		s.runs = s.chunks[at].appendTo(s.runs[:0])
		s.open = at
	}
	if !s.insert(id) {
		return false
	}
	s.count++
	if len(s.runs) > maxRuns {
		s.split(id)
	}
	c := &s.chunks[s.open]
	c.first, c.last = s.runs[0].first, s.runs[len(s.runs)-1].last
	return true
}

// split makes two chunks of the open one. A run at one end is mostly the first of many, and leaves a full chunk behind.
func (s *IDSet) split(id int64) {
	middle := maxRuns / 2
	switch id {
	case s.runs[0].first:
		middle = 1
	case s.runs[maxRuns].last:
		middle = maxRuns
	}
	s.chunks = slices.Insert(s.chunks, s.open, chunk{})
	if id <= s.runs[middle-1].last {
		s.store(s.open+1, s.runs[middle:])
		s.runs = s.runs[:middle]
		return
	}
	s.store(s.open, s.runs[:middle])
	s.open++
	s.runs = append(s.runs[:0], s.runs[middle:]...)
}

// Has reports whether id is in the set.
func (s *IDSet) Has(id int64) bool {
	if len(s.chunks) == 0 {
		return false
	}
	at := s.find(id)
	c := &s.chunks[at]
	switch {
	case id < c.first || id > c.last:
		return false
	case at == s.open:
		i, _ := slices.BinarySearchFunc(s.runs, id, func(r run, id int64) int { return cmp.Compare(r.last, id) })
		return id >= s.runs[i].first
	}
	r, rest := decode(c.before(), c.coded)
	for id > r.last {
		r, rest = decode(r, rest)
	}
	return id >= r.first
}

// Len returns how many ids the set has.
func (s *IDSet) Len() int { return s.count }

// find returns the place of the chunk to which id belongs: the last one that does not begin behind it, or else the first.
func (s *IDSet) find(id int64) int {
	behind, _ := slices.BinarySearchFunc(s.chunks, id, func(c chunk, id int64) int {
		if c.first <= id {
			return -1
		}
		return 1
	})
	return max(behind-1, 0)
}

// insert puts id into runs and reports whether it was new.
func (s *IDSet) insert(id int64) bool {
	// The first run that does not end before id, with a gap between them.
	i, _ := slices.BinarySearchFunc(s.runs, id, func(r run, id int64) int {
		if r.last < id && r.last != id-1 {
			return -1
		}
		return 1
	})
	switch {
	case i == len(s.runs), id < s.runs[i].first && id != s.runs[i].first-1:
		s.runs = slices.Insert(s.runs, i, run{id, id})
	case id < s.runs[i].first:
		s.runs[i].first = id
	case id <= s.runs[i].last:
		return false
	case i+1 < len(s.runs) && s.runs[i+1].first-1 == id:
		s.runs[i].last = s.runs[i+1].last
		s.runs = slices.Delete(s.runs, i+1, i+2)
	default:
		s.runs[i].last = id
	}
	return true
}

// store makes the chunk at that place hold the runs.
func (s *IDSet) store(at int, runs []run) {
	c := &s.chunks[at]
	c.first, c.last = runs[0].first, runs[len(runs)-1].last
	s.buffer = s.buffer[:0]
	before := c.before()
	for _, r := range runs {
		s.buffer = appendRun(s.buffer, before, r)
		before = r
	}
	if cap(c.coded) < len(s.buffer) {
		c.coded = slices.Clone(s.buffer)
		return
	}
	c.coded = append(c.coded[:0], s.buffer...)
}

// before stands for a run right before the chunk's first.
func (c *chunk) before() run { return run{last: c.first - 2} }

func (c *chunk) appendTo(runs []run) []run {
	for r, rest := c.before(), c.coded; len(rest) > 0; {
		r, rest = decode(r, rest)
		runs = append(runs, r)
	}
	return runs
}

func appendRun(coded []byte, before, r run) []byte {
	distance := uint64(r.first - before.last) //nolint:gosec // ids are in order, and what wraps comes back
	if r.first == r.last {
		return binary.AppendUvarint(coded, distance)
	}
	coded = append(coded, 0)
	coded = binary.AppendUvarint(coded, distance)
	return binary.AppendUvarint(coded, uint64(r.last-r.first)) //nolint:gosec // likewise
}

func decode(before run, coded []byte) (r run, rest []byte) {
	distance, n := binary.Uvarint(coded)
	more := uint64(0)
	if distance == 0 {
		coded = coded[n:]
		distance, n = binary.Uvarint(coded)
		coded = coded[n:]
		more, n = binary.Uvarint(coded)
	}
	first := before.last + int64(distance) //nolint:gosec // as it was coded
	return run{first, first + int64(more)}, coded[n:]
}
