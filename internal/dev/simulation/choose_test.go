package simulation

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// chooser goes through all paths of choices, without knowing beforehand which will be asked for: only sequences that the
// SDK really walks are run.
type chooser struct {
	path, widths []int
	at           int
}

// choose returns a number below n: the one of the path, or 0 where the path has ended.
func (c *chooser) choose(n int) int {
	if c.at == len(c.path) {
		c.path, c.widths = append(c.path, 0), append(c.widths, n)
	}
	c.widths[c.at] = n
	c.at++
	return c.path[c.at-1]
}

// next goes on to the next path, like an odometer, and reports false when there is none. What the last path did not ask
// for is dropped.
func (c *chooser) next() bool {
	c.path, c.widths = c.path[:c.at], c.widths[:c.at]
	c.at = 0
	for i := len(c.path) - 1; i >= 0; i-- {
		if c.path[i]+1 < c.widths[i] {
			c.path[i]++
			c.path, c.widths = c.path[:i+1], c.widths[:i+1]
			return true
		}
	}
	return false
}

func TestChooserWalksEveryPath(t *testing.T) {
	t.Parallel()
	var c chooser
	var paths []string
	for more := true; more; more = c.next() {
		path := fmt.Sprint(c.choose(2))
		if path == "1" {
			path += fmt.Sprint(c.choose(3))
		}
		paths = append(paths, path)
	}
	assert.Equal(t, []string{"0", "10", "11", "12"}, paths)
}
