package simulation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// program uses the SDK as its documentation says.
type program struct {
	being
	network *network
	client  *clinicaldoc.Client
	group   int // of programs whose recordings have the same sizes: those that share a client, or differ in their users
	token   string
	known   []int64 // notes that it was told of
	pending []*recording
}

// recording is what a program has to bring to the service, once.
type recording struct {
	params      clinicaldoc.CreateNoteParams
	fingerprint string
	unique      bool // no other note has its name
	lost        *clinicaldoc.OutcomeUnknownError
	call        *call // whose response was lost
	tries       int
}

var errFullDisk = errors.New("the journal cannot be written")

func newProgram(w *world, number int, team []*program) *program {
	p := &program{being: being{world: w, name: fmt.Sprintf("p%d", number), number: number}, group: number, token: firstToken}
	p.network = &network{being: &p.being, asked: map[string]int{}}
	if w.design.secondUser && number > 0 && number == w.design.programs-1 {
		p.token, p.group = otherToken, 0 // only the user tells its notes from those of the first
	}
	if number > 0 && w.design.shared && p.token == team[0].token {
		p.group, p.client = team[0].group, team[0].client
		return p
	}
	p.client = p.newClient()
	return p
}

// way takes each request to the network of the program that makes it: programs may share a client.
type way struct{}

func (way) RoundTrip(req *http.Request) (*http.Response, error) {
	return callOf(req.Context()).program.network.RoundTrip(req)
}

func (p *program) newClient() *clinicaldoc.Client {
	client, err := clinicaldoc.NewClient("https://api.clinicaldoc.test", p.token, clinicaldoc.WithHTTPClient(&http.Client{Transport: way{}}),
		clinicaldoc.WithLogger(slog.New(slog.NewTextHandler(reader{p.world}, nil))))
	if err != nil {
		panic(err)
	}
	return client
}

func (p *program) live(ctx context.Context) {
	starts := p.starts()
	for i, start := range starts {
		if p.being.begin(i, start) {
			p.world.count("steps", 1)
			p.act(ctx, drawsAt(p.world.seed, p.leader(), uint64(i), hashOf("act")))
		}
	}
	p.step = len(starts)
	p.sleepUntil(p.world.calm.Sub(p.world.began) + time.Hour)
	p.settle(ctx)
}

// leader is whose choices the program makes: its own, or those of the first among twins.
func (p *program) leader() uint64 {
	if p.world.design.twins && p.group == 0 {
		return 0
	}
	return uint64(p.number)
}

// starts are the times of its steps.
func (p *program) starts() []time.Duration {
	starts := make([]time.Duration, p.world.design.steps)
	for i := range starts {
		starts[i] = drawsAt(p.world.seed, p.leader(), uint64(i), hashOf("start")).within(p.world.design.scale)
	}
	slices.Sort(starts)
	for i := range starts {
		starts[i] += time.Duration(p.number) * drawsAt(p.world.seed, uint64(p.number), uint64(i), hashOf("behind")).within(10*time.Second)
	}
	return starts
}

// settle is the calm end of the day: what is still open is asked once more, and a list must be whole.
func (p *program) settle(ctx context.Context) {
	open := p.pending
	p.pending = nil
	for _, r := range open {
		if r.lost != nil && !p.find(ctx, r, 30*time.Minute) && r.lost != nil {
			p.world.useful("lost creates undecided at the end")
		}
	}
	if !p.list(ctx, drawsAt(p.world.seed, uint64(p.number), hashOf("last list")), true) {
		p.world.violate("useless", "a list does not end well on a calm evening")
	}
}

func (p *program) act(ctx context.Context, d *draws) {
	choice := d.below(100)
	if choice < 40 {
		p.record(ctx, d)
		return
	}
	if choice < 54 {
		p.list(ctx, d, false)
		return
	}
	if len(p.known) == 0 {
		return
	}
	id := p.known[d.below(len(p.known))]
	if d.chance(0.5) {
		id = p.known[len(p.known)-1]
	}
	switch {
	case choice < 74:
		p.update(ctx, d, id)
	case choice < 84:
		p.sign(ctx, d, id)
	case choice < 88:
		p.delete(ctx, d, id)
	case choice < 95:
		p.wait(ctx, id, false)
	default:
		p.waitAll(ctx)
	}
}

func (p *program) patient(d *draws) int64 { return int64(1 + d.below(p.world.design.patients)) }

func (p *program) noteName(d *draws) string {
	return fmt.Sprintf("%s %d", nameMark, d.below(p.world.design.names))
}

