package creates

// Evidence is what looking for the note of a lost create has shown.
type Evidence struct {
	Look       Look     // how far the list was seen, or what the id led to that the response held
	Future     bool     // it was sent in the future by our clock
	Ahead      bool     // it was sent in the future by the service's clock
	Settled    bool     // the service surely had done with it when the list was asked for, by both clocks
	Own        bool     // who asks is the user who sent it, at the service where it was sent, and so would see the note
	UniqueName bool     // the caller guarantees that no other note ever had its name
	Others     Others   // what else this client creates for the same patient
	Forgot     bool     // this client no longer knows all that it has learned since it was sent
	Fitting    int      // notes in which everything fits
	Beside     Likeness // the most that any other note is like it
	Proof      Proof    // what recordings show
	Later      bool     // a recording may be read later, or the time of a note that may be it has not come

	equal  int  // notes whose recording is what was sent
	proven bool // one of them may be it
	unread bool // a note may be it whose recording is not known
}

// Proof is what recordings show that were read back.
type Proof int

// What recordings can show.
const (
	NoProof       Proof = iota // none is what was sent, or more than one may be it
	ProofEarlier               // one is, of a note that was made before
	ProofUnderWay              // one is, but a create under way may have sent it too
	ProofFound                 // exactly one is, and nothing else explains it
)

// Look is how far the list was seen, or what a note was like that did not have to be looked for there.
type Look int

// How far a list can be seen, from nothing to proof, and what an id can lead to.
const (
	LookRefused  Look = iota // the service refuses to list, or what it lists cannot be used
	LookFailing              // the list failed in a way that may pass
	LookUnproven             // what was seen may not be all
	LookProven               // to its proven end, or newest first to a row older than the lost note can be
	NamedHere                // the note of that id is there, the patient's, and resembles what was sent
	NamedOther               // it is another patient's, of another time, excluded, or found for another create
	NamedGone                // there is no such note
)

// Others is what other creates of this client, for the same patient, can explain.
type Others int

// What others there can be.
const (
	NoOthers       Others = iota
	OthersUnderWay        // of another name or size
	EqualUnderWay         // of the same name and size: the note may be its
	EqualLost             // as the one before, and its response was lost as well
)

// Add takes a note into account and returns how much it is like what was to be created.
func (e *Evidence) Add(n Note) Likeness {
	like := n.Like(e.UniqueName)
	if like == Fitting {
		e.Fitting++
	} else {
		e.Beside = max(e.Beside, like)
	}
	e.Later = e.Later || like == Rival && n.Made == MadeAhead
	switch {
	case n.Gone || !n.Patient || n.Known == Explained:
	case n.Content == Untold:
		e.unread = e.unread || n.Known != Claimed && n.Made >= MadeJustBefore && n.Size != Differs
	case n.Content == Equal:
		e.equal++
		e.proven = e.proven || n.Proven()
		if n.Made < MadeUnclear {
			e.Proof = ProofEarlier
		}
	}
	return like
}

// Prove says what the recordings of all notes show, beside other creates that may have sent the same. Exactly one is what was
// sent, under whatever name, and none that may be it as well is unread: then it is the note.
func (e *Evidence) Prove(same Others) {
	switch {
	case !e.proven:
	case e.equal > 1, e.unread, same == EqualLost, e.Forgot:
		e.Proof = NoProof
	case same == EqualUnderWay:
		e.Proof = ProofUnderWay
	default:
		e.Proof = ProofFound
	}
}

// Note is what one note of the list is like, held against what was to be created.
type Note struct {
	Gone    bool // it was in the list and no longer is
	Patient bool // it is the patient's; for a create without a patient, it names none
	Name    Name
	Size    Match // of the recording
	User    Match // who made it, and whose token sent it
	Made    Made
	Known   Known
	Content Match // of the recording; where it differs, the service may keep it in another form
}

// Name compares a note's name to the one that was sent.
type Name int

// How names can compare.
const (
	NameOther   Name = iota
	NameSimilar      // shortened, or written in another way
	NameCut          // perhaps the beginning of it, or composed of other characters
	NameUnsent       // none was sent, so that the service may have made one up
	NameEqual        // white space at the ends aside
)

// Match compares something of a note to that of the lost create.
type Match int

// How they can compare.
const (
	Untold   Match = iota // at least one of them is not known
	OneSided              // of sizes: a recording was sent, and only one side tells its size
	Differs
	Equal
)

// Compare holds what a note has against what was sent; zero: it is not known.
func Compare[T comparable](sent, got T) Match {
	var unknown T
	switch {
	case sent == unknown || got == unknown:
		return Untold
	case sent == got:
		return Equal
	}
	return Differs
}

// Known is what this client knows of a note.
type Known int

// What can be known.
const (
	Unexplained Known = iota
	Reused            // it has the id of an earlier note, so that only its recording can tell it from that one
	Excluded          // the caller excluded its id, which may be that of an earlier note
	Explained         // a Create returned it, it surely has another recording, or the caller excluded it
	Claimed           // it was found for another lost create
)

// Proven reports whether the recording says that this is the note: byte for byte what was sent, and nothing speaks against it.
func (n Note) Proven() bool {
	return !n.Gone && n.Content == Equal && n.Name != NameOther && n.Patient && n.Known <= Reused && n.Made >= MadeUnclear
}

// Likeness is how much a note is like what was to be created. Each says more than the one before.
type Likeness int

// How much a note can be like it.
const (
	Unlike     Likeness = iota
	Resembling          // it forbids to say that none was created
	Rival               // it may be the note, so that another that fits is not the only explanation
	Fitting             // everything says that it is the note
)

// Like tells how much this note is like it. A unique name alone decides. Without one a note resembles it by its name or its size, or
// because the patient's user made it at about that time and nothing explains it: it may have been renamed and re-encoded.
func (n Note) Like(unique bool) Likeness {
	inWindow, about := n.Made != MadeOutside, n.Made >= MadeJustBefore
	fits, mayBe, resembles := n.Name == NameEqual, n.Name == NameEqual, n.Name == NameEqual || n.Name == NameCut && inWindow
	if !unique {
		described := n.Name == NameEqual && (n.Size == Equal || n.Size == OneSided) || n.Name == NameUnsent && n.Size == Equal
		fits = described && n.User == Equal && n.Made == MadeSince
		named := n.Name == NameEqual || n.Name == NameUnsent
		mayBe = named && n.Size != Differs && n.User != Differs && n.Made >= MadeUnclear
		resembles = inWindow && (n.Name != NameOther || n.Size == Equal || about && n.Patient && n.User != Differs)
	}
	there := n.Patient && !n.Gone
	switch {
	case n.Known == Explained:
		return Unlike
	case fits && there && n.Known == Unexplained:
		return Fitting
	case mayBe && there || n.Proven():
		return Rival
	case resembles || n.Content == Equal:
		return Resembling
	}
	return Unlike
}
