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
	quiet bool // a good day: rare faults, clocks that agree, names that tell notes apart, one client for all that is created

	scale      time.Duration // within which all acts begin; the day that follows is calm
	programs   int
	steps      int // of each program
	clinicians int
	acts       int // of each clinician

	faults []faultKind
	rate   float64       // of requests that meet one
	late   time.Duration // the longest until a commit that was not waited for
	lag    time.Duration // of the replica that serves some of the reads; 0: there is none

	clock time.Duration // of the service, ahead of the programs'
	date  dateKind

	names, patients int
	renames         bool // clinicians rename and delete what is not theirs to judge
	shared          bool // programs share a client
	twins           bool // programs that share a client do the same at about the same time
	secondUser      bool // the last program has a user of its own
	restarts        bool // programs forget all but what JSON keeps of a lost create
	sizes           sizeKind
	shortens        bool // the service shortens names
	ahead           bool // the service gives local times as if they were UTC
	yesterday       bool // notes of the same names and sizes are there already
	dictates        bool // clinicians make notes too
	prefetch        bool // programs fetch pages ahead
	ingest          bool // a station uploads recordings with package ingest, and dies again and again
	variant         clinicaldoctest.Variant
}

// sizeKind is what the service tells of a recording's size.
type sizeKind int

const (
	told      sizeKind = iota
	reencoded          // that of what it made of it
	untold
)

// dateKind is what the Date header tells.
type dateKind int

const (
	serviceDate dateKind = iota
	noDate
	skewedDate // of a proxy whose clock is off
)

const day = 24 * time.Hour

func newDesign(seed uint64) design {
	d := drawsAt(seed, hashOf("design"))
	w := design{
		quiet: d.chance(0.2), scale: pick(d, 10*time.Minute, 2*time.Hour, day), programs: 1 + d.below(3), steps: 8 + d.below(16),
		clinicians: d.below(3), acts: 5 + d.below(30),
		rate: pick(d, 0.01, 0.03, 0.1, 0.3), late: pick(d, 10*time.Second, 2*time.Minute, 10*time.Minute),
		names: 3, patients: 1 + d.below(4), renames: d.chance(0.7), shared: d.chance(0.4), secondUser: d.chance(0.3), restarts: d.chance(0.3),
	}
	w.ingest, w.prefetch = d.chance(0.4), d.chance(0.3)
	for kind := range faultKinds {
		if d.chance(0.5) {
			w.faults = append(w.faults, kind)
		}
	}
	w.variant.Pagination = pick(d, clinicaldoctest.PaginationLengthAware, clinicaldoctest.PaginationLengthAware, clinicaldoctest.PaginationFlat,
		clinicaldoctest.PaginationCursor, clinicaldoctest.PaginationSimple, clinicaldoctest.PaginationBare)
	w.variant.Times = pick(d, clinicaldoctest.TimeMicroseconds, clinicaldoctest.TimeWholeSeconds, clinicaldoctest.TimeNoZone)
	w.variant.WrapObjects = d.chance(0.3)
	w.variant.DeleteStatus = pick(d, http.StatusOK, http.StatusNoContent)
	w.variant.IncompleteSignStatus = pick(d, http.StatusUnprocessableEntity, http.StatusForbidden, http.StatusConflict)
	w.variant.SignedChangeStatus = pick(d, 0, http.StatusForbidden, http.StatusConflict)
	switch d.below(6) {
	case 0:
		w.lag = pick(d, 2*time.Second, 8*time.Second, time.Minute)
	case 1:
		w.clock = pick(d, -time.Hour, -45*time.Second, -3*time.Second, 3*time.Second, 45*time.Second, time.Hour)
	case 2:
		w.date = pick(d, noDate, skewedDate)
	}
	w.twins = d.chance(0.5)
	w.shortens, w.dictates, w.ahead, w.yesterday = d.chance(0.1), true, d.chance(0.05), d.chance(0.2)
	w.yesterday = (w.yesterday || w.clock > 0) && !w.ahead // in local times, what was made hours ago looks like what was made since
	switch d.below(8) {
	case 0:
		w.sizes = reencoded
	case 1: // nothing could tell the notes of two clients apart
		w.sizes, w.shared, w.secondUser, w.restarts, w.ingest, w.dictates = untold, true, false, false, false, false
	}
	if w.shared && w.twins {
		w.rate = max(w.rate, 0.1) // both have to be unlucky
		if d.chance(0.5) {
			w.rate, w.faults = 0.3, []faultKind{lost, unheard, gatewayTimeout, silent, slow}
		}
	}
	if w.quiet {
		w.sizes, w.shortens, w.dictates, w.ahead, w.yesterday = told, false, false, false, false
		w.rate, w.lag, w.clock, w.date, w.names, w.renames, w.restarts = 0.01, 0, 0, serviceDate, 1000, false, false
		w.scale = max(w.scale, 2*time.Hour)
		w.shared, w.twins, w.secondUser = true, false, false
		w.faults = slices.DeleteFunc(w.faults, func(k faultKind) bool { return k == webPage || k == garbled || k == mixedUp })
	}
	if len(w.faults) == 0 {
		w.faults = []faultKind{unheard}
	}
	return w
}

// exact reports whether the seed decides everything. Where a program asks for several things at once, a select of its own
// between two that are ready is a coin that nobody can load.
func (w design) exact() bool { return !w.ingest && !w.prefetch }

// tellsDeletions reports whether a list shows that a row went away while it was read.
func (w design) tellsDeletions() bool {
	return w.variant.Pagination != clinicaldoctest.PaginationSimple && w.variant.Pagination != clinicaldoctest.PaginationBare
}

// tellsTotals reports whether that is by their number, which a birth makes up for.
func (w design) tellsTotals() bool {
	return w.variant.Pagination == clinicaldoctest.PaginationLengthAware || w.variant.Pagination == clinicaldoctest.PaginationFlat
}

func (w design) String() string {
	return fmt.Sprintf("quiet %t, scale %s, %d programs x %d steps, %d clinicians x %d acts, rate %.2f, late %s, lag %s, clock %s, date %d, names %d, patients %d, renames %t, shared %t, twins %t, second user %t, restarts %t, pages %d, times %d, sizes %d, shortens %t, ahead %t, yesterday %t, prefetch %t, ingest %t, faults %v",
		w.quiet, w.scale, w.programs, w.steps, w.clinicians, w.acts, w.rate, w.late, w.lag, w.clock, w.date, w.names, w.patients, w.renames, w.shared, w.twins, w.secondUser, w.restarts,
		w.variant.Pagination, w.variant.Times, w.sizes, w.shortens, w.ahead, w.yesterday, w.prefetch, w.ingest, w.faults)
}
