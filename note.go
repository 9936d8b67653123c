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

// ProgressNote is the record of one patient encounter. In fmt and slog it prints as its id, stage and flags; encoding it
// as JSON is explicit and gives everything. Its texts share memory with each other: a program that keeps only one of them
// for long copies it with strings.Clone.
type ProgressNote struct {
	ID                       int64      `json:"id"`
	Name                     string     `json:"name"`
	Transcription            string     `json:"transcription,omitempty"`
	Analysis                 string     `json:"analysis,omitempty"`
	Template                 *Template  `json:"template,omitempty"` // nil when absent
	Patient                  Object     `json:"patient,omitzero"`   // members not described; see PatientID. Takes over a patient_id beside it when it names nobody itself
	Audio                    *AudioInfo `json:"audio,omitempty"`    // nil when absent
	Has                      Completion `json:"has"`
	TeamID                   int64      `json:"team_id"`
	UserID                   int64      `json:"user_id"`
	User                     Object     `json:"user,omitzero"` // members not described
	TranscriptionStartedAt   time.Time  `json:"transcription_started_at,omitzero"`
	TranscriptionCompletedAt time.Time  `json:"transcription_completed_at,omitzero"`
	AnalysisStartedAt        time.Time  `json:"analysis_started_at,omitzero"`
	AnalysisCompletedAt      time.Time  `json:"analysis_completed_at,omitzero"`
	ErrorState               *string    `json:"error_state"` // nil or empty when processing met no error
	CreatedAt                time.Time  `json:"created_at,omitzero"`
	UpdatedAt                time.Time  `json:"updated_at,omitzero"`
	Extra                    Object     `json:"-"` // members that are not described, written back by JSON; zero when there are none

	sent flagSet // the flags that the service sent, where Has does not tell
}

