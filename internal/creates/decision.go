// Package creates decides what became of a create whose response was lost. Only proof decides: likeness of names,
// sizes, users or times does not. The package makes no requests and keeps no patient data, so all of it can be printed.
package creates

// Observation is what a search among a patient's notes has shown about one lost create.
type Observation struct {
	Named Named // the note whose id the response held
	List  List  // how much of the patient's list was seen

	Matching        int  // notes proven to be the one, by a unique name or by their recording
	Unexplained     int  // notes that may be the one, because nothing explains them
	UnreadMayMatch  bool // a further note may have the same recording, which has not been read
	HasEarlierMatch bool // a note has the recording, but was made before the create was sent
	ReadableLater   bool // a recording that cannot be read now may be readable later

	Twin Twin // what is known of another create that may have made the matching note
	// AnotherUnderWay is set if this client is creating another note for the patient. That note is unexplained until
	// Create returns.
	AnotherUnderWay bool

	Settled      bool // the service has had the time it may need, by both clocks
	SentInFuture bool // the create was sent in the future, by our clock or the service's
	SameSender   bool // whoever asks is who sent the create
}

// Named is what became of the note whose id the response held.
type Named int

// The cases of a named note.
const (
	NotNamed     Named = iota // the response held no id
	NamedFits                 // the note exists, and nothing known about it differs
	NamedDiffers              // a note of that id exists, but something known about it differs
	NamedGone                 // there is no note of that id
)

// List is how much of a patient's list was seen.
type List int

// The cases of a list, from nothing to everything.
const (
	ListUnreadable List = iota // it cannot be read
	ListFailing                // it cannot be read now
	ListUnproven               // rows were read, but the service may have more
	ListComplete               // all rows were read, or all that were made since the create was sent
)

// Twin is what is known of another create that may have made the matching note.
type Twin int

// The cases of a twin.
const (
	NoTwin       Twin = iota
	TwinUnderWay      // it is under way in this client
	TwinLost          // its outcome is unknown too
)

// Outcome is what became of a create.
type Outcome int

// The outcomes.
const (
	Undecided Outcome = iota
	Found
	NotCreated
)

// Verdict is what an observation proves.
type Verdict struct {
	Outcome Outcome
	Reason  Reason // why it is undecided; empty otherwise
	Wait    bool   // searching again later may decide it
}

// Decide says what became of the create: found, not created, or undecided. The first row that applies decides. If none
// applies, the note was not created.
func Decide(o Observation) Verdict {
	match := o.Matching > 0
	moreToCome := !o.Settled || o.AnotherUnderWay || o.ReadableLater
	rows := []struct {
		applies bool
		verdict Verdict
	}{
		// The response named the note.
		{o.Named == NamedFits, Verdict{Outcome: Found}},

		// The notes cannot be compared.
		{o.List == ListUnreadable, Verdict{Reason: NoList}},
		{o.List == ListFailing, Verdict{Reason: NoList, Wait: true}},

		// A note matches. Is it certainly this create's?
		{match && o.Twin == TwinUnderWay, Verdict{Reason: CreateUnderWay, Wait: true}},
		{match && o.Twin == TwinLost, Verdict{Reason: LostTwice, Wait: !o.Settled}},
		{o.Matching > 1 || match && o.HasEarlierMatch, Verdict{Reason: Several}},
		{match && o.UnreadMayMatch, Verdict{Reason: NotAllRead, Wait: o.ReadableLater}},
		{match, Verdict{Outcome: Found}},

		// No note matches. May it still come, or be one that cannot be recognized?
		{o.SentInFuture, Verdict{Reason: SentInFuture, Wait: !o.Settled}},
		{o.HasEarlierMatch, Verdict{Reason: EarlierNote, Wait: moreToCome}},
		{o.Named == NamedDiffers, Verdict{Reason: OtherNote, Wait: moreToCome}},
		{o.Named == NamedGone, Verdict{Reason: NoteGone, Wait: moreToCome}},
		// Time does not make the list complete, but a recording that is read later may match.
		{o.List == ListUnproven, Verdict{Reason: NotComplete, Wait: o.ReadableLater}},
		{o.Unexplained > 0, Verdict{Reason: Unexplained, Wait: moreToCome}},
		{!o.Settled, Verdict{Reason: NotSettled, Wait: true}},
		{!o.SameSender, Verdict{Reason: OtherSender}},
	}
	for _, row := range rows {
		if row.applies {
			return row.verdict
		}
	}
	return Verdict{Outcome: NotCreated}
}

// Reason says why a create is undecided. It is safe to print.
type Reason string

// The reasons.
const (
	NoList         Reason = "the patient's notes could not be read"
	CreateUnderWay Reason = "a note has this recording, but another create of it by this client is still under way"
	LostTwice      Reason = "a note matches, but another create whose outcome is unknown may have made it"
	Several        Reason = "several notes match"
	NotAllRead     Reason = "a note has this recording, but the recording of another note could not be read"
	SentInFuture   Reason = "it was sent in the future by this machine's clock or the service's; check the clocks"
	EarlierNote    Reason = "a note has this recording, but was created before this one was sent"
	OtherNote      Reason = "the response contained the ID of a note that does not match what was sent"
	NoteGone       Reason = "the response contained the ID of a note that does not exist"
	NotComplete    Reason = "the service does not show that its list is complete; check the names in WithQueryNames"
	Unexplained    Reason = "at least one note may be it"
	NotSettled     Reason = "no note yet, but the service may still be processing the upload"
	OtherSender    Reason = "this list contains no such note, but it was sent by another user " +
		"or with another token, who may see other notes; search with the token that sent it"
	OtherService Reason = "it was sent to another service; search with a client for that service"
	OtherTenant  Reason = "it was sent with other headers or query parameters, which may select another tenant; " +
		"pass the same ones as in Create"
	Nameless Reason = "it was created without a name, a patient and a recording, so nothing can identify its note"
)
