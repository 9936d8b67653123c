package clinicaldoc

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/tolerant"
)

// ProgressNote is the record of one patient encounter. In fmt and slog it prints only its ID, stage and flags. Its JSON
// contains everything. The note's strings share one allocation. Use strings.Clone to keep a single field without
// retaining the whole note.
type ProgressNote struct {
	ID            int64     `json:"id"`
	Name          string    `json:"name"`
	Transcription string    `json:"transcription,omitempty"`
	Analysis      string    `json:"analysis,omitempty"`
	Template      *Template `json:"template,omitempty"` // nil if absent
	// Patient holds members that are not described; see PatientID. If it contains no ID, it gets the ID in the note's
	// member patient_id.
	Patient                  Object     `json:"patient,omitzero"`
	Audio                    *AudioInfo `json:"audio,omitempty"` // nil if absent
	Has                      Completion `json:"has"`
	TeamID                   int64      `json:"team_id"`
	UserID                   int64      `json:"user_id"`
	User                     Object     `json:"user,omitzero"` // members not described
	TranscriptionStartedAt   time.Time  `json:"transcription_started_at,omitzero"`
	TranscriptionCompletedAt time.Time  `json:"transcription_completed_at,omitzero"`
	AnalysisStartedAt        time.Time  `json:"analysis_started_at,omitzero"`
	AnalysisCompletedAt      time.Time  `json:"analysis_completed_at,omitzero"`
	ErrorState               *string    `json:"error_state"` // nil or empty if processing had no error
	CreatedAt                time.Time  `json:"created_at,omitzero"`
	UpdatedAt                time.Time  `json:"updated_at,omitzero"`
	Extra                    Object     `json:"-"` // members that are not described; part of the JSON; zero if none

	flagsSent flagSet // the flags that the service sent, where Has does not show it
}

