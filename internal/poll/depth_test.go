package poll_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/poll"
)

func TestDepth(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		onPage []int
		probe  bool
		want   int
	}{
		{nil, false, 0},
		{[]int{1}, false, 0},
		{[]int{2}, false, 1},
		{[]int{2}, true, 0},
		{[]int{3}, true, 1},
		{[]int{5, 1}, false, 1},
		{[]int{5, 2}, false, 2},
		{[]int{0, 0, 9}, false, 3},
		{[]int{0, 0, 2}, false, 0},
		{[]int{9, 0, 0, 3}, false, 1},
		{[]int{9, 0, 0, 4}, false, 4},
	} {
		assert.Equal(t, test.want, poll.Depth(test.onPage, test.probe), test)
	}
}
