// Package creates decides what became of a create whose response was lost, from evidence alone. It makes no request and
// keeps no patient's data, so that all of it can be printed.
package creates

// Verdict is what the evidence allows to say.
type Verdict struct {
	By     By     // how it was decided; empty: it is not
	Reason Reason // why it is undecided; empty otherwise
	Wait   bool   // looking once more, later, may decide it
}

// By is how it was decided what became of a create.
type By string

// How a note can be found, and that there is none. Without evidence nothing is decided.
const (
	ByResponse By = "response" // the response named it
	ByName     By = "name"     // no other has its name, as the caller says
	ByContent  By = "content"  // its recording is what was sent
	ByLikeness By = "likeness" // everything fits, and nothing else explains it
	NotCreated By = "none"     // the list of who sent it shows none that can be it, and the service has done with it
)

// Decide is the verdict on a lost create: that of the first line that applies. Where more may be known later, of a recording or of
// the time of a note, it waits for that too.
func Decide(e Evidence) Verdict {
	one := e.Fitting == 1
	underWay := e.Others == OthersUnderWay || e.Others == EqualUnderWay
	lines := []struct {
		applies bool
		Verdict
	}{
		{e.Look == NamedHere, Verdict{By: ByResponse}},
		{e.Look == NamedOther, Verdict{Reason: OtherNote}},
		{e.Look == NamedGone, Verdict{Reason: Gone, Wait: !e.Settled}},
		{e.Look == LookFailing || e.Look == LookRefused, Verdict{Reason: NoList, Wait: e.Look == LookFailing}},
		{e.Proof == ProofFound, Verdict{By: ByContent}},
		{e.Proof == ProofUnderWay || e.Fitting > 0 && e.Others == EqualUnderWay, Verdict{Reason: UnderWay, Wait: true}},
		{e.Fitting > 1 || one && e.Beside == Rival, Verdict{Reason: Several, Wait: e.Later}},
		{one && e.Others == EqualLost, Verdict{Reason: LostTwice, Wait: e.Later}},
		{one && e.UniqueName, Verdict{By: ByName}},
		{e.Future, Verdict{Reason: Future, Wait: e.Later}},
		{e.Look != LookProven, Verdict{Reason: Unproven, Wait: e.Later}},
		{e.Ahead, Verdict{Reason: Future, Wait: !e.Settled || e.Later}},
		{one && e.Forgot, Verdict{Reason: Forgotten, Wait: e.Later}},
		{one, Verdict{By: ByLikeness}},
		{e.Proof == ProofEarlier, Verdict{Reason: MadeBefore, Wait: !e.Settled || underWay || e.Later}},
		{e.Beside == Rival, Verdict{Reason: Incomplete, Wait: underWay || e.Later}},
		{e.Beside == Resembling, Verdict{Reason: Resembles, Wait: !e.Settled || underWay || e.Later}},
		{!e.Settled, Verdict{Reason: Unsettled, Wait: true}},
		{!e.Own, Verdict{Reason: NotYours}},
	}
	for _, line := range lines {
		if line.applies {
			return line.Verdict
		}
	}
	return Verdict{By: NotCreated}
}

// Reason says why nothing is decided, in words that may be printed.
type Reason string

// The reasons.
const (
	OtherNote   Reason = "the response named a note that cannot be it: another patient's, of another time, excluded, or found for another create; a person has to look"
	Gone        Reason = "the response named a note that is not there, or no longer; a person has to look"
	NoList      Reason = "the notes could not be read"
	UnderWay    Reason = "a note fits, but an equal create of this client is still under way and may have made it"
	Several     Reason = "several notes fit; a person has to look"
	LostTwice   Reason = "a note fits, but the response of an equal create was lost too; a person has to look"
	Future      Reason = "it was sent in the future by this machine's clock or by the service's; check the clocks"
	Unproven    Reason = "the list cannot be shown to be whole; does WithQueryNames name the service's parameters?"
	Forgotten   Reason = "a note fits, but this client has made too many since to know that none of them explains it; a person has to look"
	Incomplete  Reason = "a note may be it, but not enough of it is known (its user, its size, when it was made), it was excluded by its id alone, or found for another create; a person has to look"
	Resembles   Reason = "a note resembles it, or was made since by the same user and nothing explains it; a person has to look"
	MadeBefore  Reason = "a note has the very recording, but it was made before this one was sent; a person has to look"
	NotYours    Reason = "no such note is in the list, but the list of whoever asks need not show it: ask with a token of the user who sent it; an error that was put together needs Service and UserID"
	Elsewhere   Reason = "it was sent to another service than this client's; ask there"
	OtherTenant Reason = "it was sent with other headers or another query than these, any of which may pick a tenant; ask with the headers and the query of the Create"
	Unsettled   Reason = "no such note yet, but the service may still be at work"
)
