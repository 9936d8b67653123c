package simulation

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// design is what a world is like, drawn from its seed. Acts are crowded into the scale, few names, sizes and patients
// collide, and half of the kinds of faults are left out, since one may hide what another would show.
type design struct {
	quiet bool // a good day: few faults, clocks that agree, names that tell notes apart
	focus focus

	scale      time.Duration // within which all acts begin; the day that follows is calm
	programs   int
	steps      int // of each program
	clinicians int
	acts       int  // of each clinician
	meddling   bool // clinicians act where a program has just lost a response, or reads what it is about to change

	faults []faultKind
	rate   float64       // of requests that meet one
	late   time.Duration // the longest until a commit that was not waited for
	lag    time.Duration // of the replica that serves some of the reads; 0: there is none
	cached time.Duration // the longest that a proxy serves a list from its cache; 0: there is none

	variation variation
	rivals    bool // programs in processes of their own upload recordings that look alike
	machines  bool // each of them on a machine whose clock is its own
	letters   bool // one recording may be wanted as two notes
	sameMail  bool // a user of the same number at another tenant has the same address
	assumes   bool // programs tell the SDK what holds of the service

	ageless bool // the cache says nothing of itself, and leaves the Date as it was
	storage storage
	apart   bool // users see their own notes alone, and programs ask as the wrong one now and then

	clock   time.Duration // of the service, ahead of the programs'
	date    dateKind
	skew    time.Duration // of a proxy's clock, by which it dates responses
	machine time.Duration // how far the clock was ahead, or behind, that the program lived by before it was restarted

	precision time.Duration // of the times that journals keep

	names, patients int
	renames         bool // clinicians rename and delete what is not theirs to judge
	shared          bool // programs share a client
	twins           bool // programs that share a client do the same at about the same time
	secondUser      bool // the last program has a user of its own
	alike           bool // all recordings of a program look alike
	restarts        bool // programs forget all but what JSON keeps of a lost create
	patientless     bool // the first of two programs names no patient
	yesterday       bool // notes of the same names and sizes are there already
	recent          bool // only minutes old
	manyOlder       bool // and many more, which are complete
	dictates        bool // clinicians make notes too
	doubles         bool // and others of the same names, soon after those of the programs
	prefetch        bool // programs fetch pages ahead
	ingest          bool // a station uploads recordings with package ingest, and dies again and again

	manners
	variant clinicaldoctest.Variant
}

// focus is what programs do most.
type focus int

const (
	onAll focus = iota
	onLosses
	onEdits
	onLists
	onWaits
	focuses
)

func (f focus) String() string { return [...]string{"all", "losses", "edits", "lists", "waits"}[f] }

// dateKind is what the Date header tells.
type dateKind int

const (
	serviceDate dateKind = iota
	noDate
	skewedDate // of a proxy whose clock is off
	stillDate  // always the same
)

const day = 24 * time.Hour

func newDesign(seed uint64) design {
	d := drawsAt(seed, hashOf("design"))
	w := design{
		quiet: d.chance(0.15), focus: focus(d.below(int(focuses))), scale: pick(d, 10*time.Minute, 2*time.Hour, day), programs: 1 + d.below(3), steps: 8 + d.below(16),
		clinicians: d.below(3), acts: 5 + d.below(30), meddling: d.chance(0.6),
		rate: pick(d, 0.01, 0.03, 0.1, 0.3), late: pick(d, 10*time.Second, 2*time.Minute, 10*time.Minute),
		names: 3, patients: 1 + d.below(4), renames: d.chance(0.6), shared: d.chance(0.4), twins: d.chance(0.5), secondUser: d.chance(0.3), restarts: d.chance(0.3),
		skew:      time.Duration(mix(seed, 77)%121)*time.Second - time.Minute,
		precision: time.Duration(pick(drawsAt(seed, hashOf("precision")), 1, 1000, 1_000_000, 1_000_000_000)),
		dictates:  true, yesterday: d.chance(0.2), manyOlder: d.chance(0.05), ingest: d.chance(0.3), prefetch: d.chance(0.3),
	}
	for kind := range faultKinds {
		if d.chance(0.5) && (kind != bloated || d.chance(0.1)) && kind != queued {
			w.faults = append(w.faults, kind)
		}
	}
	w.drawService(d)
	w.drawClocks(d)
	w.drawManners(d)
	switch w.focus {
	case onLosses:
		w.focusOnLosses(d)
	case onEdits:
		w.focusOnEdits(d)
	default:
	}
	w.storage = newStorage(drawsAt(seed, hashOf("storage")), w.sizes)
	w.ageless, w.apart = mix(seed, 78)%2 == 0, mix(seed, 79)%4 == 0
	w.assumes = drawsAt(seed, hashOf("assumes")).chance(0.5)
	if w.quiet {
		w.calmDown()
	} else {
		w.makeSpecial(drawsAt(seed, hashOf("special")))
	}
	if len(w.faults) == 0 {
		w.faults = []faultKind{unheard}
	}
	return w
}

