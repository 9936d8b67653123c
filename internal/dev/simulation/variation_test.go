package simulation

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// variation is a manner of a service, or of those who ask about a lost create, that misleads whoever infers instead of
// asking for proof. A scenario has at most one, so the report can show what each of them costs.
type variation int

const (
	noVariation variation = iota
	reencodedWhenProcessed
	failedNotesStayRaw
	oneFormatKept
	halfOfAFormatKept
	renamedByTheService
	renamedByClinicians
	deletedRowsCounted
	dateStandsStill
	addressesRefused
	rivalProcesses
	rivalMachines
	tenantByToken
	tenantByHeader
	notesOfTheOwner
	jobIDs
	oneRecordingTwoNotes
	variations
)

func (v variation) String() string {
	return [...]string{
		"none", "re-encoded when processed", "failed notes stay raw", "one format kept", "half of a format kept",
		"renamed by the service", "renamed by clinicians", "deleted rows counted", "Date stands still",
		"addresses refused", "rivals in other processes", "rivals on other machines", "tenant by token",
		"tenant by header", "notes of the owner", "a job's id", "one recording, two notes",
	}[v]
}

// vary gives a scenario of lost creates one variation. Half of them have a storage that has no other trouble.
func (w *design) vary(d *draws) {
	w.variation = variation(1 + d.below(int(variations)-1))
	w.focus = onLosses
	w.rate = 0.3
	w.faults = []faultKind{lost, unheard, gatewayTimeout, badGateway}
	w.steps += 6
	if d.chance(0.5) {
		w.storage = goodStorage()
	}
	switch w.variation {
	case reencodedWhenProcessed, failedNotesStayRaw, oneFormatKept, halfOfAFormatKept, addressesRefused:
		w.varyStorage(d)
	case rivalProcesses, rivalMachines:
		w.varyRivals()
	case tenantByToken, tenantByHeader, notesOfTheOwner:
		w.apart = true
		w.sameMail = d.chance(0.3)
	default:
		w.varyService(d)
	}
}

func (w *design) varyStorage(d *draws) {
	w.storage.form = pick(d, remuxed, transcoded)
	// Where a service changes some recordings and keeps others, an upload of the same recording by somebody else may be the
	// only one that is equal. Nobody can know that, as docs/retries.md says.
	w.storage.again = false
	switch w.variation {
	case reencodedWhenProcessed:
		w.storage.later = true
	case failedNotesStayRaw:
		w.storage.later = true
		w.fails = true
	case oneFormatKept:
		w.storage.which = allButMP3
	case halfOfAFormatKept:
		w.storage.which = halfOfWAV
	default:
		w.storage.form = kept
		w.storage.refused = true
	}
}

// varyRivals lets processes of their own upload other recordings of the same length, name and patient.
func (w *design) varyRivals() {
	w.programs = 2
	w.shared = false
	w.secondUser = false
	w.patientless = false
	w.twins = true
	w.rivals = true
	w.patients = min(w.patients, 2)
	if w.variation == rivalMachines {
		w.restarts = true
		w.machines = true
	}
}

func (w *design) varyService(d *draws) {
	switch w.variation {
	case renamedByTheService:
		w.titles = true
	case renamedByClinicians:
		w.renames = true
		w.clinicians = max(w.clinicians, 1)
		w.acts += 30
	case deletedRowsCounted:
		w.countsDeleted = true
		w.strange = false
		w.variant.Query = clinicaldoctest.QueryNames{}
		w.variant.OldestFirst = false
		w.variant.Pagination = pick(d, clinicaldoctest.PaginationLengthAware, clinicaldoctest.PaginationFlat)
	case dateStandsStill:
		w.date = stillDate
	case jobIDs:
		w.faults = append(w.faults, queued, queued)
	case oneRecordingTwoNotes:
		w.letters = true
		w.variant.ReuseIDs = false
	default:
	}
}

// namesUnchanged reports whether every note keeps the name that it was created with.
func (w design) namesUnchanged() bool { return !w.renames && !w.titles && !w.shortens }

// recordingsUnchanged reports whether every recording that can be read is what was uploaded.
func (w design) recordingsUnchanged() bool { return w.storage.form == kept }

// storageClass is what the report tells scenarios apart by: good storage, or drawn.
func (w design) storageClass() string {
	if w.storage.good {
		return "good storage"
	}
	return "drawn storage"
}

// assumption is what programs tell the SDK of the service.
func (w design) assumption() string {
	if w.assumes {
		return "assumptions that hold"
	}
	return "nothing assumed"
}

// giveTitle is a service that names a note once it is processed.
func (s *service) giveTitle(f *fact) {
	if !s.world.design.titles {
		return
	}
	d := drawsAt(s.world.seed, uint64(f.id), hashOf("title"))
	number := 512 + int(f.id%400)
	s.world.running.Go(func() {
		time.Sleep(time.Minute + d.within(pick(d, 10*time.Second, 10*time.Minute)))
		s.world.slot(number)
		n := s.look(f.id)
		if s.fact(f.id) != f || n.ID == 0 {
			return
		}
		it := &clinician{being: being{world: s.world, name: "title", number: number, step: int(f.id)}}
		title := fmt.Sprintf("%s visit of day %d", nameMark, f.id)
		it.send(http.MethodPut, fmt.Sprintf("/v1/progress-notes/%d", f.id), n, map[string]string{"name": title})
		s.world.count("notes renamed by the service", 1)
	})
}

var totalMember = regexp.MustCompile(`"total":(\d+)`)

// alwaysDeleted is how many notes of each patient were deleted before the scenario begins.
const alwaysDeleted = 2

