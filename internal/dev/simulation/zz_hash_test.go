package simulation

import (
	"fmt"
	"os"
	"runtime/debug"
	"testing"
)

func TestZZHash(t *testing.T) {
	out := os.Getenv("ZZHASH")
	if out == "" {
		t.Skip()
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	f, _ := os.Create(out)
	defer f.Close()
	for i := uint64(0); i < *seeds; i++ {
		w := newWorld(*from + i)
		if !w.design.exact() {
			continue
		}
		w.run(t)
		fmt.Fprintf(f, "%d %x %d %d %v\n", w.seed, w.hash(), w.tally["requests"], w.tally["lost creates decided"], w.violations)
	}
}
