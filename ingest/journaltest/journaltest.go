// Package journaltest tests implementations of [ingest.Journal], as testing/fstest tests file systems.
//
//	func TestJournal(t *testing.T) {
//		path := filepath.Join(t.TempDir(), "journal")
//		journaltest.Run(t, func() ingest.Journal { return open(t, path) })
//	}
package journaltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// owner is whose recordings the journal holds.
var owner = ingest.Owner{Service: "https://service.example.test", UserID: 17, Headers: "none"}

// Run tests a journal against the contract of [ingest.Journal]. The journal must be new.
//
// The function opens the same journal each time, and ends the test if it cannot. A journal with a Close method is
// closed before it is opened again. The service is https://service.example.test, for a journal that is begun for one.
func Run(t *testing.T, open func() ingest.Journal) {
	t.Helper()
	for _, result := range check(t.Context(), open) {
		t.Run(result.name, func(t *testing.T) {
			if result.err != nil {
				t.Error(result.err)
			}
		})
	}
}

// outcome is how a part of the contract was kept.
type outcome struct {
	name string
	err  error
}

// contract lists its parts. Each uses keys and patients of its own.
var contract = []struct {
	name  string
	check func(*kit) error
}{
	{"Bind rejects other owners", (*kit).checkBind},
	{"Claim of a new key", (*kit).checkNewKey},
	{"Claim of a key that is taken", (*kit).checkTaken},
	{"Claim after Release", (*kit).checkRelease},
	{"Claim of a refused recording", (*kit).checkRefused},
	{"Claim decides whose entry it is", (*kit).checkOwnKey},
	{"Save keeps every field", (*kit).checkFields},
	{"Save lets one of two commit", (*kit).checkOneCommits},
	{"Save keeps the first note", (*kit).checkFirstNote},
	{"Save by many at a time", (*kit).checkMany},
	{"EntriesForPatient lists what was sent", (*kit).checkStates},
	{"EntriesForPatient goes by time", (*kit).checkTimes},
	{"EntriesForPatient follows changes", (*kit).checkChanges},
	{"EntriesForPatient lists earlier notes", (*kit).checkReplaced},
	{"Claim of a recording that is sent again", (*kit).checkSentAgain},
	{"Save changes the stage", (*kit).checkStage},
	{"Save of a stage leaves a decision alone", (*kit).checkLateStage},
	{"Processing lists notes that are not complete", (*kit).checkProcessing},
}

// check checks all parts of the contract.
func check(ctx context.Context, open func() ingest.Journal) []outcome {
	k := &kit{ctx: ctx, open: open}
	var outcomes []outcome
	for n, part := range contract {
		k.part = byte(n)
		err := k.reopenAndBind()
		if err == nil {
			err = part.check(k)
		}
		outcomes = append(outcomes, outcome{part.name, err})
	}
	k.close()
	return outcomes
}

// kit is a journal that is tested, and the part of the contract that it is tested for.
type kit struct {
	ctx     context.Context //nolint:containedctx // of the one test
	open    func() ingest.Journal
	journal ingest.Journal
	part    byte // its number in contract
}

// reopenAndBind opens the journal as the next process does, and binds it to its owner.
func (k *kit) reopenAndBind() error {
	k.close()
	k.journal = k.open()
	binding, err := k.journal.Bind(k.ctx, owner)
	if err == nil && binding.Origin == "" {
		err = errors.New("Bind: Origin is empty: keys cannot be hashed")
	}
	return err
}

func (k *kit) close() {
	if closer, ok := k.journal.(io.Closer); ok {
		_ = closer.Close()
	}
	k.journal = nil
}

// key returns the key of recording n of this part of the contract. No other part uses it.
func (k *kit) key(n int) ingest.Key {
	return ingest.Key{k.part, byte(n), byte(n >> 8), 0xff} //nolint:gosec // below 65,536
}

// patient returns patient n of this part of the contract. No other part uses it.
func (k *kit) patient(n int) uint32 {
	return uint32(k.part)<<16 + uint32(n) //nolint:gosec // below 65,536
}

func errorf(text string, a ...any) error { return fmt.Errorf(text, a...) }
func isState(e ingest.Entry, s ingest.State) error {
	if e.State != s {
		return errorf("the entry's state is %s, want %s", e.State, s)
	}
	return nil
}

// withClaim claims a key, calls do with the claim, and releases the key.
func (k *kit) withClaim(key ingest.Key, do func(ingest.Claim) error) error {
	claim, err := k.journal.Claim(k.ctx, key)
	if err != nil {
		return errorf("Claim: %w", err)
	}
	defer claim.Release()
	return do(claim)
}

// save claims the key of an entry, saves the entry and releases the key.
func (k *kit) save(e ingest.Entry) error {
	return k.withClaim(e.Key, func(claim ingest.Claim) error {
		if err := claim.Save(k.ctx, e); err != nil {
			return errorf("Save of a recording that is %s: %w", e.State, err)
		}
		return nil
	})
}

// load claims a key, and returns what the journal knows of it.
func (k *kit) load(key ingest.Key) (ingest.Entry, error) {
	var entry ingest.Entry
	err := k.withClaim(key, func(claim ingest.Claim) error {
		entry = claim.Entry()
		return nil
	})
	return entry, err
}
