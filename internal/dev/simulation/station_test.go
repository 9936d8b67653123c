package simulation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk/disktest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk/durable"
)

var journalPath = filepath.FromSlash("/journal")

// compactedPath is the path of the new file of a compaction.
var compactedPath = filepath.FromSlash("/.journal.clinicaldoc-journal")

// station uploads recordings with package ingest, and dies again and again: by signals and by power cuts, anywhere between
// two steps of its own. What it had sent goes on without it, and all that the next life has is the disk.
type station struct {
	being
	disk       *disktest.Disk
	recordings []ingest.Recording
	arrivals   []time.Duration
	prints     map[string]string // fingerprints by key
	names      map[string]string // by key
	lives      int

	mu      sync.Mutex
	refused map[string]time.Time // when a recording's note was last said not to exist, by wish
}

func newStation(w *world, number int) *station {
	s := &station{being: being{world: w, name: "i0", number: number}, disk: disktest.New(), prints: map[string]string{}, names: map[string]string{}, refused: map[string]time.Time{}}
	d := drawsAt(w.seed, uint64(number), hashOf("recordings"))
	apart := int64(d.below(2) * 100) // patients of its own, or the programs'
	if w.design.quiet {
		apart = 10_000
	}
	for i := range 2 + d.below(7) {
		audio := fmt.Sprintf("%s recording %d ", s.name, i)
		audio += sound(200 + d.below(2) - len(audio))
		sum := sha256.Sum256([]byte(audio))
		key := fmt.Sprintf("recording %d", i)
		s.prints[key] = hex.EncodeToString(sum[:])
		recording := ingest.Recording{Key: key, Params: clinicaldoc.CreateNoteParams{
			Name: fmt.Sprintf("%s %d", nameMark, d.below(w.design.names)), PatientID: apart + int64(1+d.below(w.design.patients)), PromptID: 1,
			Audio: clinicaldoc.AudioBytes("a.wav", []byte(audio)),
		}}
		s.names[key] = recording.Params.Name
		s.recordings = append(s.recordings, recording)
		arrives := d.within(w.design.scale)
		s.arrivals = append(s.arrivals, arrives)
		if w.design.letters {
			s.addLetter(recording, arrives)
		}
	}
	slices.Sort(s.arrivals)
	return s
}

// addLetter wants one more note of the recording.
func (s *station) addLetter(r ingest.Recording, arrives time.Duration) {
	fingerprint := s.prints[r.Key]
	r.Key += letterSuffix
	r.Params.Name += letterSuffix
	s.prints[r.Key] = fingerprint
	s.names[r.Key] = r.Params.Name
	s.recordings = append(s.recordings, r)
	s.arrivals = append(s.arrivals, arrives)
}

func (s *station) live(ctx context.Context) {
	d := drawsAt(s.world.seed, uint64(s.number), hashOf("crashes"))
	crashes := make([]time.Duration, d.below(7))
	for i := range crashes {
		// Near an arrival, where there is something to lose.
		crashes[i] = pick(d, s.arrivals...) + d.within(pick(d, time.Second, time.Minute, 12*time.Minute))
	}
	slices.Sort(crashes)
	s.beginJournal(ctx)
	release := make(chan struct{})
	var lives sync.WaitGroup
	current := s.begin(ctx, &lives, release)
	for i, at := range crashes {
		if !s.being.begin(i, at) {
			continue
		}
		choices := s.draws("crash")
		current.die(s, choices)
		time.Sleep(choices.within(pick(choices, time.Second, time.Minute, 20*time.Minute)))
		current = s.begin(ctx, &lives, release)
		if choices.chance(0.3) { // while it reads and tidies up its journal
			time.Sleep(choices.within(300 * time.Millisecond))
			current.die(s, choices)
			current = s.begin(ctx, &lives, release)
		}
	}
	s.sleepUntil(s.world.calm.Sub(s.world.began) + 2*time.Hour)
	current.stop()
	// One more on a calm evening, which nothing disturbs.
	s.lives++
	s.run(ctx, &life{number: s.lives, dead: make(chan struct{}), release: release, draws: d}, true)
	close(release)
	lives.Wait()
}

