package creates_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
)

type (
	evidence = creates.Evidence
	note     = creates.Note
)

// outcome is what became of the create.
type outcome int

const (
	undecided outcome = iota
	found
	notCreated
)

func outcomeOf(v creates.Verdict) outcome {
	if v.By == creates.NotCreated {
		return notCreated
	}
	if v.By != "" {
		return found
	}
	return undecided
}

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
	vary(int(creates.NamedGone)+1, func(e *evidence, v int) { e.Look = creates.Look(v) })
	vary(2, func(e *evidence, v int) { e.Future = v == 1 })
	vary(2, func(e *evidence, v int) { e.Ahead = v == 1 })
	vary(2, func(e *evidence, v int) { e.Settled = v == 1 })
	vary(2, func(e *evidence, v int) { e.UniqueName = v == 1 })
	vary(int(creates.EqualLost)+1, func(e *evidence, v int) { e.Others = creates.Others(v) })
	vary(2, func(e *evidence, v int) { e.Forgot = v == 1 })
	vary(3, func(e *evidence, v int) { e.Fitting = v })
	vary(int(creates.Rival)+1, func(e *evidence, v int) { e.Beside = creates.Likeness(v) })
	vary(2, func(e *evidence, v int) { e.Own = v == 1 })
	vary(int(creates.ProofFound)+1, func(e *evidence, v int) { e.Proof = creates.Proof(v) })
	vary(2, func(e *evidence, v int) { e.Later = v == 1 })
	for _, e := range list {
		if !yield(e) {
			return
		}
	}
}

// proven is the strongest evidence there is that no note was created.
var proven = evidence{Look: creates.LookProven, Settled: true, Own: true}

func TestEveryVerdictRestsOnEvidence(t *testing.T) {
	t.Parallel()
	seen := map[outcome]int{}
	for e := range everyEvidence {
		v := creates.Decide(e)
		seen[outcomeOf(v)]++
		switch outcomeOf(v) {
		case found:
			requireFound(t, e)
		case notCreated:
			require.True(t, e.Settled, "%+v", e)
			require.Equal(t, creates.LookProven, e.Look, "%+v", e)
			require.False(t, e.Future || e.Ahead, "%+v", e)
			require.Equal(t, creates.Unlike, e.Beside, "%+v", e)
			require.Zero(t, e.Fitting, "%+v", e)
			require.Equal(t, creates.NoProof, e.Proof, "%+v", e)
			require.True(t, e.Own, "whoever asks must see the note if it is there: %+v", e)
		default:
			require.NotEmpty(t, v.Reason, "%+v", e)
			continue
		}
		require.Empty(t, v.Reason, "%+v", e)
		require.False(t, v.Wait, "%+v", e)
	}
	assert.Len(t, seen, 3)
	assert.Equal(t, 7*2*2*2*2*4*2*3*3*2*4*2, seen[found]+seen[notCreated]+seen[undecided])
}

func requireFound(t *testing.T, e evidence) {
	t.Helper()
	if e.Look == creates.NamedHere {
		return
	}
	require.Contains(t, []creates.Look{creates.LookUnproven, creates.LookProven}, e.Look, "%+v", e)
	if e.Proof == creates.ProofFound {
		return
	}
	require.NotEqual(t, creates.ProofUnderWay, e.Proof, "it may be the other's: %+v", e)
	require.Equal(t, 1, e.Fitting, "exactly one: %+v", e)
	require.NotEqual(t, creates.Rival, e.Beside, "no other explanation is left: %+v", e)
	require.NotContains(t, []creates.Others{creates.EqualUnderWay, creates.EqualLost}, e.Others, "%+v", e)
	if !e.UniqueName {
		require.NotEqual(t, creates.LookUnproven, e.Look, "another may be out of sight: %+v", e)
		require.False(t, e.Future || e.Ahead, "%+v", e)
		require.False(t, e.Forgot, "%+v", e)
	}
}

// What is enough to decide is decided: caution alone would never find anything.
func TestEnoughEvidenceDecides(t *testing.T) {
	t.Parallel()
	for e := range everyEvidence {
		want := undecided
		proven := e.Look == creates.LookProven
		seen := proven || e.Look == creates.LookUnproven
		alone := e.Fitting == 1 && e.Beside != creates.Rival && e.Proof != creates.ProofUnderWay && (e.Others == creates.NoOthers || e.Others == creates.OthersUnderWay)
		switch {
		case e.Look == creates.NamedHere,
			seen && e.Proof == creates.ProofFound,
			seen && alone && e.UniqueName,
			proven && alone && !e.Future && !e.Ahead && !e.Forgot:
			want = found
		case proven && e.Settled && !e.Future && !e.Ahead && e.Fitting == 0 && e.Beside == creates.Unlike && e.Proof == creates.NoProof && e.Own:
			want = notCreated
		}
		require.Equal(t, want, outcomeOf(creates.Decide(e)), "%+v", e)
	}
}

