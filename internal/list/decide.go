package list

// Step is how to continue after a page, or why the list cannot be shown to be complete.
type Step string

// The steps. All except Back use the rows of the page.
const (
	Next  Step = "read the page after it"
	Last  Step = "this walk is at its end" // Finish decides what that means
	Back  Step = "ignore its rows and read the page before it again: rows may have moved there unseen"
	Check Step = "it only repeats rows and nothing is known: find out in another way whether more exist"
	Again Step = "walk once more from the start"
	Whole Step = "all rows were seen"

	// The list cannot be shown to be complete.

	NoProgress  Step = "several pages in a row contain no new row"
	BeforeStart Step = "so many rows were deleted that some may have moved before the first page that was read"
	TooFew      Step = "the service announces more rows than it sends"
	Unstable    Step = "each walk finds new rows"
	MoreExist   Step = "more rows exist than its pages show"
	NotKnown    Step = "it is not known whether more rows exist"
)

// Observation is what a page shows, compared with the pages before it.
type Observation struct {
	Page
	MayMissRows bool // unseen rows may lie between this page and those before it
	CanGoBack   bool // the page before it belongs to the walk
	HasNewRow   bool // it has a row that this walk has not seen
	LastChance  bool // the walk ends without progress if this page has no new row
}

// Decide returns the next step after a page.
func Decide(o Observation) Step {
	switch {
	case o.MayMissRows && o.CanGoBack:
		return Back
	case o.MayMissRows:
		return BeforeStart
	case !o.More:
		return Last
	case o.onlyRepeats():
		return Check
	case o.Stuck:
		return NoProgress
	case o.LastChance && !o.HasNewRow:
		return NoProgress
	}
	return Next
}

// onlyRepeats reports whether the page has no new row and the service does not report whether more follow. It is false
// for page 1: that may be the first page once more, requested to learn whether the service counts pages from 0.
func (o Observation) onlyRepeats() bool {
	mayBeFirstAgain := o.Number == 1
	return !o.SaysIfMore && !o.HasNewRow && !mayBeFirstAgain
}