// drawService draws how the service does what its description leaves open.
func (w *design) drawService(d *draws) {
	w.variant = clinicaldoctest.Variant{
		Pagination: pick(d, clinicaldoctest.PaginationLengthAware, clinicaldoctest.PaginationLengthAware, clinicaldoctest.PaginationFlat,
			clinicaldoctest.PaginationCursor, clinicaldoctest.PaginationSimple, clinicaldoctest.PaginationBare, clinicaldoctest.PaginationNone),
		Times:                pick(d, clinicaldoctest.TimeMicroseconds, clinicaldoctest.TimeWholeSeconds, clinicaldoctest.TimeNoZone),
		ListTexts:            pick(d, clinicaldoctest.ListTextsWhole, clinicaldoctest.ListTextsExcerpt, clinicaldoctest.ListTextsAbsent),
		WrapObjects:          d.chance(0.3),
		DeleteStatus:         pick(d, http.StatusOK, http.StatusNoContent),
		IncompleteSignStatus: pick(d, http.StatusUnprocessableEntity, http.StatusForbidden, http.StatusConflict),
		SignedChangeStatus:   pick(d, 0, http.StatusForbidden, http.StatusConflict),
		OptionalParts:        []string{"patient_id"},
	}
	if d.chance(0.1) { // it knows the parameters by other names, and says nothing of pages
		w.strange = true
		w.variant.Pagination, w.variant.OldestFirst, w.variant.DefaultPageSize = clinicaldoctest.PaginationBare, true, 3
		w.variant.Query = clinicaldoctest.QueryNames{PerPage: "limit", Sort: "order", Page: "p"}
	}
}

// drawClocks draws what is off, one thing at a time.
func (w *design) drawClocks(d *draws) {
	switch d.below(8) {
	case 0:
		w.lag = pick(d, 2*time.Second, 8*time.Second, time.Minute)
	case 1, 2:
		w.clock = pick(d, -time.Hour, -45*time.Second, -3*time.Second, 3*time.Second, 45*time.Second, time.Hour)
	case 3:
		w.date = pick(d, noDate, skewedDate)
	case 4:
		w.cached = pick(d, time.Minute, 15*time.Minute)
	case 5:
		w.machine = pick(d, 5*time.Minute, time.Hour, -5*time.Minute, -time.Hour)
	}
	w.yesterday = w.yesterday || w.clock > 0
}

// focusOnLosses makes creates that get lost, of recordings that are easily taken for each other.
func (w *design) focusOnLosses(d *draws) {
	w.rate = max(w.rate, 0.1)
	if w.machine != 0 {
		w.restarts, w.shared = true, false
	}
	switch d.below(7) {
	case 0, 1: // programs that share a client do the same: both have to be unlucky
		w.shared, w.twins, w.restarts, w.programs, w.patients = true, true, false, 2+d.below(2), 1
		w.rate, w.faults = 0.3, []faultKind{lost, unheard, gatewayTimeout, silent, slow, barred}
	case 2, 3: // nothing but time tells one recording from the other
		w.shared, w.restarts, w.alike, w.names, w.patients = false, true, true, 1, 1
		w.rate, w.faults = 0.3, []faultKind{lost, unheard, gatewayTimeout, refused, barred}
		w.ingest = false
	case 4: // only the patient tells the notes of one program from those of the other
		w.patientless, w.programs, w.shared, w.secondUser, w.twins, w.restarts, w.ingest = true, 2, false, false, true, false, false
		w.rate, w.faults, w.unnamed, w.dictates = 0.3, []faultKind{lost, unheard, refused}, false, false
	case 5: // names that cannot be told apart when they are short
		w.shared, w.renames, w.patients, w.programs, w.shortens = false, false, 1, 2+d.below(2), true
		w.rate, w.faults = 0.3, []faultKind{lost, unheard, gatewayTimeout}
	case 6: // notes of a while ago look just the same
		w.yesterday, w.local, w.shared, w.alike, w.names, w.patients, w.lag, w.cached = true, 0, false, true, 1, 1, 0, 0
		w.clock, w.date = pick(d, 0, 45*time.Second, time.Hour, time.Hour), pick(d, serviceDate, serviceDate, skewedDate)
		w.rate, w.faults, w.ingest, w.secondUser = 0.3, []faultKind{lost, unheard, refused}, false, false
	}
}