// It waits only while time can change the evidence: the service's work, a list that fails, a create under way.
func TestItWaitsOnlyForWhatCanChange(t *testing.T) {
	t.Parallel()
	for e := range everyEvidence {
		underWay := e.Others == creates.OthersUnderWay || e.Others == creates.EqualUnderWay
		if creates.Decide(e).Wait {
			require.True(t, !e.Settled || e.Look == creates.LookFailing || underWay || e.Later || e.Proof == creates.ProofUnderWay, "nothing is left to wait for: %+v", e)
		}
		if e.Look > creates.LookProven {
			require.Equal(t, e.Look == creates.NamedGone && !e.Settled, creates.Decide(e).Wait, "%+v", e)
			continue
		}
		if e.Look != creates.LookFailing && e.Look != creates.LookRefused && e.Later && outcomeOf(creates.Decide(e)) == undecided && creates.Decide(e).Reason != creates.NotYours {
			require.True(t, creates.Decide(e).Wait, "more may be known later: %+v", e)
		}
		if e.Later || e.Proof != creates.NoProof {
			continue
		}
		several := e.Fitting > 1 && e.Others != creates.EqualUnderWay && e.Look != creates.LookFailing
		if several || e.Look == creates.LookRefused {
			require.False(t, creates.Decide(e).Wait, "%+v", e)
		}
		if e.Look == creates.LookFailing || e.Look != creates.LookRefused && e.Fitting > 0 && e.Others == creates.EqualUnderWay {
			require.True(t, creates.Decide(e).Wait, "%+v", e)
		}
		explained := proven
		explained.UniqueName, explained.Forgot, explained.Beside, explained.Others = e.UniqueName, e.Forgot, e.Beside, e.Others
		require.Equal(t, underWay && e.Beside > creates.Unlike, creates.Decide(explained).Wait, "a create under way may explain it: %+v", explained)
		nothingYet := e
		nothingYet.Look, nothingYet.Future, nothingYet.Ahead, nothingYet.Settled, nothingYet.Fitting, nothingYet.Beside = creates.LookProven, false, false, false, 0, min(e.Beside, creates.Resembling)
		require.True(t, creates.Decide(nothingYet).Wait, "the note may still come: %+v", nothingYet)
	}
}

// everyNote is the product of all values that the fields of a note can have.
func everyNote(yield func(note) bool) {
	for _, patient := range []bool{false, true} {
		for name := range creates.NameEqual + 1 {
			for size := range creates.Equal + 1 {
				for _, user := range []creates.Match{creates.Untold, creates.Differs, creates.Equal} {
					for made := range creates.MadeSince + 1 {
						for known := range creates.Claimed + 1 {
							for _, content := range []creates.Match{creates.Untold, creates.Differs, creates.Equal} {
								if !yield(note{false, patient, name, size, user, made, known, content}) {
									return
								}
							}
						}
					}
				}
			}
		}
	}
}

func decide(unique bool, notes ...note) outcome {
	e := proven
	e.UniqueName = unique
	for _, n := range notes {
		e.Add(n)
	}
	e.Prove(creates.NoOthers)
	return outcomeOf(creates.Decide(e))
}

// One note in the list and all else in order: the rule, said of the note itself.
func TestOneNoteInTheList(t *testing.T) {
	t.Parallel()
	seen := map[outcome]int{}
	for n := range everyNote {
		outcome := decide(false, n)
		seen[outcome]++
		switch outcome {
		case found:
			if n.Content == creates.Equal {
				requireProven(t, n)
				continue
			}
			require.True(t, n.Patient, "%+v", n)
			require.Equal(t, creates.Unexplained, n.Known, "%+v", n)
			require.Contains(t, []creates.Name{creates.NameEqual, creates.NameUnsent}, n.Name, "%+v", n)
			require.Contains(t, []creates.Match{creates.Equal, creates.OneSided}, n.Size, "%+v", n)
			require.True(t, n.Name == creates.NameEqual || n.Size == creates.Equal, "something tells it from others: %+v", n)
			require.Equal(t, creates.Equal, n.User, "%+v", n)
			require.Equal(t, creates.MadeSince, n.Made, "%+v", n)
		case notCreated:
			require.True(t, n.Content != creates.Equal || n.Known == creates.Explained, "%+v", n)
			if n.Known == creates.Explained || n.Made == creates.MadeOutside {
				continue
			}
			require.Equal(t, creates.NameOther, n.Name, "%+v", n)
			require.NotEqual(t, creates.Equal, n.Size, "%+v", n)
			require.True(t, n.Made == creates.MadeEarlier || !n.Patient || n.User == creates.Differs, "nothing explains it: %+v", n)
		default:
			require.NotEqual(t, creates.Explained, n.Known, "it says nothing of the lost one: %+v", n)
			require.True(t, n.Made != creates.MadeOutside || n.Content == creates.Equal, "%+v", n)
		}
	}
	assert.Equal(t, 2*3+4*4*3*3*2, seen[found], "a name with a size on both sides or on one, or no name and a size; or the recording")
}

