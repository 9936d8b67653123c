package list

// Step says how to go on after a page.
type Step int

// The steps. All but Back use the page's rows.
const (
	Next  Step = iota + 1 // read the page after it
	Last                  // this walk is at its end: Finish says what that means
	Back                  // leave its rows and read the page before it again: rows may have moved there unseen
	Check                 // it only repeats rows and nothing is known: find out in another way whether more exist
	Stall                 // give up: page after page shows no new row
	Lost                  // give up: rows may have moved to before the page that the walk started with
)

// Observation is what a page shows, compared with the pages before it.
type Observation struct {
	Gap        bool // rows that were not seen may lie between what was seen and this page
	Before     bool // the page before it belongs to the walk
	New        bool // it has a row that this walk has not seen
	SaysIfMore bool // the service says whether another page follows
	More       bool // another page follows, or may follow where nothing is known
	Stuck      bool // there is no way to the page that follows
	Stale      bool // without a new row it is one page too many of that kind
	Recount    bool // it may be the first page once more
}

// Decide turns what a page shows into the next step.
func Decide(o Observation) Step {
	switch {
	case o.Gap && o.Before:
		return Back
	case o.Gap:
		return Lost
	case !o.More:
		return Last
	case !o.SaysIfMore && !o.New && !o.Recount:
		return Check
	case o.Stuck, o.Stale && !o.New:
		return Stall
	}
	return Next
}