// process is a life under way.
type process struct {
	*life
	cancel context.CancelFunc
	over   chan struct{}
}

func (s *station) begin(ctx context.Context, lives *sync.WaitGroup, release <-chan struct{}) *process {
	ctx, cancel := context.WithCancel(ctx)
	p := &process{cancel: cancel, over: make(chan struct{})}
	s.lives++
	p.life = &life{number: s.lives, dead: make(chan struct{}), release: release, draws: drawsAt(s.world.seed, uint64(time.Since(s.world.began)))}
	lives.Go(func() {
		defer close(p.over)
		defer cancel()
		s.run(ctx, p.life, false)
	})
	lives.Go(func() { // the dead are woken at the end of the world, and must not go on then
		<-release
		cancel()
	})
	return p
}

// die ends the process.
func (p *process) die(s *station, d *draws) {
	powerCut := d.chance(0.5)
	s.world.slot(s.number)
	close(p.dead)
	if _, compacts := s.disk.Content(compactedPath); compacts && powerCut {
		s.world.count("power cuts in a compaction", 1)
	}
	if powerCut {
		s.disk.PowerCut(d.below)
	} else {
		s.disk.Kill()
	}
	s.world.count("crashes", 1)
	s.world.say(s.name, "   dies, power cut %t", powerCut)
}

// stop ends the process in good order.
func (p *process) stop() {
	p.cancel()
	<-p.over
}

func (p *life) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// run is one run of ingest over all recordings that have arrived or will.
func (s *station) run(ctx context.Context, l *life, calm bool) {
	owner := &program{being: being{world: s.world, name: s.name, number: s.number, step: l.number}, token: firstToken}
	owner.network = &network{being: &owner.being, asked: map[string]int{}, life: l}
	owner.client = owner.newClient()
	c := owner.begin("ingest")
	c.parallel = true
	s.checkFiles()
	ctx, cancel := c.context(durable.WithSlack(disk.With(ctx, s.disk.Mount(s.use(l))), 1))
	defer cancel()
	journal, err := ingest.OpenJournal(ctx, journalPath)
	if l.isDead() {
		return
	}
	if err != nil {
		s.world.violate("journal", "it cannot be opened: %v", err)
		return
	}
	defer func() { _ = journal.Close() }()
	if l.number%2 == 1 {
		s.wear(ctx, journal)
	}
	u := &ingest.Uploader{Client: owner.client, Journal: journal, Workers: 1}
	for result, err := range u.Run(ctx, s.arriving(ctx)) {
		switch {
		case l.isDead():
		case err != nil:
			s.world.say(s.name, "   run: %v", err)
			s.world.checkText(fmt.Sprintf("%v %+v", err, err))
			trouble := errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "everything fails in the same way")
			if calm || !trouble {
				s.world.violate("journal", "the run ends: %v", err)
			}
		default:
			s.judge(result, calm)
			s.fetch(ctx, l, owner, result)
		}
	}
}

// use is a life's use of the disk, where a journal's new file gets its name.
func (s *station) use(l *life) disktest.Process {
	return func(op string) error {
		if _, compacts := s.disk.Content(compactedPath); compacts && op == disktest.Rename {
			s.world.count("compactions", 1)
		}
		return l.use(op)
	}
}

// wear leaves outdated lines in a journal, of a recording that is refused again and again, so that a run drops them.
func (s *station) wear(ctx context.Context, journal *ingest.FileJournal) {
	if _, err := journal.Bind(ctx, s.owner()); err != nil {
		return
	}
	for range 12 {
		claim, err := journal.Claim(ctx, ingest.Key{1})
		if err != nil {
			return
		}
		_ = claim.Save(ctx, ingest.Entry{State: ingest.StateRefused, At: time.Now(), SentAt: time.Now()})
		claim.Release()
	}
}

