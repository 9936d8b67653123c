package verdict_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/verdict"
)

type (
	evidence = verdict.Evidence
	note     = verdict.Note
)

// everyEvidence is the product of all values that the fields of the evidence can have; two notes that fit stand for more.
func everyEvidence(yield func(evidence) bool) {
	list := []evidence{{}}
	vary := func(values int, set func(*evidence, int)) {
		var next []evidence
		for _, e := range list {
			for value := range values {
				set(&e, value)
				next = append(next, e)
			}
		}
		list = next
	}
	vary(int(verdict.NamedGone)+1, func(e *evidence, v int) { e.Named = verdict.Named(v) })
	vary(int(verdict.LookPastWindow)+1, func(e *evidence, v int) { e.Look = verdict.Look(v) })
	vary(int(verdict.SentInFuture)+1, func(e *evidence, v int) { e.Clock = verdict.Clock(v) })
	vary(2, func(e *evidence, v int) { e.Settled = v == 1 })
	vary(2, func(e *evidence, v int) { e.UniqueName = v == 1 })
	vary(int(verdict.EqualLost)+1, func(e *evidence, v int) { e.Others = verdict.Others(v) })
	vary(2, func(e *evidence, v int) { e.Forgot = v == 1 })
	vary(3, func(e *evidence, v int) { e.Fitting = v })
	vary(2, func(e *evidence, v int) { e.Rivals = v == 1 })
	vary(2, func(e *evidence, v int) { e.Resembling = v == 1 })
	for _, e := range list {
		if !yield(e) {
			return
		}
	}
}

// proven is the strongest evidence there is that no note was created.
var proven = evidence{Look: verdict.LookToEnd, Settled: true}

func TestEveryVerdictRestsOnEvidence(t *testing.T) {
	t.Parallel()
	seen := map[verdict.Outcome]int{}
	for e := range everyEvidence {
		v := verdict.Decide(e)
		seen[v.Outcome]++
		switch v.Outcome {
		case verdict.Found:
			requireFound(t, e)
		case verdict.NotCreated:
			require.Equal(t, verdict.NotNamed, e.Named, "the service gave it an id: %+v", e)
			require.True(t, e.Settled, "%+v", e)
			require.Contains(t, []verdict.Look{verdict.LookToEnd, verdict.LookPastWindow}, e.Look, "%+v", e)
			require.Equal(t, verdict.ClocksAgree, e.Clock, "%+v", e)
			require.False(t, e.Resembling || e.Rivals || e.Fitting > 0, "%+v", e)
		default:
			require.NotEmpty(t, v.Reason, "%+v", e)
			continue
		}
		require.Empty(t, v.Reason, "%+v", e)
		require.False(t, v.Wait, "%+v", e)
	}
	assert.Len(t, seen, 3)
	assert.Equal(t, 4*5*3*2*2*4*2*3*2*2, seen[verdict.Found]+seen[verdict.NotCreated]+seen[verdict.Undecided])
}

func requireFound(t *testing.T, e evidence) {
	t.Helper()
	if e.Named == verdict.NamedHere {
		return
	}
	require.Equal(t, verdict.NotNamed, e.Named, "%+v", e)
	require.Equal(t, 1, e.Fitting, "exactly one: %+v", e)
	require.False(t, e.Rivals, "no other explanation is left: %+v", e)
	require.NotContains(t, []verdict.Others{verdict.EqualUnderWay, verdict.EqualLost}, e.Others, "%+v", e)
	require.NotContains(t, []verdict.Look{verdict.LookRefused, verdict.LookFailing}, e.Look, "%+v", e)
	if !e.UniqueName {
		require.NotEqual(t, verdict.LookUnproven, e.Look, "another may be out of sight: %+v", e)
		require.Equal(t, verdict.ClocksAgree, e.Clock, "%+v", e)
		require.False(t, e.Forgot, "%+v", e)
	}
}

