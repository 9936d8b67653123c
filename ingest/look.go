package ingest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"weak"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// An empty journal proves nothing: it may have been lost, or begun in another place. So a recording that the journal does not
// know is looked for among the patient's notes before it is uploaded.

const (
	maxCandidates = 30          // whose recordings are read for one
	maxPatients   = 256         // whose lists are kept
	freshFor      = time.Minute // a list, at least
)

// patientNotes is what a list of a patient's notes showed.
type patientNotes struct {
	ready chan struct{} // closed when it is known
	until time.Time     // it is fresh
	rows  []noteRow
	err   error
}

type noteRow struct {
	id, size int64 // the size as the service tells it; 0: it does not
	created  time.Time
	name     string
}

type notesCache map[int64]*patientNotes

// notesOf lists the patient's notes, once for all recordings that come together. A long list is kept for longer: listing takes
// a hundredth of the time at most.
func (r *run) notesOf(ctx context.Context, patient int64) ([]noteRow, error) {
	r.mu.Lock()
	n := r.notes[patient]
	if n == nil || isReady(n) && (n.err != nil && !lasting(n.err) || time.Now().After(n.until)) {
		if len(r.notes) >= maxPatients {
			clear(r.notes)
		}
		n = &patientNotes{ready: make(chan struct{})}
		r.notes[patient] = n
		r.mu.Unlock()
		begun := time.Now()
		n.rows, n.err = r.list(ctx, patient)
		n.until = time.Now().Add(max(freshFor, 100*time.Since(begun)))
		close(n.ready)
		return n.rows, n.err
	}
	r.mu.Unlock()
	select {
	case <-n.ready:
		return n.rows, n.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func isReady(n *patientNotes) bool {
	select {
	case <-n.ready:
		return true
	default:
		return false
	}
}

func (r *run) list(ctx context.Context, patient int64) (rows []noteRow, err error) {
	params := clinicaldoc.ListNotesParams{PatientID: patient, PerPage: 100, TrustPatientFilter: true}
	for note, err := range r.uploader.Client.Notes.All(ctx, params) {
		if err != nil {
			return nil, err
		}
		if of, named := note.PatientID(); named && of != patient {
			continue // only where no patient was asked for
		}
		row := noteRow{id: note.ID, created: note.CreatedAt, name: plainName(note.Name)}
		if note.Audio != nil {
			row.size = note.Audio.Size
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// look uploads a recording that has no note yet, as far as its patient's notes tell.
func (r *run) look(t *task) {
	rows, err := r.notesOf(r.ctx, t.recording.Params.PatientID)
	switch {
	case err != nil && r.ctx.Err() != nil:
		r.drop(t)
		return
	case err != nil:
		r.lookFailed(t, err)
		return
	}
	candidates, err := r.candidates(t, rows)
	switch {
	case err != nil && r.ctx.Err() != nil:
		r.drop(t)
		return
	case err != nil:
		r.done(t, Result{Status: Refused, Err: err}, err)
		return
	case len(candidates) == 0:
		r.upload(t)
		return
	}
	found, doubt := r.compareAll(t, candidates)
	switch {
	case r.ctx.Err() != nil:
		r.drop(t)
	case found.id != 0:
		r.foundThere(t, found)
	case errors.Is(doubt, errUnknownService) && !t.job.final:
		r.send(message{deferred: r.jobsOf(t, Result{})})
	case doubt != nil:
		r.lookDoubt(t, doubt)
	default:
		r.upload(t)
	}
}

// lookFailed ends a task whose patient's notes cannot be listed.
func (r *run) lookFailed(t *task, err error) {
	what, later := r.failureOf(t, err)
	switch {
	case later && r.mayTryAgain(t):
		r.putBack(t, Result{Status: Refused, Err: err})
		return
	case later || errors.Is(err, clinicaldoc.ErrInvalidArgument):
		r.refused(t, err)
		return
	}
	r.send(message{contact: what, err: err})
	r.lookDoubt(t, fail("whether it has a note already cannot be told, because its patient's notes cannot be listed; AllNew uploads without that: "+redact.Opaque(err).Error(), err))
}

// candidates are the notes that have the recording's name or size and that the journal does not know as others'.
func (r *run) candidates(t *task, rows []noteRow) ([]noteRow, error) {
	name, size := plainName(t.recording.Params.Name), t.own.Size
	unique := r.uploader.Find.UniqueName
	rows = slices.DeleteFunc(slices.Clone(rows), func(row noteRow) bool {
		return !sameName(name, row.name) && (unique || row.size != size)
	})
	if len(rows) == 0 {
		return nil, nil
	}
	entries, err := r.uploader.Journal.EntriesForPatient(r.ctx, t.own.Patient, time.Time{})
	if err != nil && !errors.Is(err, ErrJournalDamaged) { // without a record, content alone tells notes apart
		return nil, err
	}
	others := map[int64][]*Entry{} // by their notes: a patient may have thousands
	for i := range entries {
		if e := &entries[i]; e.Key != t.own.Key {
			others[e.NoteID] = append(others[e.NoteID], e)
		}
	}
	rows = slices.DeleteFunc(rows, func(row noteRow) bool {
		return slices.ContainsFunc(others[row.id], func(e *Entry) bool { return e.has(row.id, row.created) })
	})
	slices.SortFunc(rows, func(a, b noteRow) int { // the likeliest first, then the oldest
		likely := func(row noteRow) int {
			if row.size == size {
				return 0
			}
			return 1
		}
		return cmp.Or(likely(a)-likely(b), cmp.Compare(a.id, b.id))
	})
	return rows, nil
}

// errUnknownService: content differs, and whether the service keeps recordings as they were sent is not known yet.
var errUnknownService = fail("its patient has a note with the same name or size and another recording, and it is not known yet whether this service keeps recordings as they were sent; a person has to look (Uploader.Resolve), or AllNew says that it is new", clinicaldoc.ErrOutcomeUnknown)

// compareAll looks for the recording's note among those that may be it.
func (r *run) compareAll(t *task, candidates []noteRow) (found noteRow, doubt error) {
	sum, err := t.hash()
	if err != nil {
		return noteRow{}, fail("its patient has a note with the same name or size, and the recording cannot be read before it is sent; a person has to look (Uploader.Resolve)", clinicaldoc.ErrOutcomeUnknown, err)
	}
	name := plainName(t.recording.Params.Name)
	read := 0
	for _, row := range candidates {
		named := sameName(name, row.name)
		if r.keepsContent(r.ctx) == contentKept && row.size > 0 && row.size != t.own.Size && !r.uploader.Find.UniqueName {
			continue
		}
		if read++; read > maxCandidates {
			return noteRow{}, fail("its patient has too many notes with the same name or size; a person has to look (Uploader.Resolve)", clinicaldoc.ErrOutcomeUnknown)
		}
		content, err := r.compare(r.ctx, row.id, t.own.Size, sum)
		switch {
		case content == contentEqual:
			r.content.know(contentKept)
			return row, nil
		case content == contentOther && r.keepsContent(r.ctx) == contentKept:
			if named && r.uploader.Find.UniqueName {
				return noteRow{}, fail("its patient has a note of the same name with another recording, although names are said to be unique; a person has to look (Uploader.Resolve)", clinicaldoc.ErrOutcomeUnknown)
			}
		case named && r.uploader.Find.UniqueName:
			return row, nil
		case content == contentOther && r.keepsContent(r.ctx) == contentUnknown:
			doubt = errUnknownService
		case content == contentOther && !named: // another length by chance
		case content == contentOther:
			doubt = fail("its patient has a note of the same name, and this service does not keep recordings as they were sent; a person has to look (Uploader.Resolve)", clinicaldoc.ErrOutcomeUnknown)
		default:
			return noteRow{}, fail("its patient has a note with the same name or size whose recording cannot be read; a person has to look (Uploader.Resolve): "+redact.Opaque(err).Error(), clinicaldoc.ErrOutcomeUnknown, err)
		}
	}
	return noteRow{}, doubt
}

// foundThere takes down that the recording has a note already.
func (r *run) foundThere(t *task, found noteRow) {
	e := t.own
	e.State, e.At, e.NoteID, e.NoteCreatedAt, e.Found, e.SHA256 = StateCreated, time.Now(), found.id, found.created, true, t.sha256
	e.SentAt = e.At
	r.doneWith(t, message{contact: answered, broken: r.save(t, e)}, Result{Status: AlreadyThere, NoteID: e.NoteID})
}

// lookDoubt takes down that the recording may have a note already. It was not sent: the next run looks again.
func (r *run) lookDoubt(t *task, doubt error) {
	e := t.own
	e.State, e.At, e.Why, e.SHA256 = StateInDoubt, time.Now(), redact.Opaque(doubt).Error(), t.sha256
	r.done(t, Result{Status: InDoubt, Err: doubt}, r.save(t, e))
}

// hash is the recording's SHA-256.
func (t *task) hash() (string, error) {
	if t.sha256 != "" {
		return t.sha256, nil
	}
	var err error
	t.sha256, err = t.recording.Params.Audio.SHA256()
	return t.sha256, err
}

// content is how a note's recording compares with another.
type content int

const (
	contentUnread content = iota
	contentEqual
	contentOther
)

// compare reads a note's recording.
func (r *run) compare(ctx context.Context, id, size int64, sum string) (content, error) {
	if sum == "" {
		return contentUnread, errors.New("nothing to compare with")
	}
	got, err := r.read(ctx, id, size)
	switch {
	case err != nil:
		return contentUnread, err
	case got == sum:
		return contentEqual, nil
	}
	return contentOther, nil
}

// read returns the SHA-256 of a note's recording; empty: it is longer than this size.
func (r *run) read(ctx context.Context, id, size int64) (sum string, err error) {
	if r.uploader.Find.WithoutAudio {
		return "", errWithoutAudio
	}
	w := &comparing{hash: sha256.New(), left: size}
	_, err = r.uploader.Client.Notes.DownloadAudio(ctx, id, w, clinicaldoc.DownloadParams{IgnoreSize: true})
	switch {
	case w.longer:
		return "", nil
	case err != nil:
		return "", err
	}
	return hex.EncodeToString(w.hash.Sum(nil)), nil
}

var errWithoutAudio = redact.New("Find.WithoutAudio forbids it")

// comparing ends a download that is longer than what it is compared with.
type comparing struct {
	hash   hash.Hash
	left   int64 // negative: not known
	longer bool
}

var errLonger = redact.New("the recording is longer")

func (c *comparing) Write(p []byte) (int, error) {
	if c.left >= 0 {
		if int64(len(p)) > c.left {
			c.longer = true
			return 0, errLonger
		}
		c.left -= int64(len(p))
	}
	return c.hash.Write(p)
}

// keeping is whether the service keeps recordings as they were sent.
type keeping int

const (
	contentUnknown keeping = iota
	contentKept
	contentChanged
)

// contentCheck finds out whether the service keeps recordings as they were sent: from one whose content is known.
type contentCheck struct {
	mu     sync.Mutex
	sample *Entry // of a note and its hash; nil: there is none
	known  keeping
	tries  int
}

// contentChecks are kept for a client, so that a service is tried once and not in each run.
var contentChecks sync.Map // of weak.Pointer[clinicaldoc.Client] to *contentCheck

func contentCheckOf(client *clinicaldoc.Client) *contentCheck {
	key := weak.Make(client)
	check, loaded := contentChecks.LoadOrStore(key, new(contentCheck))
	if !loaded {
		runtime.AddCleanup(client, func(weak.Pointer[clinicaldoc.Client]) { contentChecks.Delete(key) }, key)
	}
	return check.(*contentCheck) //nolint:errcheck,forcetypeassert // nothing else is put there
}

// learn takes in a note whose recording is known; nil is ignored.
func (c *contentCheck) learn(e *Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sample == nil && e != nil && e.SHA256 != "" {
		c.sample = e
	}
}

func (c *contentCheck) know(what keeping) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = what
}

// canTell reports whether there is a note to find it out from.
func (c *contentCheck) canTell() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sample != nil || c.known != contentUnknown
}

const maxSampleReads = 3

// keepsContent reads the sample when it matters, once.
func (r *run) keepsContent(ctx context.Context) keeping {
	c := r.content
	c.mu.Lock()
	sample, known := c.sample, c.known
	may := known == contentUnknown && sample != nil && c.tries < maxSampleReads
	if may {
		c.tries++
	}
	c.mu.Unlock()
	if !may {
		return known
	}
	switch content, _ := r.compare(ctx, sample.NoteID, sample.Size, sample.SHA256); content {
	case contentEqual:
		known = contentKept
	case contentOther:
		known = contentChanged
	default:
		return contentUnknown
	}
	c.know(known)
	return known
}

// plainName is a name as services may give it back: without spaces at the ends, in lower case.
func plainName(name string) string {
	return creates.Compose(strings.ToLower(strings.Join(strings.Fields(name), " ")))
}

// minCut is how long the beginning of a name has to be, to be taken for a name that the service cut off.
const minCut = 16

// sameName reports whether a note may have the name that was sent.
func sameName(sent, got string) bool {
	return sent != "" && (sent == got || len(got) >= minCut && strings.HasPrefix(sent, got))
}
