package creates_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
)

// decision is a row of the table: what is observed, and what it proves.
type decision struct {
	observed string // "column=value", or "column=value|value" for several; a column that is not named may have any value
	want     creates.Verdict
}

// The columns of an observation that the table names:
//
//	named        the note whose id the response held: none, it, other, gone
//	list         how much of the list was seen: refused, failing, unproven, complete
//	matching     how many notes are proven to be the one: 0, 1, 2
//	twin         another create that may have made the matching note: none, underway, lost
//	unread       another note may have the same recording
//	earlier      a note has the recording, but was made before
//	unexplained  a note may be the one
//	later        a recording may be readable later
//	settled      the service has had its time
//	changing     not settled, or a create is under way, or a recording may be readable later
//	future       the create was sent in the future
//	sender       whoever asks is who sent it
func decisions() []decision {
	var (
		found      = creates.Verdict{Outcome: creates.Found}
		notCreated = creates.Verdict{Outcome: creates.NotCreated}
		ask        = func(reason creates.Reason) creates.Verdict { return creates.Verdict{Reason: reason} }
		wait       = func(reason creates.Reason) creates.Verdict { return creates.Verdict{Reason: reason, Wait: true} }
	)
	const (
		seen    = "named=none|other|gone list=unproven|complete "
		one     = seen + "matching=1 twin=none earlier=n "
		none    = seen + "matching=0 "
		before  = none + "future=n earlier=y "
		other   = "list=unproven|complete matching=0 future=n earlier=n named=other "
		gone    = "list=unproven|complete matching=0 future=n earlier=n named=gone "
		partly  = "list=unproven matching=0 future=n earlier=n named=none "
		all     = "list=complete matching=0 future=n earlier=n named=none "
		nothing = all + "unexplained=n "
	)
	return []decision{
		{"named=it", found},
		{"named=none|other|gone list=refused", ask(creates.NoList)},
		{"named=none|other|gone list=failing", wait(creates.NoList)},

		{seen + "matching=1|2 twin=underway", wait(creates.CreateUnderWay)},
		{seen + "matching=1|2 twin=lost settled=n", wait(creates.LostTwice)},
		{seen + "matching=1|2 twin=lost settled=y", ask(creates.LostTwice)},
		{seen + "matching=2 twin=none", ask(creates.Several)},
		{seen + "matching=1 twin=none earlier=y", ask(creates.Several)},
		{one + "unread=y later=y", wait(creates.NotAllRead)},
		{one + "unread=y later=n", ask(creates.NotAllRead)},
		{one + "unread=n", found},

		{none + "future=y settled=n", wait(creates.SentInFuture)},
		{none + "future=y settled=y", ask(creates.SentInFuture)},
		{before + "changing=y", wait(creates.EarlierNote)},
		{before + "changing=n", ask(creates.EarlierNote)},
		{other + "changing=y", wait(creates.OtherNote)},
		{other + "changing=n", ask(creates.OtherNote)},
		{gone + "changing=y", wait(creates.NoteGone)},
		{gone + "changing=n", ask(creates.NoteGone)},
		{partly + "later=y", wait(creates.NotComplete)},
		{partly + "later=n", ask(creates.NotComplete)},

		{all + "unexplained=y changing=y", wait(creates.Unexplained)},
		{all + "unexplained=y changing=n", ask(creates.Unexplained)},
		{nothing + "settled=n", wait(creates.NotSettled)},
		{nothing + "settled=y sender=n", ask(creates.OtherSender)},
		{nothing + "settled=y sender=y", notCreated},
	}
}

