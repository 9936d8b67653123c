package clinicaldoctest

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"slices"
	"time"
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
	Token  string // "": one is made
}

// Token is a seeded access token.
type Token struct {
	ID     int64
	Name   string
	Secret string // what goes after "Bearer "
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

// Note is a note as a test seeds it and reads it back.
type Note struct {
	ID        int64 // 0: the next free id
	UserID    int64 // 0: the server's first user
	PatientID int64 // 0: 1
	PromptID  int64 // 0: 1
	Name      string
	Stage     Stage // "": complete
	// Stuck keeps a seeded note in its stage for ever.
	Stuck         bool
	Transcription string // what it says, or will say once processed
	Analysis      string
	ErrorState    string // of a note in StageFailed
	CreatedAt     time.Time
	// Audio is the recording of a seeded note; nil is a second of silence, or
	// AudioSize bytes of it. Notes read back have only AudioSize and AudioSHA256.
	Audio       []byte
	AudioSize   int64
	AudioSHA256 string
}

// state is everything the service remembers. The server's mutex guards it.
type state struct {
	users    map[int64]*user
	tokens   map[string]*token // by secret
	patients map[int64]Patient
	prompts  map[int64]Prompt
	notes    map[int64]*note
	scripts  []Script
	pending  []pendingCommit
	created  []Creation
	replicas replicas
	lastID   struct{ user, token, patient, prompt, note int64 }
}

type user struct {
	id, teamID  int64
	name, email string
	createdAt   time.Time
}

type token struct {
	id, userID            int64
	name                  string
	createdAt, lastUsedAt time.Time
}

type note struct {
	id, userID, teamID, patientID, promptID int64

	name, transcription, analysis       string
	transcriptionEdited, analysisEdited bool

	audio *audio // nil: created without one

	stage      Stage
	stageSince time.Time
	stuck      bool
	script     Script
	errorState string

	transcriptionStarted, transcriptionCompleted time.Time
	analysisStarted, analysisCompleted           time.Time
	createdAt, updatedAt                         time.Time

	history []version // what a lagging replica may still show
}

func newState() state {
	s := state{
		users:    map[int64]*user{},
		tokens:   map[string]*token{},
		patients: map[int64]Patient{},
		prompts:  map[int64]Prompt{},
		notes:    map[int64]*note{},
		replicas: replicas{deleted: map[int64]*note{}},
	}
	s.lastID.prompt = firstPrompts
	return s
}

// AddUser adds a user with one token and returns it with its id and token.
func (s *Server) AddUser(u User) User {
	s.mu.Lock()
	defer s.mu.Unlock()
	u.ID = nextID(&s.lastID.user, u.ID)
	u.Name = or(u.Name, fmt.Sprintf("User %d", u.ID))
	u.Email = or(u.Email, fmt.Sprintf("user%d@example.test", u.ID))
	u.TeamID = or(u.TeamID, defaultTeamID)
	s.users[u.ID] = &user{id: u.ID, teamID: u.TeamID, name: u.Name, email: u.Email, createdAt: s.Now()}
	u.Token = s.addToken(u.ID, "first device", u.Token).Secret
	return u
}

// AddToken gives a user one more token.
func (s *Server) AddToken(userID int64, name string) Token {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustKnowUser(userID)
	return s.addToken(userID, name, "")
}

// addToken stores a token; the caller holds the lock.
func (s *Server) addToken(userID int64, name, secret string) Token {
	id := nextID(&s.lastID.token, 0)
	if secret == "" {
		secret = fmt.Sprintf("%d|%s", id, rand.Text())
	}
	s.tokens[secret] = &token{id: id, userID: userID, name: name, createdAt: s.Now()}
	return Token{ID: id, Name: name, Secret: secret}
}

// AddPatient adds a patient and returns it with its id and name.
func (s *Server) AddPatient(p Patient) Patient {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.ID = nextID(&s.lastID.patient, p.ID)
	p.Name = or(p.Name, patientName(p.ID))
	s.patients[p.ID] = p
	return p
}

// AddPrompt adds a prompt and returns it with its id and texts. Prompts 1 to 9
// are there from the start.
func (s *Server) AddPrompt(p Prompt) Prompt {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.ID = nextID(&s.lastID.prompt, p.ID)
	p = p.withTexts()
	s.prompts[p.ID] = p
	return p
}

func (p Prompt) withTexts() Prompt {
	p.Name = or(p.Name, fmt.Sprintf("Template %d", p.ID))
	p.Description = or(p.Description, fmt.Sprintf("Synthetic template %d", p.ID))
	return p
}

// AddNote adds a note in the given stage and returns its id. It goes on from
// there as the server's delays say, unless it is stuck. An impossible note
// (an unknown user or stage) is a mistake of the test and panics.
func (s *Server) AddNote(n Note) int64 {
	now := s.Now()
	recording, err := s.saveSeededAudio(n, now)
	if err != nil {
		panic("clinicaldoctest: AddNote: " + err.Error())
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	owner := s.mustKnowUser(or(n.UserID, defaultUserID))
	created := now
	if !n.CreatedAt.IsZero() {
		created = n.CreatedAt.UTC()
	}
	id := nextID(&s.lastID.note, n.ID)
	added := &note{
		id: id, userID: owner.id, teamID: owner.teamID,
		patientID: or(n.PatientID, 1), promptID: or(n.PromptID, 1),
		name: or(n.Name, fmt.Sprintf("Note %d", id)), audio: recording,
		stage: StageUploaded, stuck: n.Stuck, errorState: n.ErrorState,
		script:    Script{Transcription: n.Transcription, Analysis: n.Analysis},
		createdAt: created, updatedAt: created,
	}
	added.stageSince = created
	if err := added.enter(or(n.Stage, StageComplete), created); err != nil {
		panic("clinicaldoctest: AddNote: " + err.Error())
	}
	added.stageSince = now // a note seeded with an old date still starts its stage now
	s.notes[id] = added
	s.remember(*added, added, now)
	return id
}

// Notes returns every note the server holds, in the order of their ids.
func (s *Server) Notes() []Note {
	now := s.Now()
	s.commitDue(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	notes := make([]Note, 0, len(s.notes))
	for _, n := range s.notes {
		n.settle(now, s.delays)
		seen := Note{
			ID: n.id, UserID: n.userID, PatientID: n.patientID, PromptID: n.promptID,
			Name: n.name, Stage: n.stage, Stuck: n.stuck,
			Transcription: n.transcription, Analysis: n.analysis, ErrorState: n.errorState,
			CreatedAt: n.createdAt,
		}
		if n.audio != nil {
			seen.AudioSize, seen.AudioSHA256 = n.audio.size, n.audio.sha256
		}
		notes = append(notes, seen)
	}
	slices.SortFunc(notes, func(a, b Note) int { return cmp.Compare(a.ID, b.ID) })
	return notes
}

// visibleNotes returns copies of a team's notes, of one patient or, with 0, of
// all; the copies can be read without the lock.
func (s *Server) visibleNotes(c call, patientID int64) []note {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := func(n *note) bool {
		return n.teamID == c.user.teamID && (patientID == 0 || n.patientID == patientID)
	}
	var visible []note
	if lag := lagOf(c.Request); lag > 0 {
		for _, id := range s.everID() {
			if n := s.noteAsOf(id, c.now.Add(-lag)); n != nil && wanted(n) {
				visible = append(visible, *n)
			}
		}
		return visible
	}
	for _, n := range s.notes {
		if wanted(n) {
			n.settle(c.now, s.delays)
			visible = append(visible, *n)
		}
	}
	return visible
}

// mustKnowUser panics on a user the test never added; the caller holds the lock.
func (s *Server) mustKnowUser(id int64) *user {
	u, ok := s.users[id]
	if !ok {
		panic(fmt.Sprintf("clinicaldoctest: no user %d", id))
	}
	return u
}

// patient returns the name of a patient and whether it was seeded.
func (s *Server) patient(id int64) (name string, seeded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.patients[id]; ok {
		return p.Name, true
	}
	return patientName(id), false
}

// prompt returns a prompt, also one that was never seeded.
func (s *Server) prompt(id int64) Prompt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.prompts[id]; ok {
		return p
	}
	return Prompt{ID: id}.withTexts()
}

func (s *Server) promptSeeded(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, seeded := s.prompts[id]
	return seeded || id <= firstPrompts
}

func patientName(id int64) string { return fmt.Sprintf("Patient %d", id) }

// nextID returns the wanted id, or the next one when none is wanted.
func nextID(last *int64, wanted int64) int64 {
	if wanted == 0 {
		wanted = *last + 1
	}
	*last = max(*last, wanted)
	return wanted
}
