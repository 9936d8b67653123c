package main

import (
	"os"
	"time"

	"go.uber.org/goleak"
)

// proxyGoroutines are the fault-injecting proxy's own: it leaves those of a connection behind whose far end has failed.
var proxyGoroutines = []goleak.Option{
	goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
	goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
}

// snapshot is what a process has open before a run.
type snapshot struct {
	files      int
	goroutines goleak.Option
}

func takeSnapshot() snapshot { return snapshot{openFiles(), goleak.IgnoreCurrent()} }

// openFiles counts this process's open files, sockets among them; -1 where the system does not tell.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(entries)
}

// leaks tells how many files are open beyond those that were open before, and what goroutines are left. Closing takes the
// other side's time too, so that it looks again for a while.
func leaks(before snapshot) (files int, goroutines error) {
	goroutines = goleak.Find(append(proxyGoroutines, before.goroutines)...)
	for range 100 {
		if files = openFiles() - before.files; files <= 0 {
			return 0, goroutines
		}
		time.Sleep(20 * time.Millisecond)
	}
	return files, goroutines
}