// Template is the template a note was made with.
type Template struct {
	ID          int64  `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Extra       Object `json:"-"` // members that are not described, written back by JSON; zero when there are none
}

// AudioInfo describes a note's recording. FileURL is a temporary, signed URL: whoever has it can listen. It is not
// printed; fetch a fresh one with [NotesService.AudioURL], or the recording itself with [NotesService.DownloadAudio].
type AudioInfo struct {
	Duration   float64   `json:"duration,omitempty"` // in seconds
	Bitrate    int64     `json:"bitrate,omitempty"`
	Size       int64     `json:"size,omitempty"` // in bytes; 0 when not known
	UploadedAt time.Time `json:"uploaded_at,omitzero"`
	ExpiresAt  time.Time `json:"expires_at,omitzero"` // when the service drops the recording
	FileURL    string    `json:"file_url,omitempty"`
	Extra      Object    `json:"-"` // members that are not described, written back by JSON; zero when there are none
}

// Completion holds a note's flags.
type Completion struct {
	Content       bool `json:"content"`       // analysis completed
	Transcription bool `json:"transcription"` // transcription completed
	Signed        bool `json:"signed"`        // reviewed and signed

	Extra Object `json:"-"` // members that are not described, written back by JSON; zero when there are none
}

// flags are the flags, in the order of flagMembers.
func (c *Completion) flags() [len(flagMembers)]*bool {
	return [...]*bool{&c.Content, &c.Transcription, &c.Signed}
}

// any reports whether a flag is set.
func (c *Completion) any() bool { return c.Content || c.Transcription || c.Signed }

// flagMembers are the names of the flags.
var flagMembers = [...]string{"content", "transcription", "signed"}

// flagSet is a set of flags, a bit for each of flagMembers. In a note it is empty in two usual cases: the service
// sent no flag, and none is set; it sent all of them, and one at least is set. A note that a program constructs is
// then like one that was read.
type flagSet uint8

const (
	allFlags       flagSet = 1<<len(flagMembers) - 1
	unreadableFlag flagSet = allFlags + 1 // something else came in the place of a flag
)

func (s flagSet) has(flag int) bool { return s&(1<<flag) != 0 }

// usual is the set as a note keeps it. A flag that cannot be read counts as absent, but not where its absence would
// make the note complete.
func (s flagSet) usual(n *ProgressNote) flagSet {
	switch {
	case s&unreadableFlag != 0 && n.onlyTexts():
		return allFlags
	case s&allFlags == allFlags && n.Has.any():
		return 0
	}
	return s & allFlags
}

// Flags returns the flags that the service sent, by their names: content, transcription and signed. A flag that it did
// not send is missing in the map; in Has it is false.
func (n ProgressNote) Flags() map[string]bool {
	flags := map[string]bool{}
	for i, flag := range n.Has.flags() {
		if *flag || n.sentFlags().has(i) {
			flags[flagMembers[i]] = *flag
		}
	}
	return flags
}

// deniesSigned reports whether the service says that the note is not signed, and knows what it says: another flag is
// set.
func (n *ProgressNote) deniesSigned() bool {
	return n.Has.any() && !n.Has.Signed && n.sentFlags().has(slices.Index(flagMembers[:], "signed"))
}

func (n *ProgressNote) sentFlags() flagSet {
	if n.sent == 0 && n.Has.any() {
		return allFlags
	}
	return n.sent
}

// patientID is a member that the description does not show: how a service may name the patient, in place of an object.
const patientID = "patient_id"

// id returns the note's id, or 0 if it is not a note.
func (n *ProgressNote) id() int64 {
	if n.isBare() {
		return 0
	}
	return n.ID
}

// isBare reports whether the note has neither a name nor a time of creation. A record of another kind, such as a queued job,
// may have an id too.
func (n *ProgressNote) isBare() bool { return n.Name == "" && n.CreatedAt.IsZero() }

// noteParts is room for what most notes have both of, in one allocation.
type noteParts struct {
	template Template
	audio    AudioInfo
}

// noteText is a text of a note that people write and change.
type noteText struct {
	member   string // its name in JSON
	field    string // its name in Go
	required bool   // a note without it, or with something else in its place, cannot be read
}

// noteTexts are the texts of a note, in the order of the methods named texts. Whatever reads, compares, hashes or
// changes the texts of a note goes by this table: a further text has its line here, and its place in these methods.
var noteTexts = [...]noteText{
	{member: "name", field: "Name", required: true},
	{member: "transcription", field: "Transcription"},
	{member: "analysis", field: "Analysis"},
}

func (n *ProgressNote) texts() [len(noteTexts)]*string {
	return [...]*string{&n.Name, &n.Transcription, &n.Analysis}
}

// noteFields are the described members except the parts of noteParts.
var noteFields = withTexts(tolerant.Fields[ProgressNote]{
	"id":                         func(n *ProgressNote, d *jsonscan.Decoder) { n.ID = tolerant.RequiredID(d) },
	"patient":                    func(n *ProgressNote, d *jsonscan.Decoder) { tolerant.KeepRaw(d, &n.Patient.raw) },
	"has":                        (*ProgressNote).fillHas,
	"team_id":                    func(n *ProgressNote, d *jsonscan.Decoder) { n.TeamID = tolerant.ID(d) },
	"user_id":                    func(n *ProgressNote, d *jsonscan.Decoder) { n.UserID = tolerant.ID(d) },
	"user":                       func(n *ProgressNote, d *jsonscan.Decoder) { tolerant.KeepRaw(d, &n.User.raw) },
	"error_state":                func(n *ProgressNote, d *jsonscan.Decoder) { n.ErrorState = errorState(d) },
	"created_at":                 func(n *ProgressNote, d *jsonscan.Decoder) { n.CreatedAt = tolerant.RequiredTime(d) },
	"updated_at":                 func(n *ProgressNote, d *jsonscan.Decoder) { n.UpdatedAt = tolerant.Time(d) },
	"transcription_started_at":   func(n *ProgressNote, d *jsonscan.Decoder) { n.TranscriptionStartedAt = tolerant.Time(d) },
	"transcription_completed_at": func(n *ProgressNote, d *jsonscan.Decoder) { n.TranscriptionCompletedAt = tolerant.Time(d) },
	"analysis_started_at":        func(n *ProgressNote, d *jsonscan.Decoder) { n.AnalysisStartedAt = tolerant.Time(d) },
	"analysis_completed_at":      func(n *ProgressNote, d *jsonscan.Decoder) { n.AnalysisCompletedAt = tolerant.Time(d) },
})

func withTexts(fields tolerant.Fields[ProgressNote]) tolerant.Fields[ProgressNote] {
	for i, text := range noteTexts {
		read := tolerant.Text
		if text.required {
			read = tolerant.RequiredText
		}
		fields[text.member] = func(n *ProgressNote, d *jsonscan.Decoder) { read(d, n.texts()[i]) }
	}
	return fields
}

// The members that noteParts has room for.
const templateMember, audioMember = "template", "audio"

func describesNote(member string) bool {
	return member == templateMember || member == audioMember || noteFields.Describes(member)
}

func (n *ProgressNote) fill(d *jsonscan.Decoder) {
	var both *noteParts
	var hasTemplate, hasAudio, namesPatient bool
	var usual [256]byte // is room enough for the members of most notes that are not described
	others := usual[:0]
	room := func(given *bool) *noteParts {
		if both == nil || *given { // texts may still be on their way to one that was given
			both = new(noteParts)
		}
		*given = true
		return both
	}
	tolerant.Object(d, func(key []byte) {
		switch read := noteFields[string(key)]; {
		case read != nil:
			read(n, d)
		case string(key) == templateMember:
			n.Template = tolerant.Optional(d, func() *Template { return &room(&hasTemplate).template }, (*Template).fill)
		case string(key) == audioMember:
			n.Audio = tolerant.Optional(d, func() *AudioInfo { return &room(&hasAudio).audio }, (*AudioInfo).fill)
		default:
			namesPatient = namesPatient || string(key) == patientID
			others = append(append(others, ','), d.RawMember()...)
		}
	})
	tolerant.KeepMembers(d, &n.Extra.raw, others)
	d.Flush()
	n.sent = n.sent.usual(n)
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

// sentFields reads the members of a note's Has, and notes which of them were sent.
var sentFields = notingSent(flagFields)

func notingSent(fields tolerant.Fields[Completion]) tolerant.Fields[ProgressNote] {
	noting := tolerant.Fields[ProgressNote]{}
	for i, member := range flagMembers {
		read := fields[member]
		noting[member] = func(n *ProgressNote, d *jsonscan.Decoder) {
			absent := d.Kind() == jsonscan.Null
			warnings := len(d.Warnings)
			read(&n.Has, d)
			switch {
			case absent:
			case len(d.Warnings) > warnings:
				n.sent |= unreadableFlag
			default:
				n.sent |= 1 << i
			}
		}
	}
	return noting
}

func (t *Template) fill(d *jsonscan.Decoder)   { templateFields.Fill(t, &t.Extra.raw, d) }
func (a *AudioInfo) fill(d *jsonscan.Decoder)  { audioFields.Fill(a, &a.Extra.raw, d) }
func (c *Completion) fill(d *jsonscan.Decoder) { flagFields.Fill(c, &c.Extra.raw, d) }

// fillHas reads the flags, which may be absent, and which of them there are.
func (n *ProgressNote) fillHas(d *jsonscan.Decoder) {
	tolerant.Optional(d, func() *Completion { return &n.Has }, func(has *Completion, d *jsonscan.Decoder) {
		sentFields.Fill(n, &has.Extra.raw, d)
	})
}

// errorState reads the text of an error; should it come as something else than a text, it is kept as it is.
func errorState(d *jsonscan.Decoder) *string {
	if d.Kind() == jsonscan.String {
		return new(d.Text())
	}
	raw := d.Raw()
	switch string(raw) {
	case "", "null", "false", "0", "[]", "{}":
		return nil
	}
	return new(string([]rune(string(raw)))) // each invalid byte as texts are read, so that a stored one reads back equal
}

// PatientID returns the patient whom the note names, in Patient or by a patient_id beside the described members, and
// whether it names one and only one.
func (n ProgressNote) PatientID() (int64, bool) { return n.patient().ID() }

func (n *ProgressNote) patient() tolerant.Reference {
	return tolerant.ReferenceOf(n.Patient.raw, patientID).And(tolerant.ReferenceBy(patientID, n.Extra.raw))
}

// Version is a short, opaque word for what [IfUnchanged] compares: texts, flags, patient and updated_at. It is the same after
// the note was encoded as JSON and decoded again; lines that end in CRLF or in LF are alike. A row of a list that shortens
// texts has another version than the note. See [IfVersion].
func (n ProgressNote) Version() string {
	patient, named := n.PatientID()
	texts := make([]string, 0, len(noteTexts)+1)
	for _, text := range n.texts() {
		texts = append(texts, *text)
	}
	if !named && !namesNoPatient(&n) { // else the number says it
		texts = append(texts, n.Patient.raw)
	}
	hash := sha256.New()
	data := make([]byte, 0, 256) // the texts may be long: they go by in pieces
	for _, number := range [...]int64{n.ID, patient, n.UpdatedAt.UnixNano()} {
		data = binary.BigEndian.AppendUint64(data, uint64(number)) //nolint:gosec // no number, but what tells one from another
	}
	for _, flag := range n.Has.flags() {
		data = strconv.AppendBool(data, *flag)
	}
	for _, text := range texts {
		text = lines(text)
		data = binary.BigEndian.AppendUint64(data, uint64(len(text)))
		for len(text) > 0 {
			piece := min(len(text), cap(data)-len(data))
			hash.Write(append(data, text[:piece]...))
			data, text = data[:0], text[piece:]
		}
	}
	hash.Write(data)
	return base64.RawURLEncoding.EncodeToString(hash.Sum(data[:0])[:15])
}

// patientMatch is how a note stands to the patient it should be about.
type patientMatch int

const (
	namesNone  patientMatch = iota // it names no patient
	namesThis                      // it names this patient and no other
	namesOther                     // it names another one, or two, or one that cannot be read
)

func (n *ProgressNote) comparePatient(id int64) patientMatch {
	said := n.patient()
	if named, ok := said.ID(); ok && named == id {
		return namesThis
	}
	if said.IsZero() {
		return namesNone
	}
	return namesOther
}

// Stage is how far the service has come with a note. Its values are ordered as the note's life, with room between them;
// the zero value means "not set", and a failed note's is negative, so that no comparison takes it for a finished one.
// Encoded as JSON or any other text it is its name, such as "complete".
type Stage int

// The stages of a note's life, in order. A failed note stays failed whatever else it carries.
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

// AtLeast reports whether a note in stage s has come as far as t. A failed one has come nowhere but to its failure.
func (s Stage) AtLeast(t Stage) bool {
	if s == StageFailed || t == StageFailed {
		return s == t
	}
	return s >= t
}

// Stage derives the note's stage from its flags, timestamps and error state: failed beats signed beats complete, and
// what has started but not completed is the running stage. A note with both texts whose service tells neither flags nor
// times is complete.
func (n ProgressNote) Stage() Stage {
	transcribed := n.Has.Transcription || !n.TranscriptionCompletedAt.IsZero()
	analysed := n.Has.Content || !n.AnalysisCompletedAt.IsZero()
	switch {
	case n.ErrorState != nil && *n.ErrorState != "":
		return StageFailed
	case n.Has.Signed:
		return StageSigned
	case transcribed && analysed, n.onlyTexts() && n.sent == 0:
		return StageComplete
	case transcribed && !n.AnalysisStartedAt.IsZero():
		return StageAnalysing
	case transcribed:
		return StageTranscribed
	case !n.TranscriptionStartedAt.IsZero(), analysed, !n.AnalysisStartedAt.IsZero():
		return StageTranscribing
	}
	return StageUploaded
}

// onlyTexts reports whether the note has both texts while no flag is set and no time is set.
func (n *ProgressNote) onlyTexts() bool {
	hasBoth := n.Transcription != "" && n.Analysis != ""
	transcribing := !n.TranscriptionStartedAt.IsZero() || !n.TranscriptionCompletedAt.IsZero()
	analysing := !n.AnalysisStartedAt.IsZero() || !n.AnalysisCompletedAt.IsZero()
	return hasBoth && !n.Has.any() && !transcribing && !analysing
}

// String returns the stage's name in lower case.
func (s Stage) String() string {
	return cmp.Or(stageNames[s], "Stage("+strconv.Itoa(int(s))+")")
}

// MarshalText returns the stage's name, "unset" for zero. A value that is no stage is [ErrInvalidArgument].
func (s Stage) MarshalText() ([]byte, error) {
	if name := stageNames[s]; name != "" {
		return []byte(name), nil
	}
	return nil, invalid("Stage", "%d is not a stage", int(s))
}

// UnmarshalText reads a stage's name; an empty text is zero. Any other text is [ErrInvalidArgument].
func (s *Stage) UnmarshalText(text []byte) error {
	for stage, name := range stageNames {
		if name == string(text) || stage == 0 && len(text) == 0 {
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

// marshalHas writes the flags that were sent; nil if there are none, nor anything beside them.
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

// LogValue lists what may be logged of the flags.
func (c Completion) LogValue() slog.Value { return slog.GroupValue(c.attrs()...) }

func (c *Completion) attrs() []slog.Attr {
	return []slog.Attr{
		slog.Bool("transcription", c.Transcription), slog.Bool("content", c.Content), slog.Bool("signed", c.Signed),
	}
}

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (c Completion) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.Completion", c) }

// LogValue lists what may be logged of the note.
func (n ProgressNote) LogValue() slog.Value {
	attrs := []slog.Attr{slog.Int64("id", n.ID), slog.String("stage", n.Stage().String())}
	return slog.GroupValue(append(attrs, n.Has.attrs()...)...)
}

// Format prints what LogValue lists for every verb.
func (n ProgressNote) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.ProgressNote", n) }

// LogValue lists what may be logged of the template.
func (t Template) LogValue() slog.Value { return slog.GroupValue(slog.Int64("id", t.ID)) }

// Format prints what LogValue lists for every verb.
func (t Template) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.Template", t) }

// LogValue lists what may be logged of the recording's metadata.
func (a AudioInfo) LogValue() slog.Value {
	return slog.GroupValue(slog.Float64("duration", a.Duration), slog.Int64("bitrate", a.Bitrate), slog.Int64("size", a.Size))
}

// Format prints what LogValue lists for every verb.
func (a AudioInfo) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.AudioInfo", a) }

// Object is a JSON value whose fields the service does not describe, such as a note's patient. It keeps what came, in
// compact form, and encodes it back. The zero value stands for an absent or null one.
type Object struct{ raw string }

// ID returns the object's id, from its field id or patient_id, and whether it has one and only one. The object may be a
// bare number too, or hold the record in "data" or in a list.
func (o Object) ID() (int64, bool) { return tolerant.ReferenceOf(o.raw, patientID).ID() }

// Decode stores the object in v, as [json.Unmarshal] does. An absent one, or [] for an empty one, leaves v unchanged.
func (o Object) Decode(v any) error {
	if o.IsZero() || o.raw == "[]" {
		return nil
	}
	return json.Unmarshal([]byte(o.raw), v)
}

// IsZero reports whether the object was absent or null.
func (o Object) IsZero() bool { return o.raw == "" }

// MarshalJSON returns the object as it came; null for an absent one.
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

// LogValue lists what may be logged: whether there is an object. Its id may be a patient's.
func (o Object) LogValue() slog.Value { return slog.GroupValue(slog.Bool("present", !o.IsZero())) }

// Format prints what LogValue lists for every verb.
func (o Object) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.Object", o) }