// newRecording is unlike all others by its fingerprint alone. Clients of one user differ in their sizes: nothing could tell
// the notes of two apart.
func (p *program) newRecording(d *draws) *recording {
	audio := fmt.Sprintf("%s.%d ", p.name, p.step)
	audio += strings.Repeat("~", 100+20*p.group+d.below(3)-len(audio))
	sum := sha256.Sum256([]byte(audio))
	r := &recording{fingerprint: hex.EncodeToString(sum[:])}
	r.params = clinicaldoc.CreateNoteParams{Name: p.noteName(d), PatientID: p.patient(d), PromptID: 1, Audio: clinicaldoc.AudioBytes("a.wav", []byte(audio))}
	if !p.world.design.renames && d.chance(0.3) {
		r.unique = true
		r.params.Name = fmt.Sprintf("%s %s.%03d", nameMark, p.name, p.step)
	}
	return r
}

// record brings a recording to the service as the documentation says: what is lost is looked for, and created again only if
// it surely was not.
func (p *program) record(ctx context.Context, d *draws) {
	r := p.newRecording(d)
	for range 3 {
		if p.create(ctx, r) {
			if d.chance(0.15) {
				p.wait(ctx, p.world.service.birth(r.fingerprint).id, true)
			}
			return
		}
		if r.lost == nil {
			return
		}
		p.world.useful("lost creates")
		if p.world.design.restarts && !p.world.design.shared && d.chance(0.5) {
			p.restart(ctx, r)
		}
		limit := pick(d, 2*time.Minute, 15*time.Minute, time.Hour)
		if p.world.design.quiet {
			limit = time.Hour
		}
		found := p.find(ctx, r, limit)
		if found || r.lost != nil && !p.world.hasty {
			return
		}
	}
}

// create reports whether the note is there. Else lost says what is not known.
func (p *program) create(ctx context.Context, r *recording) bool {
	c := p.begin("create")
	c.fingerprint = r.fingerprint
	ctx, cancel := c.context(ctx)
	defer cancel()
	params := r.params
	if p.draws("before commit " + strconv.Itoa(r.tries)).chance(0.05) {
		params.BeforeCommit = func(context.Context) error { return errFullDisk }
	}
	r.tries++
	note, err := p.client.Notes.Create(ctx, params)
	var mixed *clinicaldoc.ConflictError
	if errors.As(err, &mixed) && errors.Is(err, clinicaldoc.ErrPatientMismatch) {
		p.world.say(p.name, "   create: %s", err)
		note, err = mixed.Current, nil // it was created, and a person has to look
	}
	c.end(err)
	r.lost, r.call = nil, c
	if err == nil {
		if patient, _ := note.PatientID(); mixed == nil && patient != r.params.PatientID {
			p.world.violate("wrong patient", "create returns note %d of patient %d", note.ID, patient)
		}
		p.told(c, r, note)
		return true
	}
	if unknown, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](err); ok {
		r.lost = unknown
	}
	return false
}

// told is the SDK's word that this note was made of the recording.
func (p *program) told(c *call, r *recording, note *clinicaldoc.ProgressNote) {
	p.known = append(p.known, note.ID)
	slices.Sort(p.known)
	if f := p.world.service.birth(r.fingerprint); f == nil || f.id != note.ID {
		p.world.violate("wrong note", "%s says note %d, which is not the recording's", c.op, note.ID)
	}
}

// restart is a new process that has only what was kept on disk.
func (p *program) restart(ctx context.Context, r *recording) {
	p.world.count("restarts", 1)
	p.client = p.newClient()
	stored, err := json.Marshal(r.lost)
	read := new(clinicaldoc.OutcomeUnknownError)
	if err == nil {
		err = json.Unmarshal(stored, read)
	}
	if err != nil {
		p.world.violate("journal", "%v", err)
	}
	r.lost = read
	// The new client learns of the other losses from being asked about them.
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for _, other := range p.pending {
		_, _ = p.client.Notes.FindCreated(ended, other.lost, clinicaldoc.FindCreatedParams{})
	}
}

// find asks what became of a lost create and reports whether the note was found. When it surely was not made, lost is nil.
func (p *program) find(ctx context.Context, r *recording, limit time.Duration) bool {
	c := p.begin("find")
	c.limit = limit
	ctx, cancel := c.context(ctx)
	defer cancel()
	note, err := p.client.Notes.FindCreated(ctx, r.lost, clinicaldoc.FindCreatedParams{UniqueName: r.unique, ExcludeIDs: p.known})
	since := time.Since(r.lost.LostAt)
	var undecided *clinicaldoc.OutcomeUnknownError
	switch {
	case err == nil:
		c.end(nil)
		p.told(c, r, note)
		p.decided("found", since)
		r.lost = nil
		return true
	case errors.Is(err, clinicaldoc.ErrNotCreated):
		p.world.say(p.name, "   find: not created")
		c.checkBounds()
		p.notCreated(r)
		p.decided("not created", since)
		r.lost = nil
	case errors.As(err, &undecided):
		c.end(err)
		p.world.count("reached: undecided", 1)
		r.lost = undecided
		p.pending = append(p.pending, r)
	default:
		p.world.violate("find", "an error of no kind: %v", err)
	}
	return false
}

