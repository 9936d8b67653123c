package clinicaldoctest

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

// The user every server starts with, and the team a seeded user joins by default.
const (
	defaultUserID = 1
	defaultTeamID = 1
)

// User is a seeded user. Members of one team see each other's notes; only the
// user who created a note may change it.
type User struct {
	ID     int64  // 0: the next free id
	Name   string // "": "User <id>"
	Email  string // "": "user<id>@example.test"
	TeamID int64  // 0: the team of the server's first user
	Token  string // "": a random one
}

// Token is a seeded access token.
type Token struct {
	ID     int64
	Name   string
	Secret string // what a client sends after "Bearer "
}

// Patient is a seeded patient.
type Patient struct {
	ID   int64  // 0: the next free id
	Name string // "": "Patient <id>"
}

// Prompt is a seeded prompt, which a note shows as its template.
type Prompt struct {
	ID          int64  // 0: the next free id
	Name        string // "": "Template <id>"
	Description string // "": "Synthetic template <id>"
}

// firstPrompts is how many prompts a server starts with: 1 to 9.
const firstPrompts = 9

// Note is a note that a test adds, or reads back.
type Note struct {
	ID        int64 // 0: the next free id
	UserID    int64 // 0: the server's first user
	PatientID int64 // 0: 1
	PromptID  int64 // 0: 1
	Name      string
	Stage     Stage // "": complete
	// Stuck keeps an added note in its stage forever.
	Stuck         bool
	Transcription string // the text that the note has, or will have once processed
	Analysis      string
	ErrorState    string // of a note in StageFailed
	CreatedAt     time.Time
	// Audio is the recording of an added note. If nil, it is a second of silence, or AudioSize bytes of it. A note
	// that is read back has only AudioSize and AudioSHA256.
	Audio       []byte
	AudioSize   int64
	AudioSHA256 string
}

// AddUser adds a user with one token and returns it with its id and token. An existing user gets the token in
// addition. AddUser panics if the ID is negative, if the token is in use, or if an existing user has another name,
// address or team.
func (s *Server) AddUser(u User) User { return s.state().addUser(u) }

func (s *state) addUser(u User) User {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens[u.Token] != nil {
		panic("clinicaldoctest: AddUser: the token is already in use")
	}
	known := s.users[u.ID]
	if known == nil {
		u.ID = nextID(&s.lastID.user, u.ID)
		id := strconv.FormatInt(u.ID, 10)
		known = &user{
			id: u.ID, teamID: cmp.Or(u.TeamID, defaultTeamID), createdAt: s.now(),
			name: cmp.Or(u.Name, "User "+id), email: cmp.Or(u.Email, "user"+id+"@example.test"),
		}
		s.users[u.ID] = known
	}
	added := User{ID: known.id, Name: known.name, Email: known.email, TeamID: known.teamID}
	otherName := u.Name != "" && u.Name != added.Name
	otherEmail := u.Email != "" && u.Email != added.Email
	otherTeam := u.TeamID != 0 && u.TeamID != added.TeamID
	if otherName || otherEmail || otherTeam {
		panic(fmt.Sprintf("clinicaldoctest: AddUser: user %d exists with another name, email or team", u.ID))
	}
	added.Token = s.addToken(u.ID, "first device", u.Token).Secret
	return added
}

// AddToken gives a user one more token.
func (s *Server) AddToken(userID int64, name string) Token {
	st := s.state()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.mustKnowUser(userID)
	return st.addToken(userID, name, "")
}

// addToken stores a token; the caller holds the lock.
func (s *state) addToken(userID int64, name, secret string) Token {
	id := nextID(&s.lastID.token, 0)
	if secret == "" {
		secret = fmt.Sprintf("%d|%s", id, rand.Text())
	}
	s.tokens[secret] = &token{id: id, userID: userID, name: name, createdAt: s.now()}
	return Token{ID: id, Name: name, Secret: secret}
}

// AddPatient adds a patient, or renames one, and returns it with its id and name. It panics if the ID is negative.
func (s *Server) AddPatient(p Patient) Patient {
	st := s.state()
	st.mu.Lock()
	defer st.mu.Unlock()
	p.ID = nextID(&st.lastID.patient, p.ID)
	p.Name = cmp.Or(p.Name, patientName(p.ID))
	st.patients[p.ID] = p
	return p
}

// AddPrompt adds a prompt, or changes one, and returns it with its id and texts.
// Prompts 1 to 9 are there from the start. AddPrompt panics if the ID is negative.
func (s *Server) AddPrompt(p Prompt) Prompt {
	st := s.state()
	st.mu.Lock()
	defer st.mu.Unlock()
	p.ID = nextID(&st.lastID.prompt, p.ID)
	p = p.withTexts()
	st.prompts[p.ID] = p
	return p
}

func (p Prompt) withTexts() Prompt {
	p.Name = cmp.Or(p.Name, fmt.Sprintf("Template %d", p.ID))
	p.Description = cmp.Or(p.Description, fmt.Sprintf("Synthetic template %d", p.ID))
	return p
}

// AddNote adds a note in its Stage and returns its ID. Processing continues from there by the server's delays, unless
// the note is stuck. AddNote panics if the note is impossible: an unknown user or stage, or a used or negative ID.
func (s *Server) AddNote(n Note) int64 { return s.state().addNote(n) }