// Template is the template of a note.
type Template struct {
	ID          int64  `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Extra       Object `json:"-"` // members that are not described; part of the JSON; zero if none
}

// AudioInfo describes a note's recording. FileURL is a temporary, signed URL: anyone who has it can listen. It is not
// printed. Use [NotesService.AudioURL] for a new URL, or [NotesService.DownloadAudio] for the recording.
type AudioInfo struct {
	Duration   float64   `json:"duration,omitempty"` // in seconds
	Bitrate    int64     `json:"bitrate,omitempty"`
	Size       int64     `json:"size,omitempty"` // in bytes; 0 if not known
	UploadedAt time.Time `json:"uploaded_at,omitzero"`
	ExpiresAt  time.Time `json:"expires_at,omitzero"` // when the service deletes the recording
	FileURL    string    `json:"file_url,omitempty"`
	Extra      Object    `json:"-"` // members that are not described; part of the JSON; zero if none
}

// Completion holds a note's flags.
type Completion struct {
	Content       bool `json:"content"`       // analysis completed
	Transcription bool `json:"transcription"` // transcription completed
	Signed        bool `json:"signed"`        // reviewed and signed

	Extra Object `json:"-"` // members that are not described; part of the JSON; zero if none
}

// flags returns the flags, in the order of flagMembers.
func (c *Completion) flags() [len(flagMembers)]*bool {
	return [...]*bool{&c.Content, &c.Transcription, &c.Signed}
}

// any reports whether a flag is set.
func (c *Completion) any() bool {
	for _, flag := range c.flags() {
		if *flag {
			return true
		}
	}
	return false
}

// flagMembers are the names of the flags.
var flagMembers = [...]string{"content", "transcription", "signed"}

// flagSet is a set of flags, a bit for each of flagMembers. In a note it is empty in two usual cases: the service
// sent no flag and none is set, or it sent all and at least one is set. So a note constructed by the caller is like
// one that was read.
type flagSet uint8

const (
	allFlags flagSet = 1<<len(flagMembers) - 1
	// unreadableFlag is set if something else came in the place of a flag, of all flags, or of a time of processing.
	unreadableFlag flagSet = allFlags + 1
)

// has reports whether the set contains the flag with this index in flagMembers.
func (s flagSet) has(flag int) bool { return s&(1<<flag) != 0 }

// normalized returns the set of the note's flags that were sent, as the note keeps it: empty in the usual cases. A flag
// or a time that cannot be read counts as absent, unless its absence would make the note complete.
func (s flagSet) normalized(n *ProgressNote) flagSet {
	hasUnreadable := s&unreadableFlag != 0
	hasAll := s&allFlags == allFlags
	switch {
	case hasUnreadable && n.hasOnlyTexts(): // without a flag it would count as complete
		return allFlags
	case hasAll && n.Has.any(): // a usual case, for which sentFlags returns all flags
		return 0
	}
	return s & allFlags
}

// Flags returns the flags that the service sent, by their names: content, transcription and signed. A flag that it did
// not send is missing in the map, unless the caller has set it in Has.
func (n ProgressNote) Flags() map[string]bool {
	flags := map[string]bool{}
	for i, flag := range n.Has.flags() {
		if *flag || n.sentFlags().has(i) {
			flags[flagMembers[i]] = *flag
		}
	}
	return flags
}

// deniesSigned reports whether the service reports that the note is not signed. It counts only if another flag is set,
// so the service maintains the flags.
func (n *ProgressNote) deniesSigned() bool {
	if n.Has.Signed || !n.Has.any() {
		return false
	}
	return n.sentFlags().has(slices.Index(flagMembers[:], "signed"))
}

// sentFlags returns the flags that the service sent, also in the usual cases, in which the field is empty.
func (n *ProgressNote) sentFlags() flagSet {
	if n.flagsSent == 0 && n.Has.any() {
		return allFlags
	}
	return n.flagsSent
}

// The members that name the patient. patientID is not described; a service may use it instead of a patient object.
const (
	patientMember = "patient"
	patientID     = "patient_id"
)

// id returns the note's ID, or 0 if it is not a note.
func (n *ProgressNote) id() int64 {
	if n.isBare() {
		return 0
	}
	return n.ID
}

// isBare reports whether the note has neither a name nor a time of creation. A record of another kind, such as a queued
// job, may also have an ID.
func (n *ProgressNote) isBare() bool { return n.Name == "" && n.CreatedAt.IsZero() }

// noteParts holds two parts that most notes have, in one allocation.
type noteParts struct {
	template Template
	audio    AudioInfo
}

// partsAllocator makes the parts of one note. A part that is requested again, because its member occurs twice, is a new
// one: the decoder may still fill the first.
type partsAllocator struct {
	parts                     *noteParts // the latest; nil before the first part
	templateInUse, audioInUse bool
}

func (p *partsAllocator) template() *Template { return &p.next(&p.templateInUse).template }

func (p *partsAllocator) audio() *AudioInfo { return &p.next(&p.audioInUse).audio }

// next returns parts of which the one with this mark is free, and marks it as in use.
func (p *partsAllocator) next(inUse *bool) *noteParts {
	if p.parts == nil || *inUse {
		p.parts = new(noteParts)
	}
	*inUse = true
	return p.parts
}

// noteText is a text of a note that people write and change.
type noteText struct {
	member   string // its name in JSON
	field    string // its name in Go
	required bool   // a note without it, or with something else in its place, cannot be read
}

// noteTexts are the texts of a note, in the order of the methods named texts. All code that reads, compares, hashes or
// changes the texts of a note uses this table. To add a text, add a line here and an element in these methods.
var noteTexts = [...]noteText{
	{member: "name", field: "Name", required: true},
	{member: "transcription", field: "Transcription"},
	{member: "analysis", field: "Analysis"},
}

// texts returns the note's texts, in the order of noteTexts.
func (n *ProgressNote) texts() [len(noteTexts)]*string {
	return [...]*string{&n.Name, &n.Transcription, &n.Analysis}
}

// noteFields are the described members except the parts of noteParts.
var noteFields = withTexts(tolerant.Fields[ProgressNote]{
	"id":                         func(n *ProgressNote, d *jsonscan.Decoder) { n.ID = tolerant.RequiredID(d) },
	patientMember:                func(n *ProgressNote, d *jsonscan.Decoder) { tolerant.KeepRaw(d, &n.Patient.raw) },
	"has":                        (*ProgressNote).fillHas,
	"team_id":                    func(n *ProgressNote, d *jsonscan.Decoder) { n.TeamID = tolerant.ID(d) },
	"user_id":                    func(n *ProgressNote, d *jsonscan.Decoder) { n.UserID = tolerant.ID(d) },
	"user":                       func(n *ProgressNote, d *jsonscan.Decoder) { tolerant.KeepRaw(d, &n.User.raw) },
	"error_state":                func(n *ProgressNote, d *jsonscan.Decoder) { n.ErrorState = errorState(d) },
	"created_at":                 func(n *ProgressNote, d *jsonscan.Decoder) { n.CreatedAt = tolerant.RequiredTime(d) },
	"updated_at":                 func(n *ProgressNote, d *jsonscan.Decoder) { n.UpdatedAt = tolerant.Time(d) },
	"transcription_started_at":   optionalTime(func(n *ProgressNote) *time.Time { return &n.TranscriptionStartedAt }),
	"transcription_completed_at": optionalTime(func(n *ProgressNote) *time.Time { return &n.TranscriptionCompletedAt }),
	"analysis_started_at":        optionalTime(func(n *ProgressNote) *time.Time { return &n.AnalysisStartedAt }),
	"analysis_completed_at":      optionalTime(func(n *ProgressNote) *time.Time { return &n.AnalysisCompletedAt }),
})

// optionalTime returns the function that reads a time of processing into this field of a note.
func optionalTime(field func(*ProgressNote) *time.Time) func(*ProgressNote, *jsonscan.Decoder) {
	return func(n *ProgressNote, d *jsonscan.Decoder) {
		passedOver := d.PassedOver
		*field(n) = tolerant.Time(d)
		if d.PassedOver > passedOver {
			n.flagsSent |= unreadableFlag
		}
	}
}

// withTexts adds the functions that read the texts in noteTexts to the fields, and returns them.
func withTexts(fields tolerant.Fields[ProgressNote]) tolerant.Fields[ProgressNote] {
	for i, text := range noteTexts {
		read := tolerant.Text
		if text.required {
			read = tolerant.RequiredText
		}
		fields[text.member] = func(n *ProgressNote, d *jsonscan.Decoder) {
			passedOver := d.PassedOver
			read(d, n.texts()[i])
			if d.PassedOver > passedOver {
				d.TextUnread = true
			}
		}
	}
	return fields
}

// The members that noteParts holds.
const (
	templateMember = "template"
	audioMember    = "audio"
)

// describesNote reports whether the member of a note is described, so it does not belong into Extra.
func describesNote(member string) bool {
	switch member {
	case templateMember, audioMember:
		return true
	}
	return noteFields.Describes(member)
}

// fill reads a note into n, which is zero. It keeps members that are not described in Extra.
func (n *ProgressNote) fill(d *jsonscan.Decoder) {
	var parts partsAllocator
	var namesPatient bool
	var usual [256]byte // enough for the undescribed members of most notes
	others := usual[:0]
	tolerant.Object(d, func(key []byte) {
		switch read := noteFields[string(key)]; {
		case read != nil:
			read(n, d)
		case string(key) == templateMember:
			n.Template = tolerant.Optional(d, parts.template, (*Template).fill)
		case string(key) == audioMember:
			n.Audio = tolerant.Optional(d, parts.audio, (*AudioInfo).fill)
		default:
			if string(key) == patientID {
				namesPatient = true
			}
			others = append(append(others, ','), d.RawMember()...) // KeepMembers expects the commas
		}
	})
	tolerant.KeepMembers(d, &n.Extra.raw, others)
	d.Flush() // stores the texts, which are used below
	n.flagsSent = n.flagsSent.normalized(n)
	if namesPatient {
		n.Patient.raw = tolerant.Naming(n.Patient.raw, patientID, tolerant.ReferenceBy(patientID, n.Extra.raw))
	}
}

var templateFields = tolerant.Fields[Template]{
	"id":          func(t *Template, d *jsonscan.Decoder) { t.ID = tolerant.ID(d) },
	"name":        func(t *Template, d *jsonscan.Decoder) { tolerant.Text(d, &t.Name) },
	"description": func(t *Template, d *jsonscan.Decoder) { tolerant.Text(d, &t.Description) },
}

var audioFields = tolerant.Fields[AudioInfo]{
	"duration":    func(a *AudioInfo, d *jsonscan.Decoder) { a.Duration = tolerant.Seconds(d) },
	"bitrate":     func(a *AudioInfo, d *jsonscan.Decoder) { a.Bitrate = tolerant.Integer(d) },
	"size":        func(a *AudioInfo, d *jsonscan.Decoder) { a.Size = tolerant.Integer(d) },
	"uploaded_at": func(a *AudioInfo, d *jsonscan.Decoder) { a.UploadedAt = tolerant.Time(d) },
	"expires_at":  func(a *AudioInfo, d *jsonscan.Decoder) { a.ExpiresAt = tolerant.Time(d) },
	"file_url":    func(a *AudioInfo, d *jsonscan.Decoder) { tolerant.Text(d, &a.FileURL) },
}

// flagFields are the members of Has.
var flagFields = tolerant.Fields[Completion]{
	"content":       func(c *Completion, d *jsonscan.Decoder) { c.Content = tolerant.Bool(d) },
	"transcription": func(c *Completion, d *jsonscan.Decoder) { c.Transcription = tolerant.Bool(d) },
	"signed":        func(c *Completion, d *jsonscan.Decoder) { c.Signed = tolerant.Bool(d) },
}

// sentFields reads the members of a note's Has, and records which of them were sent.
var sentFields = recordingSent(flagFields)

// recordingSent returns functions that read a note's flags by the given ones, and record which flags were sent. A flag
// that is null or cannot be read counts as not sent.
func recordingSent(fields tolerant.Fields[Completion]) tolerant.Fields[ProgressNote] {
	recording := tolerant.Fields[ProgressNote]{}
	for i, member := range flagMembers {
		read := fields[member]
		recording[member] = func(n *ProgressNote, d *jsonscan.Decoder) {
			isNull := d.Kind() == jsonscan.Null
			passedOver := d.PassedOver
			read(&n.Has, d)
			wasRead := d.PassedOver == passedOver
			if wasRead && !isNull {
				n.flagsSent |= 1 << i
			}
		}
	}
	return recording
}

func (t *Template) fill(d *jsonscan.Decoder)   { templateFields.Fill(t, &t.Extra.raw, d) }
func (a *AudioInfo) fill(d *jsonscan.Decoder)  { audioFields.Fill(a, &a.Extra.raw, d) }
func (c *Completion) fill(d *jsonscan.Decoder) { flagFields.Fill(c, &c.Extra.raw, d) }

// fillHas reads the flags, which may be absent, and records which of them were sent, and whether any could not be read.
func (n *ProgressNote) fillHas(d *jsonscan.Decoder) {
	passedOver := d.PassedOver
	tolerant.Optional(d, func() *Completion { return &n.Has }, func(has *Completion, d *jsonscan.Decoder) {
		sentFields.Fill(n, &has.Extra.raw, d)
	})
	if d.PassedOver > passedOver {
		n.flagsSent |= unreadableFlag
	}
}

// errorState reads the text of an error. A value that is not a string is kept as JSON, or is nil if it is empty.
func errorState(d *jsonscan.Decoder) *string {
	if d.Kind() == jsonscan.String {
		return new(d.Text())
	}
	raw := d.Raw()
	switch string(raw) {
	case "", "null", "false", "0", "[]", "{}":
		return nil
	}
	return new(string([]rune(string(raw)))) // replaces invalid bytes as in strings, so a stored value reads back equal
}

// PatientID returns the ID of the patient that the note names, in Patient or in a member patient_id. It reports whether
// the note names exactly one.
func (n ProgressNote) PatientID() (int64, bool) { return n.patient().ID() }

// patient returns what the note says of its patient, in Patient and in a member patient_id together.
func (n *ProgressNote) patient() tolerant.Reference {
	return tolerant.ReferenceOf(n.Patient.raw, patientID).And(tolerant.ReferenceBy(patientID, n.Extra.raw))
}

// patientTexts returns the JSON of Patient and of a member patient_id. They tell patients apart whose
// IDs cannot be read.
func (n *ProgressNote) patientTexts() (patientText, idText string) {
	return n.Patient.raw, tolerant.TextOf(patientID, n.Extra.raw)
}

// Version returns a short, opaque string for the note's ID and what [IfUnchanged] compares: texts, flags, patient and
// updated_at. It stays the same if the note is encoded as JSON and decoded again, or if CRLF and LF are exchanged. A
// row of a list that shortens texts has another version than the note. See [IfVersion].
func (n ProgressNote) Version() string {
	patient, named := n.PatientID()
	texts := make([]string, 0, len(noteTexts)+2)
	for _, text := range n.texts() {
		texts = append(texts, *text)
	}
	isUnreadable := !named && !namesNoPatient(&n)
	if isUnreadable { // otherwise the patient's ID, or 0 for none, is enough
		patientText, idText := n.patientTexts()
		texts = append(texts, patientText, idText)
	}
	hash := sha256.New()
	data := make([]byte, 0, 256) // the texts may be long, so they are hashed in pieces
	for _, number := range [...]int64{n.ID, patient, n.UpdatedAt.UnixNano()} {
		data = binary.BigEndian.AppendUint64(data, uint64(number)) //nolint:gosec // only has to differ
	}
	for _, flag := range n.Has.flags() {
		data = strconv.AppendBool(data, *flag)
	}
	for _, text := range texts {
		text = withLF(text)
		data = binary.BigEndian.AppendUint64(data, uint64(len(text)))
		for len(text) > 0 {
			piece := min(len(text), cap(data)-len(data))
			hash.Write(append(data, text[:piece]...))
			data = data[:0]
			text = text[piece:]
		}
	}
	hash.Write(data)
	return base64.RawURLEncoding.EncodeToString(hash.Sum(data[:0])[:15])
}

// patientMatch is the result of comparing a note's patient with the expected one.
type patientMatch int

const (
	namesNone  patientMatch = iota // it names no patient
	namesThis                      // it names this patient and no other
	namesOther                     // it names another one, or two, or one that cannot be read
)

// comparePatient compares the patient that the note names with the one with the ID.
func (n *ProgressNote) comparePatient(id int64) patientMatch {
	reference := n.patient()
	if named, ok := reference.ID(); ok && named == id {
		return namesThis
	}
	if reference.IsZero() {
		return namesNone
	}
	return namesOther
}

// Stage is how far the service has processed a note. Its values are in the order of processing, with gaps between them.
// The zero value means "not set". StageFailed is negative, so no comparison takes a failed note for a finished one. In
// JSON and other texts a stage is its name, such as "complete".
type Stage int

// The stages of a note, in order. A note with an error state is failed, whatever else it contains.
const (
	StageUploaded     Stage = 10  // nothing has begun yet
	StageTranscribing Stage = 20  // transcription has begun
	StageTranscribed  Stage = 30  // transcription is complete
	StageAnalysing    Stage = 40  // analysis has begun
	StageComplete     Stage = 50  // transcription and analysis are complete; ready to be edited and signed
	StageSigned       Stage = 60  // reviewed and signed
	StageFailed       Stage = -10 // the service reports an error state
)

var stageNames = map[Stage]string{
	0: "unset", StageUploaded: "uploaded", StageTranscribing: "transcribing", StageTranscribed: "transcribed",
	StageAnalysing: "analysing", StageComplete: "complete", StageSigned: "signed", StageFailed: "failed",
}

// AtLeast reports whether a note in stage s has reached t. A failed note has reached only StageFailed.
func (s Stage) AtLeast(t Stage) bool {
	if s == StageFailed || t == StageFailed {
		return s == t
	}
	return s >= t
}

// Stage derives the note's stage from its flags, timestamps and error state. Failed precedes signed, and signed
// precedes complete. A step that has started but not completed is the running stage. A note with both texts is complete
// if the service sends neither flags nor times.
func (n ProgressNote) Stage() Stage {
	failed := n.ErrorState != nil && *n.ErrorState != ""
	transcribed := n.Has.Transcription || !n.TranscriptionCompletedAt.IsZero()
	analysed := n.Has.Content || !n.AnalysisCompletedAt.IsZero()
	switch {
	case failed:
		return StageFailed
	case n.Has.Signed:
		return StageSigned
	case transcribed && analysed, n.flagsSent == 0 && n.hasOnlyTexts():
		return StageComplete
	case transcribed:
		if n.AnalysisStartedAt.IsZero() {
			return StageTranscribed
		}
		return StageAnalysing
	case !n.TranscriptionStartedAt.IsZero(), analysed, !n.AnalysisStartedAt.IsZero():
		return StageTranscribing
	}
	return StageUploaded
}

// hasOnlyTexts reports whether the note has a transcription and an analysis, but no flag is set, and no time at which a
// step began or ended.
func (n *ProgressNote) hasOnlyTexts() bool {
	if n.Transcription == "" || n.Analysis == "" {
		return false
	}
	if n.Has.any() {
		return false
	}
	times := [...]time.Time{
		n.TranscriptionStartedAt, n.TranscriptionCompletedAt, n.AnalysisStartedAt, n.AnalysisCompletedAt,
	}
	for _, at := range times {
		if !at.IsZero() {
			return false
		}
	}
	return true
}

// String returns the stage's name in lower case.
func (s Stage) String() string {
	return cmp.Or(stageNames[s], "Stage("+strconv.Itoa(int(s))+")")
}

// MarshalText implements [encoding.TextMarshaler]. It returns the stage's name, "unset" for zero. It returns an error
// matching [ErrInvalidArgument] if the value is not a stage.
func (s Stage) MarshalText() ([]byte, error) {
	if name := stageNames[s]; name != "" {
		return []byte(name), nil
	}
	return nil, invalid("Stage", "%d is not a stage", int(s))
}

// UnmarshalText implements [encoding.TextUnmarshaler]. It reads a stage's name; an empty text is zero. It returns an
// error matching [ErrInvalidArgument] for any other text.
func (s *Stage) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*s = 0
		return nil
	}
	for stage, name := range stageNames {
		if name == string(text) {
			*s = stage
			return nil
		}
	}
	return invalid("Stage", "the text is not a stage's name")
}

// MarshalJSON writes the note as the service does: the described members, then those in Extra. Flags that the service
// did not send are not written.
func (n ProgressNote) MarshalJSON() ([]byte, error) {
	has, err := n.marshalHas()
	if err != nil {
		return nil, err
	}
	type described ProgressNote // has no methods
	note := struct {
		described
		Has json.RawMessage `json:"has,omitempty"`
	}{described(n), has}
	return marshalRecord(note, "ProgressNote", n.Extra, describesNote)
}

// marshalHas returns the JSON of the flags that were sent, or nil if Has has no members.
func (n *ProgressNote) marshalHas() ([]byte, error) {
	flags := n.Flags()
	if len(flags) == 0 && n.Has.Extra.IsZero() {
		return nil, nil
	}
	return marshalRecord(flags, "Completion", n.Has.Extra, flagFields.Describes)
}

// marshalRecord writes the described members of a record, then those in its Extra that are not described.
func marshalRecord(described any, name string, extra Object, describes func(member string) bool) ([]byte, error) {
	others, err := tolerant.Without(extra.raw, describes)
	if err != nil {
		return nil, invalid(name+": Extra", "is not an object of further members")
	}
	return tolerant.Marshal(described, others)
}

// UnmarshalJSON reads a note as tolerantly as the service's responses are read.
func (n *ProgressNote) UnmarshalJSON(data []byte) error {
	return tolerant.Unmarshal(data, n, (*ProgressNote).fill)
}

// UnmarshalJSON reads a template as tolerantly as the service's responses are read.
func (t *Template) UnmarshalJSON(b []byte) error { return tolerant.Unmarshal(b, t, (*Template).fill) }

// MarshalJSON writes the described members, then those in Extra.
func (t Template) MarshalJSON() ([]byte, error) {
	type described Template // has no methods
	return marshalRecord(described(t), "Template", t.Extra, templateFields.Describes)
}

// UnmarshalJSON reads audio metadata as tolerantly as the service's responses are read.
func (a *AudioInfo) UnmarshalJSON(b []byte) error { return tolerant.Unmarshal(b, a, (*AudioInfo).fill) }

// MarshalJSON writes the described members, then those in Extra.
func (a AudioInfo) MarshalJSON() ([]byte, error) {
	type described AudioInfo // has no methods
	return marshalRecord(described(a), "AudioInfo", a.Extra, audioFields.Describes)
}

// UnmarshalJSON reads flags as tolerantly as the service's responses are read. A flag that is absent is false; see
// [ProgressNote.Flags].
func (c *Completion) UnmarshalJSON(b []byte) error {
	return tolerant.Unmarshal(b, c, (*Completion).fill)
}

// MarshalJSON writes all three flags, then the members in Extra.
func (c Completion) MarshalJSON() ([]byte, error) {
	type described Completion // has no methods
	return marshalRecord(described(c), "Completion", c.Extra, flagFields.Describes)
}

// LogValue implements [slog.LogValuer]. It lists the three flags.
func (c Completion) LogValue() slog.Value { return slog.GroupValue(c.attrs()...) }

func (c *Completion) attrs() []slog.Attr {
	return []slog.Attr{
		slog.Bool("transcription", c.Transcription), slog.Bool("content", c.Content), slog.Bool("signed", c.Signed),
	}
}

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (c Completion) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.Completion", c) }

// LogValue implements [slog.LogValuer]. It lists the note's ID, stage and flags.
func (n ProgressNote) LogValue() slog.Value {
	attrs := []slog.Attr{slog.Int64("id", n.ID), slog.String("stage", n.Stage().String())}
	return slog.GroupValue(append(attrs, n.Has.attrs()...)...)
}

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (n ProgressNote) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.ProgressNote", n) }

// LogValue implements [slog.LogValuer]. It lists the template's ID.
func (t Template) LogValue() slog.Value { return slog.GroupValue(slog.Int64("id", t.ID)) }

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (t Template) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.Template", t) }

// LogValue implements [slog.LogValuer]. It lists duration, bit rate and size.
func (a AudioInfo) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Float64("duration", a.Duration), slog.Int64("bitrate", a.Bitrate), slog.Int64("size", a.Size),
	)
}

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (a AudioInfo) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.AudioInfo", a) }

// Object is a JSON value with members that are not described, such as a note's patient. It keeps the value in compact
// form, and encodes it unchanged. The zero value is an absent value or null.
type Object struct{ raw string }

// ID returns the object's ID, from its member id or patient_id, and reports whether it has exactly one. The object may
// also be a number, or hold the record in "data" or in a list.
func (o Object) ID() (int64, bool) { return tolerant.ReferenceOf(o.raw, patientID).ID() }

// Decode stores the object in v, as [json.Unmarshal] does. If the object is absent or [], v is unchanged.
func (o Object) Decode(v any) error {
	if o.IsZero() || o.raw == "[]" {
		return nil
	}
	return json.Unmarshal([]byte(o.raw), v)
}

// IsZero reports whether the object was absent or null.
func (o Object) IsZero() bool { return o.raw == "" }

// MarshalJSON returns the object as it was received, or null if it is absent.
func (o Object) MarshalJSON() ([]byte, error) {
	if o.IsZero() {
		return []byte("null"), nil
	}
	return []byte(o.raw), nil
}

// UnmarshalJSON keeps any JSON value.
func (o *Object) UnmarshalJSON(data []byte) error {
	*o = Object{}
	return tolerant.Unmarshal(data, o, func(o *Object, d *jsonscan.Decoder) { tolerant.KeepRaw(d, &o.raw) })
}

// LogValue implements [slog.LogValuer]. It reports only whether there is an object, because its ID may be a patient's.
func (o Object) LogValue() slog.Value { return slog.GroupValue(slog.Bool("present", !o.IsZero())) }

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (o Object) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.Object", o) }
