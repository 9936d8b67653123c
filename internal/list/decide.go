package list

// Step says how to go on after a page, or why that would not show the list to be whole.
type Step string

// The steps. All but Back use the page's rows.
const (
	Next  Step = "read the page after it"
	Last  Step = "this walk is at its end" // Finish says what that means
	Back  Step = "leave its rows and read the page before it again: rows may have moved there unseen"
	Check Step = "it only repeats rows and nothing is known: find out in another way whether more exist"
	Again Step = "walk once more from the start"
	Whole Step = "all rows were seen"

	// The list cannot be shown to be whole.

	NoProgress  Step = "page after page brings no new row"
	BeforeStart Step = "so many rows were deleted that some may stand before the page it began with"
	TooFew      Step = "the service announces more rows than it gives"
	Unstable    Step = "walk after walk brings new rows"
	MoreExist   Step = "more rows exist than its pages show"
	NotKnown    Step = "it is not known whether more rows exist"
)

// Observation is what a page shows, compared with the pages before it.
type Observation struct {
	Page
	Gap    bool // rows that were not seen may lie between what was seen and this page
	Before bool // the page before it belongs to the walk
	New    bool // it has a row that this walk has not seen
	Stale  bool // without a new row it is one page too many of that kind
}

// Decide turns what a page shows into the next step.
func Decide(o Observation) Step {
	switch {
	case o.Gap && o.Before:
		return Back
	case o.Gap:
		return BeforeStart
	case !o.More:
		return Last
	case !o.SaysIfMore && !o.New && o.Number != 1: // which may be the first once more, to learn whether pages are counted from 0
		return Check
	case o.Stuck, o.Stale && !o.New:
		return NoProgress
	}
	return Next
}
