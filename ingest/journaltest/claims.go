package journaltest

import (
	"errors"
	"reflect"
	"strings"
	"sync"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// began is when the recordings of these tests were sent.
var began = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// entry returns the synthetic entry of recording n. If it is created, its note is n+1.
func (k *kit) entry(n int, state ingest.State) ingest.Entry {
	e := ingest.Entry{
		Key: k.key(n), State: state, At: began, Patient: k.patient(0), Size: 3, SentAt: began,
		Name: uint32(n), //nolint:gosec // small
	}
	if state == ingest.StateCreated {
		e.NoteID = int64(n) + 1
	}
	return e
}

// checkBind checks that other services, headers and users are rejected, and other spellings of the service are not.
// After each of them, its own owner can still bind.
func (k *kit) checkBind() error {
	for _, c := range []struct {
		change func(*ingest.Owner)
		want   error
	}{
		{func(*ingest.Owner) {}, nil},
		{func(o *ingest.Owner) { o.Service = strings.ToUpper(o.Service) + "/" }, nil},
		{func(o *ingest.Owner) { o.Service = "https://other.example.test" }, ingest.ErrOtherService},
		{func(o *ingest.Owner) { o.Headers = "0123456789abcdef" }, ingest.ErrOtherService},
		{func(o *ingest.Owner) { o.UserID++ }, ingest.ErrOtherUser},
	} {
		other := owner
		c.change(&other)
		_, err := k.journal.Bind(k.ctx, other)
		if !errors.Is(err, c.want) {
			return errorf("Bind(%+v): %v, want %v", other, err, c.want)
		}
		if err := k.reopenAndBind(); err != nil {
			return errorf("Bind of its own owner: %w", err)
		}
	}
	return nil
}

func (k *kit) checkNewKey() error {
	e, err := k.load(k.key(0))
	if err != nil {
		return err
	}
	return isState(e, ingest.StateClaimed)
}

// checkTaken checks that a second claim is refused once the first one has committed.
func (k *kit) checkTaken() error {
	return k.withClaim(k.key(0), func(first ingest.Claim) error {
		if err := first.Save(k.ctx, k.entry(0, ingest.StateCommitting)); err != nil {
			return err
		}
		second, err := k.journal.Claim(k.ctx, k.key(0))
		if err == nil {
			second.Release()
		}
		if !errors.Is(err, ingest.ErrTaken) {
			return errorf("Claim of a key that another has: %v, want ErrTaken", err)
		}
		return nil
	})
}

// checkRelease checks that a released claim saves nothing, and that the key can be claimed again.
func (k *kit) checkRelease() error {
	claim, err := k.journal.Claim(k.ctx, k.key(0))
	if err != nil {
		return err
	}
	if err := claim.Save(k.ctx, k.entry(0, ingest.StateCommitting)); err != nil {
		return err
	}
	claim.Release()
	claim.Release() // again does no harm
	if err := claim.Save(k.ctx, k.entry(0, ingest.StateInDoubt)); err == nil {
		return errors.New("Save after Release returned nil")
	}
	e, err := k.load(k.key(0))
	if err != nil {
		return err
	}
	return isState(e, ingest.StateCommitting)
}

// checkRefused checks that a recording without a note is tried again, with the manual decision about it.
func (k *kit) checkRefused() error {
	e := k.entry(0, ingest.StateCommitting)
	if err := k.save(e); err != nil {
		return err
	}
	e.State = ingest.StateRefused
	e.By = "a person = 100% & certain" // characters that a journal may have to escape
	if err := k.save(e); err != nil {
		return err
	}
	for range 2 { // before and after the process ends
		got, err := k.load(e.Key)
		if err != nil {
			return err
		}
		if err := isState(got, ingest.StateClaimed); err != nil {
			return err
		}
		if got.By != e.By {
			return errorf("By is %q, want %q", got.By, e.By)
		}
		if err := k.reopenAndBind(); err != nil {
			return err
		}
	}
	return nil
}

// checkOwnKey checks that a claim is about its own key, whatever the entry names.
func (k *kit) checkOwnKey() error {
	for n, state := range []ingest.State{ingest.StateCommitting, ingest.StateCreated} {
		e := k.entry(n, state)
		e.Key = k.key(9)
		err := k.withClaim(k.key(n), func(claim ingest.Claim) error { return claim.Save(k.ctx, e) })
		if err != nil {
			return err
		}
		got, err := k.load(k.key(n))
		if err != nil {
			return err
		}
		if got.Key != k.key(n) || got.State != state {
			return errorf("the entry is %s of %s, want %s of %s", got.State, got.Key, state, k.key(n))
		}
	}
	return nil
}

// checkFields checks that the next process finds every field. A journal may forget Why, and read Until a moment later.
func (k *kit) checkFields() error {
	committing := k.entry(0, ingest.StateCommitting)
	committing.SHA256 = strings.Repeat("ab", 32)
	created := k.entry(1, ingest.StateCreated)
	created.Found = true
	created.NoteCreatedAt = began.Add(time.Minute)
	created.By = "a person"
	created.Stage = clinicaldoc.StageTranscribing
	created.Replaced = []ingest.NoteRef{{ID: 90, CreatedAt: began}, {ID: 91}}
	doubt := k.entry(2, ingest.StateInDoubt)
	doubt.Until = time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	doubt.NoteID = 9
	doubt.SHA256 = committing.SHA256
	doubt.Loss = []byte(`{"clock":{"difference":-3},"id":"a"}`)
	doubt.Excluded = []int64{92, 93}
	all := []ingest.Entry{committing, created, doubt}
	for _, e := range all {
		if err := k.save(e); err != nil {
			return err
		}
	}
	if err := k.reopenAndBind(); err != nil {
		return err
	}
	for _, want := range all {
		got, err := k.load(want.Key)
		if err != nil {
			return err
		}
		if later := got.Until.Sub(want.Until); later < 0 || later > time.Minute {
			return errorf("Until is %s, want %s", got.Until, want.Until)
		}
		got.At = want.At
		got.Why = want.Why
		got.Until = want.Until
		for _, t := range []*time.Time{&got.SentAt, &got.NoteCreatedAt} { // a journal may use any time zone
			*t = t.UTC()
		}
		for i := range got.Replaced {
			got.Replaced[i].CreatedAt = got.Replaced[i].CreatedAt.UTC()
		}
		if !reflect.DeepEqual(got, want) {
			return errorf("the entry is %+v, want %+v", got, want)
		}
	}
	return nil
}

// checkOneCommits checks that of two workers with the same recording one commits, where both could claim it.
func (k *kit) checkOneCommits() error {
	return k.withTwo(k.key(0), func(first, second ingest.Claim) error {
		commits := 0
		for _, claim := range []ingest.Claim{first, second} {
			err := claim.Save(k.ctx, k.entry(0, ingest.StateCommitting))
			switch {
			case err == nil:
				commits++
			case !errors.Is(err, ingest.ErrTaken):
				return errorf("the commit of one of two workers: %w, want nil or ErrTaken", err)
			}
		}
		if commits != 1 {
			return errorf("%d of two workers committed, want 1", commits)
		}
		return nil
	})
}

// checkFirstNote checks that the note that was saved first stays, where two workers could claim the recording.
func (k *kit) checkFirstNote() error {
	err := k.withTwo(k.key(0), func(first, second ingest.Claim) error {
		e := k.entry(0, ingest.StateCreated)
		if err := first.Save(k.ctx, e); err != nil {
			return err
		}
		e.NoteID++
		return second.Save(k.ctx, e)
	})
	if err != nil {
		return err
	}
	if err := k.save(k.entry(1, ingest.StateCreated)); err != nil {
		return err
	}
	for n := range 2 {
		got, err := k.load(k.key(n))
		if err != nil {
			return err
		}
		isUnsaved := got.State == ingest.StateClaimed && n == 0 // the journal let only one claim it
		if !isUnsaved && got.NoteID != int64(n)+1 {
			return errorf("the note is %d, want %d", got.NoteID, n+1)
		}
	}
	return nil
}

// withTwo claims a key twice and calls do with both claims. A journal that refuses the second claim with ErrTaken is
// right, too; then do is not called.
func (k *kit) withTwo(key ingest.Key, do func(first, second ingest.Claim) error) error {
	return k.withClaim(key, func(first ingest.Claim) error {
		second, err := k.journal.Claim(k.ctx, key)
		if errors.Is(err, ingest.ErrTaken) {
			return nil
		}
		if err != nil {
			return err
		}
		defer second.Release()
		return do(first, second)
	})
}

// checkMany checks that the next process finds what eight workers saved at the same time.
func (k *kit) checkMany() error {
	const workers, each = 8, 25
	errs := make([]error, workers)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for n := w; n < workers*each && errs[w] == nil; n += workers {
				committing, created := k.entry(n, ingest.StateCommitting), k.entry(n, ingest.StateCreated)
				committing.Patient = k.patient(n / workers)
				created.Patient = committing.Patient
				errs[w] = errors.Join(k.save(committing), k.save(created))
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := k.reopenAndBind(); err != nil {
		return err
	}
	for n := range workers * each {
		got, err := k.load(k.key(n))
		if err != nil {
			return err
		}
		if got.State != ingest.StateCreated || got.NoteID != int64(n)+1 {
			return errorf("recording %d is %s with note %d, want created with note %d", n, got.State, got.NoteID, n+1)
		}
	}
	return nil
}