func (s *state) addNote(n Note) int64 {
	if id := min(n.ID, n.PatientID, n.PromptID); id < 0 {
		panic(fmt.Sprintf("clinicaldoctest: AddNote: %d is not an ID", id))
	}
	now := s.now()
	created := now
	if !n.CreatedAt.IsZero() {
		created = n.CreatedAt.UTC()
	}
	recording, err := s.seededAudio(n, now)
	if err != nil {
		panic("clinicaldoctest: AddNote: " + err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.ID != 0 && s.notes.get(n.ID) != nil {
		panic(fmt.Sprintf("clinicaldoctest: AddNote: the ID %d is in use, or was used before", n.ID))
	}
	owner := s.mustKnowUser(cmp.Or(n.UserID, defaultUserID))
	e := &entry{
		id: cmp.Or(n.ID, s.notes.next()), teamID: owner.teamID, patientID: cmp.Or(n.PatientID, 1), createdAt: created,
	}
	added, err := n.firstVersion(e, recording, now)
	if err != nil {
		panic("clinicaldoctest: AddNote: " + err.Error())
	}
	s.keepAudio(added)
	s.notes.add(added)
	return added.id
}

// firstVersion returns the first version of a seeded note.
func (n Note) firstVersion(e *entry, recording *audio, now time.Time) (*note, error) {
	first := &note{
		entry: e, userID: cmp.Or(n.UserID, defaultUserID), promptID: cmp.Or(n.PromptID, 1),
		name: cmp.Or(n.Name, noteName(e.id)), audio: recording,
		stage: StageUploaded, stuck: n.Stuck, errorState: n.ErrorState,
		updatedAt: e.createdAt, at: e.createdAt,
	}
	if n.Transcription != "" || n.Analysis != "" {
		first.script = &Script{Transcription: n.Transcription, Analysis: n.Analysis}
	}
	err := first.enter(cmp.Or(n.Stage, StageComplete), e.createdAt)
	first.stageSince = now // a note seeded with an old date still starts its stage now
	return first, err
}

// Notes returns all notes of the server in the order of their IDs.
func (s *Server) Notes() []Note { return s.state().newest(math.MaxInt) }

// newest returns up to count notes, those with the highest ids, in ascending
// order. They are as [Server.Notes] returns them, in their stage by now.
func (s *state) newest(count int) []Note {
	now := s.now()
	s.commitDue(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := make([]Note, 0, min(count, len(s.notes.all)-s.notes.gone))
	for _, e := range slices.Backward(s.notes.all) {
		if len(newest) == count {
			break
		}
		if !e.deleted() {
			newest = append(newest, e.note().settled(now, s.delays).exported())
		}
	}
	slices.Reverse(newest)
	return newest
}

func init() { //nolint:gochecknoinits // so that a proxy can ask what no test needs
	for _, kind := range allFaultKinds() {
		known := boxlink.FaultKind{Name: kind.name, Example: kind.example, Usage: kind.usage}
		boxlink.FaultKinds = append(boxlink.FaultKinds, known)
	}
	stateOf := func(server any) *state {
		return server.(*Server).state() //nolint:errcheck,forcetypeassert // nothing else has notes
	}
	boxlink.InMemory = Option(func(c *config) { c.inMemory = true })
	boxlink.Plant = func(server any, count int) { stateOf(server).plant(count) }
	boxlink.Newest = func(server any, count int) []boxlink.Note {
		shown := []boxlink.Note{}
		for _, n := range stateOf(server).newest(count) {
			shown = append(shown, boxlink.Note{
				ID: n.ID, Name: n.Name, PatientID: n.PatientID, Stage: string(n.Stage), Error: n.ErrorState,
			})
		}
		return shown
	}
}

// exported returns the note as a test reads it back.
func (n *note) exported() Note {
	exported := Note{
		ID: n.id, UserID: n.userID, PatientID: n.patientID, PromptID: n.promptID,
		Name: n.name, Stage: n.stage, Stuck: n.stuck,
		Transcription: n.transcription, Analysis: n.analysis, ErrorState: n.errorState,
		CreatedAt: n.createdAt,
	}
	if n.audio != nil {
		exported.AudioSize = n.audio.size
		exported.AudioSHA256 = n.audio.sha256
	}
	return exported
}

// mustKnowUser panics on a user the test never added; the caller holds the lock.
func (s *state) mustKnowUser(id int64) *user {
	u, ok := s.users[id]
	if !ok {
		panic(fmt.Sprintf("clinicaldoctest: no user %d", id))
	}
	return u
}

// patient returns the name of a patient and whether it was seeded.
func (s *state) patient(id int64) (name string, seeded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.patients[id]; ok {
		return p.Name, true
	}
	return patientName(id), id <= s.planted
}

// prompt returns a prompt, also one that was never seeded.
func (s *state) prompt(id int64) (p Prompt, seeded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, seeded = s.prompts[id]
	if !seeded {
		p = Prompt{ID: id}.withTexts()
	}
	return p, seeded || id <= firstPrompts
}

func patientName(id int64) string { return "Patient " + strconv.FormatInt(id, 10) }
func noteName(id int64) string    { return "Note " + strconv.FormatInt(id, 10) }

// nextID returns the wanted id, or the next one when none is wanted.
func nextID(last *int64, wanted int64) int64 {
	if wanted < 0 {
		panic(fmt.Sprintf("clinicaldoctest: %d is not an ID", wanted))
	}
	if wanted == 0 {
		wanted = *last + 1
	}
	*last = max(*last, wanted)
	return wanted
}