func (s *station) owner() ingest.Owner {
	return ingest.Owner{Service: ingest.ServiceName("https://" + apiHost)}
}

// fetch brings the recordings of some notes back, into files of their own.
func (s *station) fetch(ctx context.Context, l *life, owner *program, result ingest.Result) {
	key := result.Recording.Key
	if result.NoteID == 0 || s.world.design.variant.ReuseIDs || !drawsAt(s.world.seed, uint64(owner.step), hashOf("fetch"+key)).chance(0.5) {
		return
	}
	c := owner.begin("download").on(result.NoteID)
	ctx, cancel := c.context(ctx)
	defer cancel()
	_, err := owner.client.Notes.DownloadAudioFile(ctx, result.NoteID, "/"+key, clinicaldoc.DownloadParams{IgnoreSize: true})
	if l.touch() != nil {
		return // nobody was told
	}
	if _, there := s.disk.Content("/" + key); err == nil && !there {
		s.world.violate("recording", "%s is said to be fetched, and is not", key)
	}
	s.world.count("recordings fetched into files", 1)
	s.checkFiles()
}

// checkFiles holds what stands under a recording's name against the recording.
func (s *station) checkFiles() {
	for key, print := range s.prints {
		content, there := s.disk.Content("/" + key)
		if sum := sha256.Sum256(content); there && hex.EncodeToString(sum[:]) != print {
			s.world.violate("recording", "%s: %d bytes that are not it", key, len(content))
		}
	}
}

// beginJournal is what a person does once.
func (s *station) beginJournal(ctx context.Context) {
	first := &life{dead: make(chan struct{}), draws: drawsAt(s.world.seed, uint64(s.number), hashOf("begin"))}
	journal, err := ingest.BeginJournal(disk.With(ctx, s.disk.Mount(first.use)), journalPath, s.owner())
	if err == nil {
		err = journal.Close()
	}
	if err != nil {
		s.world.violate("journal", "it cannot be begun: %v", err)
	}
}

// arriving are the recordings, each when its time has come.
func (s *station) arriving(ctx context.Context) iter.Seq2[ingest.Recording, error] {
	return func(yield func(ingest.Recording, error) bool) {
		for i, r := range s.recordings {
			if wait(ctx, time.Until(s.world.began.Add(s.arrivals[i]))) != nil || !yield(r, nil) {
				return
			}
		}
	}
}

// judge holds a result against the truth.
func (s *station) judge(result ingest.Result, calm bool) {
	fingerprint := s.prints[result.Recording.Key]
	s.world.say(s.name, "   %s: %s note %d %v", result.Recording.Key, result.Status, result.NoteID, result.Err)
	s.world.checkText(fmt.Sprintf("%v %+v %v", result, result, result.Err))
	s.world.count("ingest: "+result.Status.String(), 1)
	if calm {
		s.world.count("ingest, in the end: "+result.Status.String(), 1)
	}
	name := s.names[result.Recording.Key]
	f := s.world.service.birth(wish(fingerprint, name))
	switch result.Status {
	case ingest.Created, ingest.AlreadyThere:
		if !s.world.service.isOf(result.NoteID, fingerprint, name, s.name, s.world.began) {
			s.world.violate("wrong note", "%s is said to be note %d", result.Recording.Key, result.NoteID)
		}
	case ingest.Refused:
		if f != nil && f.died().IsZero() {
			s.world.violate("denied", "%s is said to have no note, and has", result.Recording.Key)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refused[wish(fingerprint, name)] = time.Now()
	default:
	}
}

// bornAfter looks whether a note was made by a request that was sent before it was said that there is none.
func (s *station) bornAfter(f *fact, sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, said := s.refused[f.wish()]; said && sent.Before(at) {
		s.world.violate("denied", "note %d was said not to exist", f.id)
	}
}
