package simulation

import (
	"hash/fnv"
	"time"
)

// mix turns any numbers into one, so that each choice depends on the seed and on where it is made, and on no other choice.
func mix(numbers ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, n := range numbers {
		h ^= n
		h += 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

func hashOf(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64()
}

// draws are the choices made at one place of a world.
type draws struct{ key, n uint64 }

func drawsAt(numbers ...uint64) *draws { return &draws{key: mix(numbers...)} }

func (d *draws) next() uint64 { d.n++; return mix(d.key, d.n) }

// below returns a number from 0 to n-1.
func (d *draws) below(n int) int { return int(d.next() % uint64(n)) }

// chance is true with that probability.
func (d *draws) chance(p float64) bool { return d.float() < p }

func (d *draws) float() float64 { return float64(d.next()>>11) / (1 << 53) }

// within returns a time from 0 to below most, to the nanosecond.
func (d *draws) within(most time.Duration) time.Duration {
	return time.Duration(d.float() * float64(most))
}

func pick[T any](d *draws, list ...T) T { return list[d.below(len(list))] }