func requireProven(t *testing.T, n note) {
	t.Helper()
	require.True(t, n.Patient, "%+v", n)
	require.LessOrEqual(t, n.Known, creates.Reused, "%+v", n)
	require.NotEqual(t, creates.NameOther, n.Name, "%+v", n)
	require.GreaterOrEqual(t, n.Made, creates.MadeUnclear, "%+v", n)
}

func TestOneNoteInTheListByItsUniqueName(t *testing.T) {
	t.Parallel()
	for n := range everyNote {
		want := notCreated
		switch {
		case n.Known == creates.Explained:
		case n.Name == creates.NameEqual && n.Patient && n.Known == creates.Unexplained, n.Proven():
			want = found
		case n.Name == creates.NameEqual, n.Content == creates.Equal, n.Name == creates.NameCut && n.Made != creates.MadeOutside:
			want = undecided
		}
		require.Equal(t, want, decide(true, n), "%+v", n)
	}
}

// A note that everything fits, and any other beside it.
func TestTheOnlyExplanation(t *testing.T) {
	t.Parallel()
	fits := note{Patient: true, Name: creates.NameEqual, Size: creates.Equal, User: creates.Equal, Made: creates.MadeSince}
	require.Equal(t, found, decide(false, fits))
	for other := range everyNote {
		if other.Content == creates.Equal {
			continue // see below
		}
		named := other.Patient && other.Known != creates.Explained && other.Name == creates.NameEqual
		require.Equal(t, !named, decide(true, fits, other) == found, "%+v", other)
		if other.Name == creates.NameUnsent {
			continue // then the first one's would be, too
		}
		possible := named && other.Size != creates.Differs && other.User != creates.Differs && other.Made != creates.MadeOutside &&
			other.Made != creates.MadeEarlier && other.Made != creates.MadeJustBefore
		require.Equal(t, !possible, decide(false, fits, other) == found, "%+v", other)
	}
}

// For a create without a patient, a patient's note of another name and size is none of its.
func TestAPatientsNoteDoesNotResembleOneWithoutAPatient(t *testing.T) {
	t.Parallel()
	other := note{Name: creates.NameOther, Size: creates.Differs, User: creates.Equal, Made: creates.MadeSince}
	assert.Equal(t, notCreated, decide(false, other))
	other.Patient = true
	assert.Equal(t, undecided, decide(false, other))
}

// A note that was there once cannot be returned, and forbids to say that it never was.
func TestANoteThatIsGone(t *testing.T) {
	t.Parallel()
	for n := range everyNote {
		for _, unique := range []bool{false, true} {
			e := proven
			e.UniqueName = unique
			there := decide(unique, n)
			n.Gone = true
			e.Add(n)
			e.Prove(creates.NoOthers)
			gone := outcomeOf(creates.Decide(e))
			require.NotEqual(t, found, gone, "%+v", n)
			require.Equal(t, there == notCreated, gone == notCreated, "%+v", n)
		}
	}
}

// A recording that was not read leaves nothing proven if the note may be it: unclaimed, of that time, of no other size.
func TestWhatIsUnreadAndMayBeItProvesNothing(t *testing.T) {
	t.Parallel()
	proven := creates.Note{Patient: true, Name: creates.NameEqual, Made: creates.MadeSince, Content: creates.Equal}
	unread := creates.Note{Patient: true, Size: creates.Equal, Made: creates.MadeSince, Content: creates.Untold}
	claimed, earlier, other := unread, unread, unread
	claimed.Known, earlier.Made, other.Size = creates.Claimed, creates.MadeEarlier, creates.Differs
	for i, c := range []struct {
		beside creates.Note
		want   creates.Proof
	}{{unread, creates.NoProof}, {claimed, creates.ProofFound}, {earlier, creates.ProofFound}, {other, creates.ProofFound}} {
		var e evidence
		e.Add(proven)
		e.Add(c.beside)
		forgetful := e
		e.Prove(creates.NoOthers)
		assert.Equal(t, c.want, e.Proof, i)
		forgetful.Forgot = true
		forgetful.Prove(creates.NoOthers)
		assert.Equal(t, creates.NoProof, forgetful.Proof, "another may have sent it, too")
	}
}