// withDeleted is a list whose total counts notes that were deleted.
func (t *trip) withDeleted(body []byte) []byte {
	query, _ := url.ParseQuery(t.request.query)
	patient, _ := strconv.ParseInt(query.Get("patient_id"), 10, 64)
	deleted := alwaysDeleted + t.world.service.deleted(patient)
	t.world.count("lists that count deleted notes", 1)
	return totalMember.ReplaceAllFunc(body, func(member []byte) []byte {
		total, _ := strconv.Atoi(string(member[len(`"total":`):]))
		return fmt.Appendf(nil, `"total":%d`, total+deleted)
	})
}

// deleted is how many notes of a patient, 0 for all, were deleted.
func (s *service) deleted(patient int64) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := func(f *fact) {
		if !f.died().IsZero() && (patient == 0 || f.patient == patient) {
			n++
		}
	}
	for _, f := range s.former {
		count(f)
	}
	for _, f := range s.notes {
		count(f)
	}
	return n
}

// tenantHeader selects a tenant where that is not done by the token.
const tenantHeader = "X-Tenant"

var (
	idMember    = regexp.MustCompile(`"id":\d+`)
	mailMembers = regexp.MustCompile(`"(email|name)":"[^"]*"`)
)

// asUser is what /user responds. Numbers are not unique where tenants have users of their own, and the user who is
// named in a note may be the owner of the team.
func (t *trip) asUser(body []byte) []byte {
	w := t.world.design
	c := t.request.call
	number := 1
	if c.program.token == otherToken {
		number = 2
	}
	switch {
	case c.foreign:
		t.world.count("reached: another user of the same number asks", 1)
		body = timeMember.ReplaceAll(body, []byte(`"$1":"2019-05-06T07:08:09.000000Z"`))
		if w.sameMail {
			body = mailMembers.ReplaceAll(body, []byte(`"$1":"owner@example.test"`))
		}
	case w.variation == notesOfTheOwner:
		number += 70
	case w.sameMail:
		body = mailMembers.ReplaceAll(body, []byte(`"$1":"owner@example.test"`))
	}
	return idMember.ReplaceAll(body, fmt.Appendf(nil, `"id":%d`, number))
}

// namesTenants reports whether users have numbers that others have too.
func (w design) namesTenants() bool {
	return w.variation == tenantByToken || w.variation == tenantByHeader || w.variation == notesOfTheOwner
}

// namesUser reports whether the request asks who its user is.
func (r request) namesUser() bool { return r.path == "/user" && !r.storage }

// creates reports whether the request uploads a note.
func (r request) creates() bool { return r.method == http.MethodPost && r.path == "/v1/progress-notes" }

// drawJob chooses the id of the job that the response to an upload names. It may be the id of a note that is there, or
// of one that is made next.
func (t *trip) drawJob(d *draws) {
	if t.fault != queued || !t.request.creates() {
		return
	}
	t.world.slot(t.number)
	ids := []int64{1}
	for _, n := range t.world.service.primary.Notes() {
		ids = append(ids, n.ID)
	}
	next := ids[len(ids)-1] + 1
	t.job = pick(d, pick(d, ids...), next+int64(d.below(3)))
}

// jobResponse says that the upload waits in a queue.
func (t *trip) jobResponse() *http.Response {
	body := fmt.Sprintf(`{"id":%d,"status":"queued"}`, t.job)
	if t.world.design.variant.WrapObjects {
		body = `{"data":` + body + `}`
	}
	t.world.count("reached: a response names a job", 1)
	return respond(http.StatusAccepted, "application/json", body)
}

// letterSuffix ends the name of the second note that is wanted of one recording.
const letterSuffix = " as a letter"

// letter is the same recording, wanted as another note of the same patient.
func (r *recording) letter() *recording {
	other := *r
	other.lost = nil
	other.call = nil
	other.params.Name = strings.TrimSpace(r.params.Name + letterSuffix)
	return &other
}

// wish is what a note was wanted of: one recording may be wanted as several notes.
func wish(fingerprint, name string) string { return fingerprint + " " + strings.TrimSpace(name) }

func (r *recording) wish() string { return wish(r.fingerprint, r.params.Name) }

// checkRival counts what makes other notes of unchanged recordings misleading: they are older or younger than a note
// whose recording was changed.
func (t *trip) checkRival(f *fact, raw bool) {
	own := t.world.service.birth(t.request.call.wish)
	if own == nil || own == f || !raw || t.world.design.storage.form == kept || !own.died().IsZero() {
		return
	}
	if f.born.Before(own.born) {
		t.world.count("reached: an older note of an unchanged recording is read", 1)
		return
	}
	t.world.count("reached: a younger note of an unchanged recording is read", 1)
}

// addressMember is where a recording lies.
var addressMember = regexp.MustCompile(`"url":"https?://[^/"]+(/[^?"]+)`)

// notePlace remembers which note's recording lies there.
func (s *service) notePlace(body []byte, f *fact) {
	place := addressMember.FindSubmatch(body)
	if place == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places[string(place[1])] = f
}

// recordingAt is the note whose recording lies there; nil: nobody was told where it lies.
func (s *service) recordingAt(path string) *fact {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.places[path]
}

// reencodes reports whether storage gives another recording than was uploaded for the note.
func (s *service) reencodes(f *fact, mediaType string) bool {
	storage := s.world.design.storage
	if storage.form == kept || f == nil {
		return storage.form != kept
	}
	switch storage.which {
	case allButMP3:
		return mediaType != "audio/mpeg"
	case halfOfWAV:
		return mediaType == "audio/wav" && hashOf("half "+f.fingerprint)%2 == 0
	case allFormats:
	}
	if !storage.later {
		return true
	}
	stage := s.look(f.id).Stage // a note whose processing failed keeps its recording
	return stage == clinicaldoctest.StageComplete || stage == clinicaldoctest.StageSigned
}
