package simulation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// program uses the SDK as its documentation says.
type program struct {
	being
	network *network
	client  *clinicaldoc.Client
	group   int // of programs whose recordings have the same sizes: those that share a client, or differ in their users
	token   string
	known   []int64                     // notes that it was told of
	made    []*clinicaldoc.ProgressNote // the same, by id and time
	pending []*recording
	last    []*recording // what the program still asks about at the end
	left    bool         // it has revoked its token

	responses []keptResponse
}

// keptResponse is a response that a program holds on to, and what it was.
type keptResponse struct {
	response *clinicaldoc.Response
	header   http.Header
	body     string
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
	p.known = slices.Clone(w.service.editable)
	if w.design.patientless || w.design.rivals {
		p.group = 0 // only the patient tells their notes apart
	}
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
	client, err := clinicaldoc.NewClient("https://"+apiHost, p.token, clinicaldoc.WithHTTPClient(&http.Client{Transport: way{}}),
		clinicaldoc.WithLogger(slog.New(slog.NewTextHandler(reader{p.world}, nil))),
		clinicaldoc.WithHooks(clinicaldoc.Hooks{
			CallStart: func(ctx context.Context, info clinicaldoc.Call) context.Context {
				if c, asked := ctx.Value(callKey{}).(*call); asked { // else it is told of losses, and asks nothing
					c.start(info.Operation)
				}
				return ctx
			},
			AttemptEnd: func(ctx context.Context, a clinicaldoc.Attempt) {
				if a.Err != nil {
					callOf(ctx).observe(a.Err)
				}
			},
		}),
		clinicaldoc.WithAudit(audit),
		clinicaldoc.WithAssumptions(p.assumptions()), clinicaldoc.WithQueryNames(p.queryNames()))
	if err != nil {
		panic(err)
	}
	return client
}

// assumptions is what the program states about the service, all of it true.
func (p *program) assumptions() clinicaldoc.Assumptions {
	if !p.world.design.assumes {
		return clinicaldoc.Assumptions{}
	}
	return clinicaldoc.Assumptions{
		RecordingsUnchanged: p.world.design.recordingsUnchanged(), NamesUnchanged: p.world.design.namesUnchanged(),
	}
}

// queryNames is what the program states about the list's parameters. Who states what holds of a service knows them.
func (p *program) queryNames() clinicaldoc.QueryNames {
	if !p.world.design.assumes {
		return clinicaldoc.QueryNames{}
	}
	names := p.world.design.variant.Query
	return clinicaldoc.QueryNames{PerPage: names.PerPage, Sort: names.Sort, Page: names.Page}
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
	if p.world.design.restarts && !p.world.design.shared {
		p.restart()
	}
	p.last = p.pending
	p.pending = nil
	limit := 30 * time.Minute
	if p.world.design.date == stillDate { // where only the SDK's own bounds end a search
		limit = 2 * day
	}
	for _, r := range p.last {
		if r.lost != nil && !p.find(ctx, r, limit) && r.lost != nil {
			p.world.count("lost creates undecided at the end", 1)
		}
	}
	for calm := false; !calm; { // others may finish their work meanwhile
		began := time.Now().Add(-p.world.design.lag) // a replica may still show what was
		whole := p.list(ctx, drawsAt(p.world.seed, uint64(p.number), hashOf("last list")), true)
		_, deaths, births, _ := p.world.service.throughout(0, began, time.Now())
		if calm = whole || !deaths && !births; !whole && calm && p.world.design.tellsEnd() {
			p.world.violate("useless", "a list does not end well on a calm evening")
		}
	}
	if len(p.known) > 0 && !p.world.design.variant.ReuseIDs {
		p.download(ctx, p.known[len(p.known)-1])
	}
	for _, kept := range p.responses {
		if !maps.EqualFunc(kept.header, kept.response.Header, slices.Equal) || kept.body != string(kept.response.Body) {
			p.world.violate("response", "one that was kept has changed")
		}
	}
}

// shares are how often programs do each thing, in hundredths, by what the world is about.
var shares = [focuses][]int{ // record, list, update, sign, delete, wait, wait for all, review, download, something else
	onAll:    {40, 12, 14, 8, 5, 6, 5, 4, 4, 2},
	onLosses: {82, 3, 3, 2, 3, 2, 1, 1, 1, 2},
	onEdits:  {18, 2, 24, 24, 14, 1, 1, 7, 1, 8},
	onLists:  {34, 45, 3, 2, 12, 1, 1, 1, 1, 0},
	onWaits:  {42, 2, 4, 2, 1, 24, 16, 2, 5, 2},
}