// focusOnEdits makes edits whose responses get lost while others edit too.
func (w *design) focusOnEdits(d *draws) {
	w.meddling, w.rate, w.patients, w.steps = true, pick(d, 0.15, 0.35), 1+d.below(2), w.steps+6
	w.ingest, w.clinicians = false, 1
	w.late = pick(d, 2*time.Minute, 10*time.Minute)
	if d.chance(0.7) {
		w.faults = append(w.faults, lost, unheard, gatewayTimeout, gatewayTimeout, silent, breaksOff, barred, slow, cut, tooMany, tooMany)
	}
	switch d.below(4) {
	case 0:
		w.lag, w.clock, w.date = 0, 0, skewedDate
	case 1:
		w.lag, w.local = 0, -5*time.Hour
	}
}

// makeSpecial brings together, in a few worlds, what seldom meets by chance.
func (w *design) makeSpecial(d *draws) {
	switch choice := d.below(60); choice {
	case 0, 1: // a proxy keeps showing the list of before a late commit, or of before a note that was never made
		w.focus, w.cached, w.lag, w.clock, w.date = onLosses, 15*time.Minute, 0, 0, serviceDate
		w.machine, w.local, w.strange, w.restarts = 0, 0, false, false
		w.variant.Pagination, w.variant.Query, w.variant.OldestFirst = clinicaldoctest.PaginationLengthAware, clinicaldoctest.QueryNames{}, false
		w.rate, w.late, w.faults, w.yesterday, w.patients = 0.3, 10*time.Minute, []faultKind{gatewayTimeout, silent}, true, 4
		if choice == 1 {
			w.recent, w.alike, w.names, w.patients, w.programs, w.scale, w.faults, w.rate = true, true, 1, 1, 1, 10*time.Minute, []faultKind{lost}, 0.1
			w.sizes, w.shortens, w.flagless, w.ingest, w.secondUser, w.patientless = told, false, false, false, false, false
		}
	case 2: // an edit by others within the seconds by which a proxy's clock is ahead
		w.editSpecially(40, lost, unheard)
		w.date, w.skew, w.meddling = skewedDate, time.Minute, true
	case 3: // a program looks for its note while another creates one that looks the same
		w.searchSpecially(2, lost, slow)
	case 4: // a sign that is carried out when the note is complete, long after its response was lost
		w.editSpecially(30, webPage)
		w.focus, w.slowly, w.late, w.renames = onLosses, true, 10*time.Minute, false
	case 5, 6: // downloads that break off, and a storage that does not go on where it is asked to
		w.focus, w.rate, w.faults, w.lag, w.blocks = onWaits, 0.4, []faultKind{breaksOff}, 0, choice == 6
	case 7: // a list tells of more rows than it shows
		w.focus, w.lag, w.strange, w.hides = onLists, 0, false, true
		w.variant.Pagination, w.variant.Query, w.variant.OldestFirst = clinicaldoctest.PaginationLengthAware, clinicaldoctest.QueryNames{}, false
	case 12, 13: // the ids of deleted notes are given to others, also of other patients
		w.focus, w.variant.ReuseIDs, w.lag, w.renames, w.doubles = onLosses, true, 0, true, false
		w.restarts, w.patients, w.clinicians, w.acts = choice == 13 && w.sizes != untold, 1+d.below(3), 1+d.below(2), w.acts+20
		w.ingest = w.restarts
		w.rate, w.faults = 0.3, []faultKind{unheard, lost, gatewayTimeout}
	case 8: // a note is made elsewhere that looks more like the lost one than its own, by its time
		w.searchSpecially(1, unheard)
		w.clock, w.sizes, w.doubles = -3*time.Second, untold, true
	default:
		if d.chance(0.3) {
			w.vary(d)
		}
	}
}