// What is enough to decide is decided: caution alone would never find anything.
func TestEnoughEvidenceDecides(t *testing.T) {
	t.Parallel()
	for e := range everyEvidence {
		want := verdict.Undecided
		unnamed := e.Named == verdict.NotNamed
		seen := e.Look == verdict.LookToEnd || e.Look == verdict.LookPastWindow
		alone := e.Fitting == 1 && !e.Rivals && (e.Others == verdict.NoOthers || e.Others == verdict.OthersUnderWay)
		switch {
		case e.Named == verdict.NamedHere,
			unnamed && alone && e.UniqueName && (seen || e.Look == verdict.LookUnproven),
			unnamed && alone && seen && e.Clock == verdict.ClocksAgree && !e.Forgot:
			want = verdict.Found
		case unnamed && seen && e.Settled && e.Clock == verdict.ClocksAgree && e.Fitting == 0 && !e.Rivals && !e.Resembling:
			want = verdict.NotCreated
		}
		require.Equal(t, want, verdict.Decide(e).Outcome, "%+v", e)
	}
}

// It waits only while time can change the evidence: the service's work, a list that fails, a create under way.
func TestItWaitsOnlyForWhatCanChange(t *testing.T) {
	t.Parallel()
	for e := range everyEvidence {
		underWay := e.Others == verdict.OthersUnderWay || e.Others == verdict.EqualUnderWay
		if verdict.Decide(e).Wait {
			require.True(t, !e.Settled || e.Look == verdict.LookFailing || underWay, "nothing is left to wait for: %+v", e)
		}
		if e.Named != verdict.NotNamed {
			require.Equal(t, e.Named == verdict.NamedGone && !e.Settled, verdict.Decide(e).Wait, "%+v", e)
			continue
		}
		several := e.Fitting > 1 && e.Others != verdict.EqualUnderWay && e.Look != verdict.LookFailing
		if several || e.Look == verdict.LookRefused {
			require.False(t, verdict.Decide(e).Wait, "%+v", e)
		}
		if e.Look == verdict.LookFailing || e.Look != verdict.LookRefused && e.Fitting > 0 && e.Others == verdict.EqualUnderWay {
			require.True(t, verdict.Decide(e).Wait, "%+v", e)
		}
		explained := proven
		explained.UniqueName, explained.Forgot, explained.Resembling, explained.Rivals, explained.Others = e.UniqueName, e.Forgot, e.Resembling, e.Rivals, e.Others
		require.Equal(t, underWay && (e.Resembling || e.Rivals), verdict.Decide(explained).Wait, "a create under way may explain it: %+v", explained)
		nothingYet := e
		nothingYet.Look, nothingYet.Clock, nothingYet.Settled, nothingYet.Fitting, nothingYet.Rivals = verdict.LookToEnd, verdict.ClocksAgree, false, 0, false
		require.True(t, verdict.Decide(nothingYet).Wait, "the note may still come: %+v", nothingYet)
	}
}

// everyNote is the product of all values that the fields of a note can have.
func everyNote(yield func(note) bool) {
	for _, patient := range []bool{false, true} {
		for name := range verdict.NameEqual + 1 {
			for size := range verdict.SizeEqual + 1 {
				for user := range verdict.UserOwn + 1 {
					for made := range verdict.MadeSince + 1 {
						for known := range verdict.Claimed + 1 {
							if !yield(note{patient, name, size, user, made, known}) {
								return
							}
						}
					}
				}
			}
		}
	}
}

func decide(unique bool, notes ...note) verdict.Outcome {
	e := proven
	e.UniqueName = unique
	for _, n := range notes {
		e.Add(n, false)
	}
	return verdict.Decide(e).Outcome
}