func (p *program) act(ctx context.Context, d *draws) {
	choice, at, limit := d.below(100), 0, shares[p.world.design.focus]
	if p.world.design.variant.ReuseIDs { // whoever works with a note works with any that has its id
		limit = []int{60, 5, 0, 0, 35}
	}
	for ; choice >= limit[at]; at++ {
		choice -= limit[at]
	}
	switch {
	case at == 0:
		p.record(ctx, d)
	case at == 1:
		p.list(ctx, d, false)
	case at == 9:
		p.doElse(ctx, d)
	case len(p.known) == 0:
	default:
		id := p.known[d.below(len(p.known))]
		if d.chance(0.6) {
			id = p.known[len(p.known)-1]
		}
		p.work(ctx, d, id, at)
	}
}

// work is what is done with a note that is there, or was.
func (p *program) work(ctx context.Context, d *draws, id int64, what int) {
	switch what {
	case 2:
		p.update(ctx, d, id)
	case 3:
		p.sign(ctx, d, id)
	case 4:
		p.delete(ctx, d, id)
	case 5:
		p.wait(ctx, d, id, false)
	case 6:
		p.waitAll(ctx)
	case 7:
		p.review(ctx, d)
	case 8:
		p.download(ctx, id)
	}
}

func (p *program) patient(d *draws) int64 {
	patient := int64(1 + d.below(p.world.design.patients))
	if p.world.design.patientless && p.number == 0 {
		return 0
	}
	return patient
}

func (p *program) noteName(d *draws) string {
	return fmt.Sprintf("%s %d", nameMark, d.below(p.world.design.names))
}

// sound is that many bytes of a recording, no two parts of which are alike.
func sound(length int) string {
	var text strings.Builder
	for i := 10; text.Len() < length; i++ {
		text.WriteString(strconv.Itoa(i))
	}
	return text.String()[:length]
}

// newRecording is unlike all others by its fingerprint alone. Clients of one user differ in their sizes: nothing could tell
// the notes of two apart.
func (p *program) newRecording(d *draws) *recording {
	audio := fmt.Sprintf("%s.%d ", p.name, p.step)
	audio += sound(100 + 20*p.group + d.below(p.world.design.sizeCount()) - len(audio))
	sum := sha256.Sum256([]byte(audio))
	r := &recording{fingerprint: hex.EncodeToString(sum[:])}
	file := pick(p.draws("format"), "a.wav", "a.wav", "a.mp3", "a.m4a")
	r.params = clinicaldoc.CreateNoteParams{
		Name: p.noteName(d), PatientID: p.patient(d), PromptID: 1, Audio: clinicaldoc.AudioBytes(file, []byte(audio)),
	}
	if p.world.design.namesUnchanged() && d.chance(0.3) {
		r.unique = true
		r.params.Name = fmt.Sprintf("%s %s %s.%03d", nameMark, uniqueMark, p.name, p.step)
	}
	return r
}

// record brings a recording to the service, now and then as two notes.
func (p *program) record(ctx context.Context, d *draws) {
	r := p.newRecording(d)
	p.bring(ctx, d, r)
	if more := p.draws("letter"); p.world.design.letters && more.chance(0.6) {
		p.bring(ctx, more, r.letter())
	}
}

// goOn works with a note that has just been made.
func (p *program) goOn(ctx context.Context, d *draws, r *recording) {
	f := p.world.service.birth(r.wish())
	if f == nil {
		return // the SDK was wrong, as the oracle has noted
	}
	if d.chance(0.15) && !p.world.design.variant.ReuseIDs {
		p.wait(ctx, d, f.id, true)
	}
	if p.world.design.focus == onEdits && d.chance(0.4) || p.world.design.slowly { // nobody has waited for it
		p.sign(ctx, d, f.id)
	}
}

// bring creates a note as the documentation says: it searches for what is lost, and creates it again only if it was not
// created.
func (p *program) bring(ctx context.Context, d *draws, r *recording) {
	for range 3 {
		if p.create(ctx, r) {
			p.goOn(ctx, d, r)
			return
		}
		if r.lost == nil {
			return
		}
		p.world.count("lost creates", 1)
		if p.world.design.restarts && !p.world.design.shared && d.chance(0.5) {
			p.pending = append(p.pending, r)
			p.restart()
			p.pending = p.pending[:len(p.pending)-1]
		}
		if !p.world.design.quiet && (d.chance(0.15) || p.world.design.focus == onLosses && d.chance(0.3)) { // who does not ask at once must not make others err
			p.pending = append(p.pending, r)
			return
		}
		limit := pick(d, 2*time.Minute, 15*time.Minute, time.Hour)
		if p.world.design.quiet {
			limit = time.Hour
		}
		found := p.find(ctx, r, limit)
		if found || r.lost != nil {
			return
		}
	}
}