// notCreated is the SDK's word that no note was made of the recording. What a clinician has deleted meanwhile nobody can see.
func (p *program) notCreated(r *recording) {
	if f := p.world.service.birth(r.fingerprint); f != nil && !f.died.IsZero() {
		p.world.count("reached: deleted before it was found", 1)
		return
	}
	r.call.deny()
}

func (p *program) decided(word string, since time.Duration) {
	p.world.useful("lost creates decided")
	p.world.count("reached: "+word, 1)
	if since <= 11*time.Minute {
		p.world.useful("lost creates decided within Settle")
	}
}

func (p *program) get(ctx context.Context, id int64) (*clinicaldoc.ProgressNote, error) {
	c := p.begin("get")
	ctx, cancel := c.context(ctx)
	defer cancel()
	note, err := p.client.Notes.Get(ctx, id)
	c.end(err)
	return note, err
}

// choosing returns the options of an edit: every other one says what was read.
func (p *program) choosing(ctx context.Context, d *draws, c *call) ([]clinicaldoc.CallOption, bool) {
	if d.chance(0.5) {
		return nil, true
	}
	note, err := p.get(ctx, c.note)
	if err != nil {
		return nil, false
	}
	_ = wait(ctx, d.within(time.Minute)) // somebody reads it
	c.unchanged = note
	c.began = time.Now()
	return []clinicaldoc.CallOption{clinicaldoc.IfUnchanged(note)}, true
}

func (p *program) update(ctx context.Context, d *draws, id int64) {
	c := p.begin("update")
	c.note = id
	opts, ok := p.choosing(ctx, d, c)
	if !ok {
		return
	}
	text := fmt.Sprintf("%s by %s in step %d", textMark, p.name, p.step)
	ctx, cancel := c.context(ctx)
	defer cancel()
	_, err := p.client.Notes.Update(ctx, id, clinicaldoc.UpdateNoteParams{Analysis: &text}, opts...)
	c.end(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && len(c.acts) == 0 {
		p.world.violate("not done", "the update of note %d is said to be done", id)
	}
}

func (p *program) sign(ctx context.Context, d *draws, id int64) {
	c := p.begin("sign")
	c.note = id
	opts, ok := p.choosing(ctx, d, c)
	if !ok {
		return
	}
	if d.chance(0.3) { // in the name of the clinician who is logged in
		c.token = clinicianToken
		opts = append(opts, clinicaldoc.WithToken(c.token))
		if p.token == otherToken {
			c.token = otherToken
			opts[len(opts)-1] = clinicaldoc.WithToken(c.token)
		}
	}
	ctx, cancel := c.context(ctx)
	defer cancel()
	_, err := p.client.Notes.Sign(ctx, id, opts...)
	c.end(err)
	if err != nil {
		return
	}
	f := p.world.service.fact(id)
	p.world.service.mu.Lock()
	defer p.world.service.mu.Unlock()
	at := slices.IndexFunc(f.changes, func(done change) bool { return done.signed })
	switch {
	case at < 0:
		p.world.violate("not done", "note %d is said to be signed", id)
	case c.unchanged != nil && !c.unchanged.Has.Signed && !p.world.design.sameTexts(c.unchanged, f.changes[at].before):
		p.world.violate("signed unread", "note %d: another text than the one that was read", id)
	}
}

func (w design) sameTexts(read *clinicaldoc.ProgressNote, n clinicaldoctest.Note) bool {
	return read.Transcription == n.Transcription && read.Analysis == n.Analysis && (w.shortens || read.Name == n.Name)
}

func (p *program) delete(ctx context.Context, d *draws, id int64) {
	c := p.begin("delete")
	c.note = id
	opts, ok := p.choosing(ctx, d, c)
	if !ok {
		return
	}
	ctx, cancel := c.context(ctx)
	defer cancel()
	_, err := p.client.Notes.Delete(ctx, id, opts...)
	c.end(err)
	if f := p.world.service.fact(id); err == nil && f.died.IsZero() {
		p.world.violate("not done", "note %d is said to be deleted", id)
	}
}

func (p *program) wait(ctx context.Context, id int64, fresh bool) {
	c := p.begin("wait")
	c.limit = time.Hour
	ctx, cancel := c.context(ctx)
	defer cancel()
	note, err := p.client.Notes.Wait(ctx, id, clinicaldoc.WaitParams{})
	c.end(err)
	if err == nil {
		p.checkWaited(c, note)
		return
	}
	f := p.world.service.fact(id)
	_, refused := errors.AsType[*clinicaldoc.Error](err)
	switch {
	case errors.Is(err, clinicaldoc.ErrNotFound) && f.died.IsZero() && (p.world.design.lag == 0 || fresh && p.world.design.lag < 9*time.Second):
		p.world.violate("waiting", "note %d is there, but the wait ends", id)
	case !errors.Is(err, clinicaldoc.ErrNotFound) && time.Since(c.began) < c.limit && c.requests <= 10:
		p.world.violate("waiting", "the wait for note %d ends after %d requests, refused %t", id, c.requests, refused)
	}
}

func (p *program) waitAll(ctx context.Context) {
	c := p.begin("wait")
	c.limit = time.Hour
	ctx, cancel := c.context(ctx)
	defer cancel()
	yielded := map[int64]int{}
	for note, err := range p.client.Notes.WaitAll(ctx, p.known, clinicaldoc.WaitParams{}) {
		var failed *clinicaldoc.WaitError
		switch {
		case err == nil:
			yielded[note.ID]++
			p.checkWaited(c, note)
		case errors.As(err, &failed):
			yielded[failed.ID]++
		}
	}
	c.end(nil)
	for _, id := range p.known {
		if yielded[id] != 1 {
			p.world.violate("waiting", "WaitAll yields note %d %d times", id, yielded[id])
		}
	}
}

// checkWaited holds a note that was waited for against what the service showed when it was read.
func (p *program) checkWaited(c *call, note *clinicaldoc.ProgressNote) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if shown := c.texts[note.ID]; shown != (texts{note.Name, note.Transcription, note.Analysis}) {
		p.world.violate("waiting", "note %d is not what Get gives", note.ID)
	}
	if !note.Stage().AtLeast(clinicaldoc.StageComplete) {
		p.world.violate("waiting", "note %d has not come to its end", note.ID)
	}
}

