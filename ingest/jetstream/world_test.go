package jetstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// world is a fleet of several machines in virtual time, with a NATS server and a service. Clocks of machines are
// wrong and step. Machines are killed, pause, and lose their connection to the server, the service or both. All
// choices come from a seed, but not the order of what happens at one instant.
type world struct {
	seed   uint64
	engine *engine
	box    *clinicaldoctest.Server
	files  []string
	design worldDesign
	calm   time.Time // from then on nothing goes wrong; clocks stay as they are

	running sync.WaitGroup
	over    chan struct{} // closed at the end: the dead may go

	mu         sync.Mutex
	owners     map[string]*life // of claims
	births     map[int]int      // notes of each recording
	creates    int
	tally      map[string]int
	history    []string
	violations []string
}

// worldDesign is drawn for each world.
type worldDesign struct {
	machines, workers, recordings int
	scale                         time.Duration // between two events of a machine
	rate                          float64       // of requests that go wrong
	late                          time.Duration // the longest until a request that was sent is carried out
	upload                        time.Duration // the longest between two pieces of an upload
	alike                         bool          // all recordings have one name and patient
	steps                         bool          // clocks step
	never                         int           // the recording that the service never takes; -1: none
	lost                          int           // so many creates, from the first on, never arrive
	closed                        int           // so many creates, from the first on, are refused because of the token
	fails                         int           // so many notes, from the first on, are never complete
	processing                    time.Duration // of a note
}

func choice[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// anytime is a time from 0 to below most.
func anytime(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Float64() * float64(most))
}

// soundOf returns a recording of its own length.
func soundOf(n int) []byte { return append(content(n), bytes.Repeat([]byte{'x'}, 40+n)...) }

const mostRecordings = 6

// recordingFiles are for all worlds.
func recordingFiles(t *testing.T) (files []string) {
	t.Helper()
	dir := t.TempDir()
	for n := range mostRecordings {
		path := filepath.Join(dir, fmt.Sprintf("%d.wav", n))
		if err := os.WriteFile(path, soundOf(n), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, path)
	}
	return files
}

// runWorld runs one scenario in virtual time.
func runWorld(t *testing.T, seed uint64, files []string) (w *world) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(seed, files)
		defer w.box.Close()
		w.live(t.Context())
		w.judge(t.Context())
	})
	return w
}

func newWorld(seed uint64, files []string) *world {
	r := rand.New(rand.NewPCG(seed, 0))
	w := &world{
		seed: seed, engine: newEngine(), files: files, over: make(chan struct{}),
		owners: map[string]*life{}, births: map[int]int{}, tally: map[string]int{},
		box: clinicaldoctest.NewServer(clinicaldoctest.InProcess(), clinicaldoctest.WithToken("synthetic")),
		design: worldDesign{
			machines: 2 + r.IntN(3), workers: 1 + r.IntN(2), recordings: 2 + r.IntN(mostRecordings-1),
			scale: choice(r, 15*time.Second, time.Minute, 4*time.Minute), rate: choice(r, 0, 0.03, 0.1, 0.3),
			late: choice(r, 5*time.Second, time.Minute, 8*time.Minute), upload: choice(r, 0, time.Second, 30*time.Second),
			alike: r.IntN(4) == 0, steps: r.IntN(2) == 0, never: r.IntN(15) - 1, closed: choice(r, 0, 0, 6, 20),
		},
	}
	w.design.fails = choice(r, 0, 0, 0, 1, 2)
	w.design.processing = choice(r, 0, time.Second, 10*time.Minute, time.Hour)
	for range w.design.fails {
		w.box.ScriptNext(failedScript())
	}
	w.box.SetDelays(clinicaldoctest.Delays{Transcribing: w.design.processing})
	w.engine.longer = 8 * time.Second
	w.box.Advance(anytime(r, choice(r, 1, 90*time.Second)))
	w.calm = time.Now().Add(choice(r, 5*time.Minute, 20*time.Minute))
	return w
}

func (w *world) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally[what]++
}