// create reports whether the note is there. Else lost says what is not known.
func (p *program) create(ctx context.Context, r *recording) bool {
	c := p.begin("create")
	c.fingerprint = r.fingerprint
	c.wish = r.wish()
	ctx, cancel := c.context(ctx)
	defer cancel()
	params := r.params
	if p.draws("before commit " + strconv.Itoa(r.tries)).chance(0.05) {
		params.BeforeCommit = func(context.Context) error { return errFullDisk }
	}
	r.tries++
	note, err := p.client.Notes.Create(ctx, params, p.tenant()...)
	var mixed *clinicaldoc.ConflictError
	if errors.As(err, &mixed) && errors.Is(err, clinicaldoc.ErrPatientMismatch) {
		p.world.say(p.name, "   create: %s", err)
		note, err = mixed.Current, nil // it was created, and a person has to look
	}
	c.gets(note)
	c.end(err)
	r.lost, r.call = nil, c
	if err == nil {
		if patient, named := note.PatientID(); mixed == nil && named && patient != r.params.PatientID {
			p.world.violate("wrong patient", "create returns note %d of patient %d", note.ID, patient)
		}
		p.told(c, r, note)
		return true
	}
	if unknown, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](err); ok {
		r.lost = unknown
		c.checkLoss(unknown)
	}
	return false
}

// told is the SDK's word that this note was made of the recording.
func (p *program) told(c *call, r *recording, note *clinicaldoc.ProgressNote) {
	if !p.world.service.isOf(note.ID, r.fingerprint, r.params.Name, p.name, c.began) {
		p.world.violate("wrong note", "%s says note %d, which is not the recording's", c.op, note.ID)
		return
	}
	p.known = append(p.known, note.ID)
	slices.Sort(p.known)
	p.made = append(p.made, &clinicaldoc.ProgressNote{ID: note.ID, CreatedAt: note.CreatedAt})
}

// restart is a new process that has only what was kept on disk.
func (p *program) restart() {
	p.world.count("restarts", 1)
	p.client = p.newClient()
	p.pending = slices.DeleteFunc(p.pending, func(r *recording) bool { return r.lost == nil }) // decided meanwhile
	for _, r := range p.pending {
		r.lost = p.stored(r.lost)
	}
}

// stored is a lost create as a journal keeps it.
func (p *program) stored(lost *clinicaldoc.OutcomeUnknownError) *clinicaldoc.OutcomeUnknownError {
	kept, err := json.Marshal(lost)
	read := new(clinicaldoc.OutcomeUnknownError)
	if err == nil {
		err = json.Unmarshal(kept, read)
	}
	if err != nil || !read.SentAt.Equal(lost.SentAt) || !read.LostAt.Equal(lost.LostAt) || read.AudioSize != lost.AudioSize || read.NoteID != lost.NoteID ||
		read.ID != lost.ID || read.Service != lost.Service || read.UserID != lost.UserID || len(read.AudioSHA256) != 64 {
		p.world.violate("journal", "a lost create is not what it was: %v", err)
	}
	return p.elsewhere(kept, lost.Params.Audio == nil)
}

// elsewhere is a lost create in the journal of a machine whose clock is off, and which may keep less than nanoseconds. What
// has come from there already stays as it is.
func (p *program) elsewhere(kept []byte, there bool) *clinicaldoc.OutcomeUnknownError {
	var members map[string]any
	_ = json.Unmarshal(kept, &members)
	for _, name := range []string{"sent_at", "lost_at", "clock_read_at"} {
		text, _ := members[name].(string)
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil && !there {
			members[name] = at.Add(p.machine()).Truncate(p.world.design.precision).Format(time.RFC3339Nano)
		}
	}
	kept, _ = json.Marshal(members)
	read := new(clinicaldoc.OutcomeUnknownError)
	if err := json.Unmarshal(kept, read); err != nil {
		p.world.violate("journal", "a lost create cannot be read: %v", err)
	}
	return read
}

// find asks what became of a lost create and reports whether the note was found. When it surely was not made, lost is nil.
func (p *program) find(ctx context.Context, r *recording, limit time.Duration) bool {
	p.askWrongly(ctx, r)
	c := p.begin("find")
	c.limit = limit
	c.wish = r.wish()
	ctx, cancel := c.context(ctx)
	defer cancel()
	response := new(clinicaldoc.Response)
	options := append(p.tenant(), clinicaldoc.WithResponse(response))
	note, err := p.client.Notes.FindCreated(ctx, r.lost, p.finding(r), options...)
	p.responses = append(p.responses, keptResponse{response, response.Header.Clone(), string(response.Body)})
	since := time.Since(r.lost.LostAt)
	var undecided *clinicaldoc.OutcomeUnknownError
	switch {
	case err == nil:
		c.gets(note)
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
		if took := time.Since(c.began); took > longestSearch {
			p.world.violate("late", "a search took %s", took)
		}
		p.world.count("reached: undecided", 1)
		r.lost = undecided
		p.pending = append(p.pending, r)
	default:
		p.world.violate("find", "an error of no kind: %v", err)
	}
	return false
}