// list reads a list whole, and reports whether it ended well.
func (p *program) list(ctx context.Context, d *draws, calm bool) bool {
	c := p.begin("list")
	p.world.useful("lists")
	ctx, cancel := c.context(ctx)
	defer cancel()
	params := clinicaldoc.ListNotesParams{PerPage: 1 + d.below(5), Sort: pick(d, clinicaldoc.SortLatest, clinicaldoc.SortOldest), Verify: d.chance(0.2)}
	if d.chance(0.6) {
		params.PatientID = p.patient(d)
	}
	if p.world.design.prefetch && d.chance(0.5) {
		params.Prefetch, c.parallel = 1+d.below(3), true
	}
	slowness, deletes := pick(d, 0, 0, time.Second, 20*time.Second), !calm && d.chance(0.2)
	from := time.Now().Add(-p.world.design.lag)
	seen := map[int64]bool{}
	for note, err := range p.client.Notes.All(ctx, params) {
		if err != nil {
			c.end(err)
			return false
		}
		if seen[note.ID] {
			p.world.violate("list", "note %d is yielded twice", note.ID)
		}
		seen[note.ID] = true
		if patient, _ := note.PatientID(); params.PatientID != 0 && patient != params.PatientID {
			p.world.violate("list", "note %d is another patient's", note.ID)
		}
		if !calm && slowness > 0 {
			_ = wait(ctx, d.within(slowness))
		}
		if at := slices.Index(p.known, note.ID); deletes && at >= 0 && d.chance(0.5) {
			p.delete(ctx, d, note.ID)
		}
	}
	c.end(nil)
	p.world.useful("lists whole")
	wanted, deaths, births := p.world.service.throughout(params.PatientID, from, time.Now())
	hidden := deaths && (!p.world.design.tellsDeletions() || p.world.design.tellsTotals() && births) &&
		(!params.Verify || p.world.service.replica != nil)
	for _, id := range wanted {
		switch {
		case !seen[id] && hidden: // documented: the service cannot show it
			p.world.count("reached: a deletion that the list does not show", 1)
		case !seen[id]:
			p.world.violate("list lost a row", "note %d was there throughout, %d of %d yielded, %s", id, len(seen), len(wanted), params.Sort)
		}
	}
	return true
}