func (w *world) violate(format string, args ...any) {
	w.say("VIOLATION "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

func (w *world) live(ctx context.Context) {
	ctx, end := context.WithCancel(ctx)
	var weather sync.WaitGroup
	for n := range w.design.machines {
		m := newMachine(w, n)
		weather.Go(func() { m.live(ctx) })
	}
	weather.Go(w.elect)
	w.publish(ctx)
	weather.Wait()
	w.finish(end)
}

// waits reports whether something waits in the queue.
func (w *world) waits() bool { return w.engine.count(string(freshLane), string(againLane)) > 0 }

// finish waits until the machines have ended.
func (w *world) finish(end func()) {
	const longest = 6 * time.Hour
	for time.Since(w.calm) < longest && w.waits() {
		time.Sleep(20 * time.Second)
	}
	w.mu.Lock()
	w.tally["minutes of calm"] += int(time.Since(w.calm).Minutes())
	w.mu.Unlock()
	end()
	close(w.over)
	w.running.Wait()
	time.Sleep(5 * time.Minute) // a run that ends does not wait for what hangs on a silent engine
}

// publish puts the recordings into the queue, from a machine that nothing happens to.
func (w *world) publish(ctx context.Context) {
	r := rand.New(rand.NewPCG(w.seed, 1))
	f := w.engine.another().fleet(defaultLease) //nolint:contextcheck // nothing is asked for
	for n := range w.design.recordings {
		time.Sleep(anytime(r, w.design.scale))
		recording := ingest.Recording{Key: fmt.Sprint(n), File: w.files[n]}
		recording.Params.Name, recording.Params.PatientID, recording.Params.PromptID = fmt.Sprintf("Encounter #%d.", n), int64(1+n%2), 1
		if w.design.alike {
			recording.Params.Name, recording.Params.PatientID = "Encounter", 1
		}
		if err := f.Publish(ctx, recording); err != nil {
			w.violate("recording %d is not published: %v", n, err)
		}
	}
}

// elect makes other servers the engine's leader, whose clocks are wrong in another way: delays end early or late.
func (w *world) elect() {
	r := rand.New(rand.NewPCG(w.seed, 2))
	for w.design.steps {
		time.Sleep(anytime(r, 10*w.design.scale))
		if !time.Now().Before(w.calm) {
			return
		}
		ahead := choice(r, 0, time.Minute, -time.Minute, time.Hour, -time.Hour)
		w.engine.mu.Lock()
		by := ahead - w.engine.ahead
		w.engine.ahead = ahead
		for _, m := range w.engine.waiting {
			if !m.due.IsZero() {
				m.due = m.due.Add(-by)
			}
		}
		w.engine.mu.Unlock()
		w.say("engine: a new leader, %s ahead", ahead)
	}
}

// record returns what the journal knows of a recording.
func (w *world) record(n int) (found record) {
	w.engine.mu.Lock()
	defer w.engine.mu.Unlock()
	for _, shelf := range w.engine.buckets {
		for key, e := range shelf.entries {
			var r record
			if strings.HasPrefix(key, "r.") && json.Unmarshal(e.value, &r) == nil && r.Entry.Size == int64(len(soundOf(n))) {
				found = r
			}
		}
	}
	return found
}

// leaves checks the last byte of a recording when it leaves a machine: the machine must have the claim at that moment.
// The byte may have been delayed for a lease in which nothing was heard of the machine. Then another machine may have
// taken the claim over, but may only be unresolved about the recording.
func (w *world) leaves(n int, l *life) {
	r := w.record(n)
	w.mu.Lock()
	owner, last := w.owners[r.Owner], l.wrote[r.Entry.Key]
	w.mu.Unlock()
	doubted := mayHaveNote(r.Entry.State) && r.Entry.State != ingest.StateCreated && r.Entry.SentAt.Equal(last.sent)
	switch {
	case r.Entry.State == ingest.StateCommitting && owner == l:
	case doubted && time.Since(last.at) >= defaultLease:
		w.count("left late")
	default:
		w.violate("recording %d leaves %s, which does not have it: %s, and the record is of %v", n, l, r.Entry.State, owner)
	}
}

const statusLost = -1 // it does not arrive

// refuses returns the status with which the service refuses a create, or 0 if it does not.
func (w *world) refuses(sound int) int {
	if sound < 0 {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch w.creates++; {
	case w.creates <= w.design.lost:
		return statusLost
	case w.creates <= w.design.closed:
		return http.StatusUnauthorized
	case sound == w.design.never:
		return http.StatusUnprocessableEntity
	}
	return 0
}

// unresolved is why a recording that nobody can decide about became a letter.
var unresolved = regexp.MustCompile(`cannot determine whether|it is not known yet`)

// judge compares the outcome of each recording with the promises.
func (w *world) judge(ctx context.Context) {
	notes := w.box.Notes()
	total := 0
	letters := map[string]string{}
	for letter, err := range w.letters(ctx) {
		if err != nil {
			w.violate("dead letters: %v", err)
		}
		letters[letter.Recording.Key] = letter.Reason
	}
	for n := range w.design.recordings {
		born, entry := w.births[n], w.record(n).Entry
		total += born
		reason, dead := letters[fmt.Sprint(n)]
		i := slices.IndexFunc(notes, func(note clinicaldoctest.Note) bool { return note.ID == entry.NoteID })
		switch {
		case born > 1:
			w.violate("recording %d has %d notes", n, born)
		case entry.State == ingest.StateCreated && (i < 0 || notes[i].AudioSize != int64(len(soundOf(n)))):
			w.violate("recording %d is said to be note %d", n, entry.NoteID)
		case n == w.design.never && born == 0 && (dead || w.design.alike):
			w.count("never taken")
		case entry.Stage == clinicaldoc.StageFailed && dead && strings.Contains(reason, "could not process"):
			w.count("failed")
		case dead && !unresolved.MatchString(reason):
			w.violate("recording %d became a letter: %s", n, reason)
		case dead:
			w.count("dead letters")
			w.say("recording %d has %d notes, and a letter: %s", n, born, reason)
		case born == 0 || entry.State != ingest.StateCreated:
			w.violate("recording %d has %d notes, is %s, and waits no more", n, born, entry.State)
		case !entry.Stage.AtLeast(clinicaldoc.StageComplete):
			w.violate("recording %d is forgotten: its note is %s, and nobody waits for it", n, entry.Stage)
		default:
			w.count("done")
		}
	}
	if held := w.engine.count(string(freshLane), string(againLane)); held > 0 {
		w.violate("%d recordings are held for ever", held)
		for _, m := range w.engine.waiting {
			w.say("%s is due in %s, delivered %d times; consumers rest %v", m.subject, time.Until(m.due), m.delivered, w.engine.pauses)
		}
	}
	if total != len(notes) {
		w.violate("%d notes were made, and %d are there", total, len(notes))
	}
}

// letters are the dead letters, which the engine in memory keeps with the rest.
func (w *world) letters(context.Context) func(func(DeadLetter, error) bool) {
	return func(yield func(DeadLetter, error) bool) {
		for _, m := range w.engine.waiting {
			var letter queuedRecording
			if strings.HasPrefix(m.subject, w.engine.store.subject("dead")) {
				err := json.Unmarshal(m.data, &letter)
				if !yield(DeadLetter{Recording: letter.recording(), Reason: letter.Reason}, err) {
					return
				}
			}
		}
	}
}

var errDead = errors.New("the process is dead")