// askWrongly asks another service about a loss, and the own one as a user whose list does not show it: neither may say that
// there is no note.
func (p *program) askWrongly(ctx context.Context, r *recording) {
	d := p.draws("wrong " + strconv.Itoa(r.tries))
	often := 0.3
	if p.world.design.namesTenants() {
		often = 0.8
	}
	if !p.world.design.apart || !d.chance(often) {
		return
	}
	elsewhere, err := clinicaldoc.NewClient("https://elsewhere.clinicaldoc.test", p.token, clinicaldoc.WithHTTPClient(&http.Client{Transport: way{}}))
	if err != nil {
		panic(err)
	}
	for _, ask := range p.wrongAsks(elsewhere) {
		c := p.begin("find")
		c.limit, c.token = 12*time.Minute, ask.token
		c.foreign = true
		limited, cancel := c.context(ctx)
		options := append(slices.Clip(ask.options), clinicaldoc.WithToken(ask.token))
		_, err := ask.client.Notes.FindCreated(limited, p.stored(r.lost), p.finding(r), options...)
		cancel()
		c.checkBounds()
		p.world.count("reached: asked at the wrong place, or as the wrong user", 1)
		if err == nil || errors.Is(err, clinicaldoc.ErrNotCreated) {
			p.world.violate("asked wrongly", "and told what became of a create: %v", err)
		}
	}
}

// wrongAsk is a question to a service, or as a user or for a tenant, whose lists do not show the note.
type wrongAsk struct {
	client  *clinicaldoc.Client
	token   string
	options []clinicaldoc.CallOption
}

func (p *program) wrongAsks(elsewhere *clinicaldoc.Client) []wrongAsk {
	if p.world.design.variation == tenantByHeader {
		return []wrongAsk{
			{p.client, p.token, []clinicaldoc.CallOption{clinicaldoc.WithHeader(tenantHeader, "other")}},
			{p.newClient(), p.token, nil},
		}
	}
	return []wrongAsk{{elsewhere, p.token, nil}, {p.client, strangerToken, nil}, {p.newClient(), strangerToken, nil}}
}

// tenant selects the tenant of the program's calls, where that is not done by the token.
func (p *program) tenant() []clinicaldoc.CallOption {
	if p.world.design.variation != tenantByHeader {
		return nil
	}
	return []clinicaldoc.CallOption{clinicaldoc.WithHeader(tenantHeader, "own")}
}

// machine is how far the clock was ahead, or behind, that the program lived by before it was restarted.
func (p *program) machine() time.Duration {
	if p.world.design.machines && p.number > 0 {
		d := drawsAt(p.world.seed, uint64(p.number), hashOf("machine"))
		return pick(d, 5*time.Minute, time.Hour, -5*time.Minute, -time.Hour)
	}
	return p.world.design.machine
}

// finding excludes what the program knows, in some worlds also notes of which it has kept no more than the id.
func (p *program) finding(r *recording) clinicaldoc.FindCreatedParams {
	params := clinicaldoc.FindCreatedParams{
		UniqueName: r.unique, Exclude: slices.Clip(p.made), TrustPatientFilter: p.world.design.unnamed,
	}
	if !p.world.design.variant.ReuseIDs {
		for _, id := range p.known {
			params.Exclude = append(params.Exclude, &clinicaldoc.ProgressNote{ID: id})
		}
	}
	for _, other := range slices.Concat(p.pending, p.last) {
		if other != r && other.lost != nil {
			params.Unresolved = append(params.Unresolved, other.lost)
		}
	}
	return params
}

// notCreated is the SDK's word that no note was made of the recording. What a clinician has deleted meanwhile nobody can
// see.
func (p *program) notCreated(r *recording) {
	f := p.world.service.birth(r.wish())
	switch {
	case f == nil:
	case !f.died().IsZero():
		p.world.count("reached: deleted before it was found", 1)
		return
	}
	r.call.deny()
}

// soon are the times within which a lost create is decided. That of Settle includes a cache that keeps a list for a
// minute, and the last search.
var soon = []struct {
	within time.Duration
	label  string
}{{time.Minute, "within a minute"}, {12 * time.Minute, "within Settle"}, {time.Hour, "within an hour"}}

func (p *program) decided(word string, since time.Duration) {
	p.world.count("lost creates decided", 1)
	p.world.count("reached: "+word, 1)
	for _, s := range soon {
		if since <= s.within {
			p.world.count("lost creates decided "+s.label, 1)
		}
	}
}