// searchSpecially is a day of lost creates, each of a name of its own but for what programs do together.
func (w *design) searchSpecially(programs int, faults ...faultKind) {
	w.focus, w.scale, w.lag, w.cached, w.clock, w.date = onLosses, 10*time.Minute, 0, 0, 0, serviceDate
	w.machine, w.local = 0, 0
	w.programs, w.clinicians, w.shared, w.twins, w.secondUser, w.patientless, w.restarts, w.ingest, w.yesterday = programs, 0, true, true, false, false, false, false, false
	w.alike, w.names, w.patients, w.renames, w.rate, w.faults = true, 1000, 1000, true, 0.5, faults
}

// editSpecially is a day of many edits on a service whose clock agrees with ours.
func (w *design) editSpecially(steps int, faults ...faultKind) {
	w.focus, w.steps, w.clinicians, w.patients, w.rate, w.faults = onEdits, steps, 1, 1, 0.4, faults
	w.lag, w.clock, w.local, w.date, w.ingest, w.flagless, w.variant.Times = 0, 0, 0, serviceDate, false, false, clinicaldoctest.TimeMicroseconds
}

// calmDown makes it a good day in a clinic of many patients.
func (w *design) calmDown() {
	w.focus, w.alike, w.meddling, w.patientless, w.yesterday, w.manyOlder = onAll, false, false, false, false, false
	w.manners, w.storage, w.apart, w.strange = manners{}, storage{}, false, false
	w.variant.Pagination, w.variant.OldestFirst, w.variant.DefaultPageSize, w.variant.Query = clinicaldoctest.PaginationLengthAware, false, 0, clinicaldoctest.QueryNames{}
	w.variant.Patient = clinicaldoctest.PatientObject
	w.rate, w.lag, w.cached, w.clock, w.machine, w.date = 0.01, 0, 0, 0, 0, serviceDate
	w.names, w.patients, w.renames, w.twins, w.shared, w.secondUser = 1000, 1000, false, false, true, false
	w.faults = slices.DeleteFunc(w.faults, func(k faultKind) bool {
		return k == mixedUp || k == bloated || k == garbled || k == barred
	})
	w.scale, w.restarts, w.dictates = max(w.scale, 2*time.Hour), false, false
}

// kind is what the report tells worlds apart by.
func (w design) kind() string {
	if w.quiet {
		return "quiet"
	}
	return w.focus.String()
}

// misnamed reports whether programs ask with parameters that the service does not know.
func (w design) misnamed() bool { return w.strange && !w.assumes }

// exact reports whether the seed decides everything. Where a program asks for several things at once, a select of its own
// between two that are ready is a coin that nobody can load.
func (w design) exact() bool { return !w.ingest && !w.prefetch }

// tellsDeletions reports whether a list shows that a row went away while it was read.
func (w design) tellsDeletions() bool {
	return w.tellsTotals() || w.variant.Pagination == clinicaldoctest.PaginationCursor
}

// tellsEnd reports whether a list can be shown to be whole: one that comes at once only by its other order.
func (w design) tellsEnd() bool {
	shown := !w.unsorted && w.variant.Times == clinicaldoctest.TimeMicroseconds
	return !w.misnamed() && !w.countsDeleted && (w.variant.Pagination != clinicaldoctest.PaginationNone || shown)
}

// tellsTotals reports whether that is by their number, which a birth makes up for.
func (w design) tellsTotals() bool {
	return w.variant.Pagination == clinicaldoctest.PaginationLengthAware || w.variant.Pagination == clinicaldoctest.PaginationFlat
}

// sizeCount is how many sizes recordings have.
func (w design) sizeCount() int {
	if w.alike {
		return 1
	}
	return 3
}

func (w design) String() string {
	return fmt.Sprintf("quiet %t, focus %s, scale %s, %d programs x %d steps, %d clinicians x %d acts, meddling %t, rate %.2f, late %s, lag %s, cached %s, clock %s, date %d, machine %s, names %d, patients %d, renames %t, shared %t, twins %t, second user %t, alike %t, restarts %t, patientless %t, yesterday %t, many older %t, pages %d, times %d, prefetch %t, ingest %t, variation %s, assumes %t, storage %+v, manners %+v, faults %v",
		w.quiet, w.focus, w.scale, w.programs, w.steps, w.clinicians, w.acts, w.meddling, w.rate, w.late, w.lag, w.cached, w.clock, w.date, w.machine, w.names, w.patients, w.renames, w.shared, w.twins,
		w.secondUser, w.alike, w.restarts, w.patientless, w.yesterday, w.manyOlder, w.variant.Pagination, w.variant.Times, w.prefetch, w.ingest, w.variation, w.assumes, w.storage, w.manners, w.faults)
}