// One note in the list and all else in order: the rule, said of the note itself.
func TestOneNoteInTheList(t *testing.T) {
	t.Parallel()
	seen := map[verdict.Outcome]int{}
	for n := range everyNote {
		outcome := decide(false, n)
		seen[outcome]++
		switch outcome {
		case verdict.Found:
			require.True(t, n.Patient, "%+v", n)
			require.Equal(t, verdict.Unexplained, n.Known, "%+v", n)
			require.Contains(t, []verdict.Name{verdict.NameEqual, verdict.NameUnsent}, n.Name, "%+v", n)
			require.Contains(t, []verdict.Size{verdict.SizeEqual, verdict.SizeOneSided}, n.Size, "%+v", n)
			require.True(t, n.Name == verdict.NameEqual || n.Size == verdict.SizeEqual, "something tells it from others: %+v", n)
			require.Equal(t, verdict.UserOwn, n.User, "%+v", n)
			require.Equal(t, verdict.MadeSince, n.Made, "%+v", n)
		case verdict.NotCreated:
			if n.Known == verdict.Explained || n.Made == verdict.MadeOutside {
				continue
			}
			require.Equal(t, verdict.NameOther, n.Name, "%+v", n)
			require.NotEqual(t, verdict.SizeEqual, n.Size, "%+v", n)
			require.True(t, n.Made == verdict.MadeEarlier || !n.Patient || n.User == verdict.UserOther, "nothing explains it: %+v", n)
		default:
			require.NotEqual(t, verdict.Explained, n.Known, "it says nothing of the lost one: %+v", n)
			require.NotEqual(t, verdict.MadeOutside, n.Made, "%+v", n)
		}
	}
	assert.Equal(t, 3, seen[verdict.Found], "a name with a size on both sides or on one, or no name and a size")
}

func TestOneNoteInTheListByItsUniqueName(t *testing.T) {
	t.Parallel()
	for n := range everyNote {
		want := verdict.NotCreated
		switch {
		case n.Known == verdict.Explained:
		case n.Name == verdict.NameEqual && n.Patient && n.Known == verdict.Unexplained:
			want = verdict.Found
		case n.Name == verdict.NameEqual, n.Name == verdict.NameSimilar && n.Made != verdict.MadeOutside:
			want = verdict.Undecided
		}
		require.Equal(t, want, decide(true, n), "%+v", n)
	}
}

// A note that everything fits, and any other beside it.
func TestTheOnlyExplanation(t *testing.T) {
	t.Parallel()
	fits := note{Patient: true, Name: verdict.NameEqual, Size: verdict.SizeEqual, User: verdict.UserOwn, Made: verdict.MadeSince}
	require.Equal(t, verdict.Found, decide(false, fits))
	for other := range everyNote {
		named := other.Patient && other.Known != verdict.Explained && other.Name == verdict.NameEqual
		require.Equal(t, !named, decide(true, fits, other) == verdict.Found, "%+v", other)
		if other.Name == verdict.NameUnsent {
			continue // then the first one's would be, too
		}
		possible := named && other.Size != verdict.SizeOther && other.User != verdict.UserOther && other.Made != verdict.MadeOutside &&
			other.Made != verdict.MadeEarlier && other.Made != verdict.MadeJustBefore && (other.Made != verdict.MadePerhaps || other.Known != verdict.Claimed)
		require.Equal(t, !possible, decide(false, fits, other) == verdict.Found, "%+v", other)
	}
}

func TestWhatFitsIsNoRivalOfItself(t *testing.T) {
	t.Parallel()
	for n := range everyNote {
		for _, unique := range []bool{false, true} {
			require.False(t, n.Fits(unique) && n.Rivals(unique), "%+v", n)
		}
	}
}

// For a create without a patient, a patient's note of another name and size is none of its.
func TestAPatientsNoteDoesNotResembleOneWithoutAPatient(t *testing.T) {
	t.Parallel()
	other := note{Name: verdict.NameOther, Size: verdict.SizeOther, User: verdict.UserOwn, Made: verdict.MadeSince}
	assert.Equal(t, verdict.NotCreated, decide(false, other))
	other.Patient = true
	assert.Equal(t, verdict.Undecided, decide(false, other))
}

// A note that was there once cannot be returned, and forbids to say that it never was.
func TestANoteThatIsGone(t *testing.T) {
	t.Parallel()
	for n := range everyNote {
		for _, unique := range []bool{false, true} {
			e := proven
			e.UniqueName = unique
			e.Add(n, true)
			gone := verdict.Decide(e).Outcome
			require.NotEqual(t, verdict.Found, gone, "%+v", n)
			require.Equal(t, decide(unique, n) == verdict.NotCreated, gone == verdict.NotCreated, "%+v", n)
		}
	}
}
