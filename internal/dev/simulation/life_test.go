package simulation

import (
	"errors"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk/disktest"
)

// life is one run of a process. When it is dead, everything that it sends or receives stops until the end of the
// scenario. Nothing of it runs on, which is as close to a kill as possible.
type life struct {
	number  int
	mu      sync.Mutex
	dead    chan struct{} // closed by its death
	release <-chan struct{}
	draws   *draws
}

var errDead = errors.New("the process is dead")

// touch lets a living process pass.
func (l *life) touch() error {
	select {
	case <-l.dead:
		<-l.release
		return errDead
	default:
		return nil
	}
}

// sync is how long the disk takes. What was asked for before death may still be done, or not.
func (l *life) sync() error {
	if err := l.touch(); err != nil {
		return err
	}
	l.mu.Lock()
	takes := time.Duration(1+l.draws.below(20)) * time.Millisecond
	l.mu.Unlock()
	time.Sleep(takes)
	return l.touch()
}

// use is the life's use of a disk.
func (l *life) use(op string) error {
	if op == disktest.Sync || op == disktest.SyncDir {
		return l.sync()
	}
	return l.touch()
}