// columns describes an observation in the words of the table.
func columns(o creates.Observation) map[string]string {
	flag := map[bool]string{true: "y", false: "n"}
	return map[string]string{
		"named":       []string{"none", "it", "other", "gone"}[o.Named],
		"list":        []string{"refused", "failing", "unproven", "complete"}[o.List],
		"matching":    []string{"0", "1", "2"}[o.Matching],
		"twin":        []string{"none", "underway", "lost"}[o.Twin],
		"unread":      flag[o.UnreadMayMatch],
		"earlier":     flag[o.HasEarlierMatch],
		"unexplained": flag[o.Unexplained > 0],
		"later":       flag[o.ReadableLater],
		"settled":     flag[o.Settled],
		"changing":    flag[!o.Settled || o.AnotherUnderWay || o.ReadableLater],
		"future":      flag[o.SentInFuture],
		"sender":      flag[o.SameSender],
	}
}

// conditions are the values that a row allows, by column.
func (d decision) conditions(t *testing.T) map[string][]string {
	t.Helper()
	known := columns(creates.Observation{})
	allowed := map[string][]string{}
	for condition := range strings.FieldsSeq(d.observed) {
		column, values, _ := strings.Cut(condition, "=")
		require.Contains(t, known, column)
		allowed[column] = strings.Split(values, "|")
	}
	return allowed
}

func applies(conditions map[string][]string, observed map[string]string) bool {
	for column, values := range conditions {
		if !slices.Contains(values, observed[column]) {
			return false
		}
	}
	return true
}

// observations are all that there can be. More than two matching or unexplained notes are like two or one.
func observations() []creates.Observation {
	var all []creates.Observation
	const flags = 8
	for named := creates.NotNamed; named <= creates.NamedGone; named++ {
		for list := creates.ListUnreadable; list <= creates.ListComplete; list++ {
			for twin := creates.NoTwin; twin <= creates.TwinLost; twin++ {
				for matching := range 3 {
					for bits := range 1 << flags {
						is := func(bit int) bool { return bits>>bit&1 == 1 }
						all = append(all, creates.Observation{
							Named: named, List: list, Twin: twin, Matching: matching,
							Unexplained: bits & 1, UnreadMayMatch: is(1), HasEarlierMatch: is(2), AnotherUnderWay: is(3),
							ReadableLater: is(4), Settled: is(5), SentInFuture: is(6), SameSender: is(7),
						})
					}
				}
			}
		}
	}
	return all
}

// Every observation is in exactly one row of the table.
func TestDecide_EveryObservation(t *testing.T) {
	t.Parallel()
	table := decisions()
	conditions := make([]map[string][]string, len(table))
	for i, row := range table {
		conditions[i] = row.conditions(t)
	}
	used := make([]bool, len(table))
	for _, o := range observations() {
		observed := columns(o)
		rows := 0
		for i, row := range table {
			if applies(conditions[i], observed) {
				rows++
				used[i] = true
				require.Equal(t, row.want, creates.Decide(o), "%q for %+v", row.observed, o)
			}
		}
		require.Equal(t, 1, rows, "rows for %+v", o)
	}
	for i, row := range table {
		assert.True(t, used[i], "no observation is %q", row.observed)
	}
}

// These rules hold for every verdict, whatever is observed.
func TestDecide_NeedsProof(t *testing.T) {
	t.Parallel()
	for _, o := range observations() {
		verdict := creates.Decide(o)
		switch verdict.Outcome {
		case creates.Found:
			require.True(t, o.Named == creates.NamedFits || o.Matching == 1, "%+v", o)
		case creates.NotCreated:
			proven := o.Settled && o.SameSender && o.List == creates.ListComplete
			require.True(t, proven, "%+v", o)
			nothing := o.Unexplained == 0 && o.Matching == 0 && !o.HasEarlierMatch && o.Named == creates.NotNamed
			require.True(t, nothing, "%+v", o)
			require.False(t, o.SentInFuture, "%+v", o)
		case creates.Undecided:
			require.NotEmpty(t, verdict.Reason, "%+v", o)
			continue
		}
		require.Empty(t, verdict.Reason, "%+v", o)
		require.False(t, verdict.Wait, "%+v", o)
	}
}
