package clinicaldoctest

import (
	"cmp"
	"net/http"
	"slices"
	"time"
)

// Variant sets how the server behaves where the service's description is silent. The zero value of each field is
// the likeliest reading, so a literal names only what differs: Variant{Pagination: PaginationCursor}.
type Variant struct {
	// Name labels the variant in test output and on command lines.
	Name string

	// BasePath is put before every API path, as "/api" would be; slashes around
	// it do not matter.
	BasePath string

	// Query holds the names of the list's query parameters.
	Query QueryNames
	// RefuseUnknownQuery answers 400 to a query parameter that is not in Query. By default it is ignored, so a
	// wrong patient filter lists every patient's notes.
	RefuseUnknownQuery bool
	// RefuseUnknownFilter answers 400 to such a parameter only if it is a
	// "filter[...]".
	RefuseUnknownFilter bool
	// RefuseEmptyQuery answers 422 to a filter, page size or sort without a
	// value; by default it is as if it were not there.
	RefuseEmptyQuery bool
	// OldestFirst makes the list start with the oldest note when no sort is asked for.
	OldestFirst bool
	// DefaultPageSize is used when no page size is asked for; 0 is 15.
	DefaultPageSize int
	// ClampPageSize moves a page size outside 1 to 100 to the nearest bound
	// instead of refusing it with 422.
	ClampPageSize bool
	// Pagination is the shape of the list's body.
	Pagination Pagination
	// LinksKeepQuery carries filter, page size and sort over into the page
	// links; by default they hold the page or cursor alone.
	LinksKeepQuery bool
	// LinkOrigin replaces scheme and host in the page links, as happens behind
	// a proxy the application does not know about.
	LinkOrigin string
	// PageSizeAsString gives the page size back as a JSON string.
	PageSizeAsString bool

	// ListTexts says how much of a note's texts a list's rows show.
	ListTexts ListTexts

	// WrapObjects puts a single note or user inside a "data" member.
	WrapObjects bool
	// Empty says how a field without a value appears.
	Empty Empty
	// ExtraFields adds members the description does not know to notes, users,
	// token records and confirmations.
	ExtraFields bool
	// Times is the format of every timestamp.
	Times TimeFormat
	// NumbersAsStrings gives the numbers of audio and page metadata as JSON strings.
	NumbersAsStrings bool
	// ClockOffset is how far the service's clock is off, in what it dates and
	// in its Date header alike.
	ClockOffset time.Duration
	// DateOffset is an additional error of the Date header, as when a proxy with its own clock writes it.
	DateOffset time.Duration
	// Patient says how a note names its patient.
	Patient PatientShape
	// FrameworkTexts gives error messages as the web framework words them
	// instead of as the description does.
	FrameworkTexts bool
	// NoRequestID sends no X-Request-Id.
	NoRequestID bool
	// Compress sends JSON as gzip to clients that take it.
	Compress bool
	// AlwaysJSON gives JSON errors to clients that did not ask for JSON. By
	// default they get HTML and, for 401 and 422, a redirect.
	AlwaysJSON bool

	// CreateStatus answers a creation; 0 is 201.
	CreateStatus int
	// DeleteStatus answers a deletion or revocation; 0 is 200. With 204 there is no body.
	DeleteStatus int
	// IncompleteSignStatus refuses to sign an unfinished note; 0 is 422.
	IncompleteSignStatus int
	// IncompleteSignGeneric words that refusal without naming its reason.
	IncompleteSignGeneric bool
	// SignedChangeStatus refuses to update or delete a signed note; 0 allows it.
	SignedChangeStatus int

	// OptionalParts names the parts of a creation that may be missing.
	OptionalParts []string
	// PatientsMustExist refuses a patient that was not seeded; by default any
	// positive id is a patient.
	PatientsMustExist bool
	// PromptsMustExist refuses a prompt that is not among the first nine and was
	// not seeded; by default any positive id is a prompt.
	PromptsMustExist bool
	// ReuseIDs gives a new note the id of the note that was deleted last, as a
	// database may that keeps no count; by default no id is used twice.
	ReuseIDs bool
	// NameLength cuts a name to that many characters; 0 refuses one of more than 255.
	NameLength int
	// DecomposeNames stores letters with a mark as a letter and a mark, in
	// Unicode's form NFD.
	DecomposeNames bool
	// RefuseMalformedBody answers 400 to an update whose body is neither a JSON object nor a form. By default such
	// a body counts as empty.
	RefuseMalformedBody bool
	// RefuseEmptyText answers 422 to an update that empties a transcription or
	// an analysis; by default it clears it.
	RefuseEmptyText bool
	// KeepOuterSpace stores text with the white space around it, which is
	// trimmed by default.
	KeepOuterSpace bool

	// RateLimit is the number of requests a user may make per RateWindow. If zero, there is no limit.
	RateLimit int
	// RateWindow is the length of the rate limit's window; 0 is a minute.
	RateWindow time.Duration
	// MaxUploadSize bounds the body of a creation in bytes; 0 is 4 GiB.
	MaxUploadSize int64
	// TooLarge says how a larger body is refused.
	TooLarge TooLarge
	// Audio says what the storage makes of a recording.
	Audio StoredAudio
	// AudioRetention is how long audio is kept; 0 is 30 days.
	AudioRetention time.Duration
	// AudioURLLifetime is how long a signed address works, in whole seconds. If zero, it defaults to five minutes.
	AudioURLLifetime time.Duration
	// LocalDisk signs audio addresses as an application that stores files on
	// its own disk does: on the API's origin, with "expires" and "signature",
	// without ranges, and 404 once expired.
	LocalDisk bool
}

// QueryNames are the names of the list's query parameters. An empty name means
// the default: patient_id, per_page, sort, page, cursor.
type QueryNames struct{ PatientID, PerPage, Sort, Page, Cursor string }

// Pagination is the shape of a list's body.
type Pagination int

// The shapes of a list's body.
const (
	PaginationLengthAware   Pagination = iota // links and meta with the number of pages
	PaginationSimple                          // links and meta without a total
	PaginationCursor                          // the next cursor in meta and in links
	PaginationCursorInLinks                   // the next cursor inside links.next alone
	PaginationFlat                            // next_page_url and the like beside data
	PaginationBare                            // the page parameter counts, and data is all that is answered
	PaginationNone                            // every note at once, whatever page is asked for
)

// Empty says how a field without a value appears.
type Empty int

// The ways in which a field without a value appears.
const (
	EmptyAbsent Empty = iota // it is left out
	EmptyNull                // it is null
	EmptyArray               // it is [] where an object is meant, and null elsewhere
)

// TimeFormat is the format of timestamps.
type TimeFormat int

// The formats of timestamps.
const (
	TimeMicroseconds TimeFormat = iota // 2024-05-01T10:11:12.345678Z
	TimeWholeSeconds                   // 2024-05-01T10:11:12.000000Z: the fraction is lost
	TimeOffset                         // 2024-05-01T12:11:12.345678+02:00
	TimeNoZone                         // 2024-05-01 10:11:12, meant as UTC
	TimeLocalNoZone                    // 2024-05-01 12:11:12, meant as a place two hours ahead of UTC
)

// wholeSeconds tells that the service's database knows no fractions of seconds,
// so that rows of the same second come in no order that was asked for.
func (f TimeFormat) wholeSeconds() bool {
	return f == TimeWholeSeconds || f == TimeNoZone || f == TimeLocalNoZone
}

// ListTexts says how much of a note's texts a list's rows show.
type ListTexts int

// How much of a note's texts a list's rows show.
const (
	ListTextsWhole   ListTexts = iota // as the note itself shows them
	ListTextsExcerpt                  // the first 100 characters and "..."
	ListTextsAbsent                   // no transcription and no analysis
)

// StoredAudio says what the storage makes of a recording.
type StoredAudio int

// Ways in which storage changes a recording.
const (
	AudioAsSent    StoredAudio = iota // it is kept as it is
	AudioReencoded                    // it is changed; a note tells the new size
	// AudioReencodedUntold changes it, but the note reports the size that was sent. Only DownloadParams.IgnoreSize
	// downloads it.
	AudioReencodedUntold
)

// PatientShape says how a note names its patient.
type PatientShape int

// How a note names its patient.
const (
	PatientObject  PatientShape = iota // by a patient object with its id
	PatientID                          // by a patient_id beside its other fields
	PatientUnnamed                     // not at all
)

// TooLarge says how an upload above the size limit is refused.
type TooLarge int

// How an upload above the size limit is refused.
const (
	TooLargeJSON  TooLarge = iota // 413 with an Error body
	TooLargeHTML                  // 413 with the HTML page of a proxy in front
	TooLargeField                 // 422 with a message for the file part
)

// clone returns a variant that shares no memory with v.
func (v Variant) clone() Variant {
	v.OptionalParts = slices.Clone(v.OptionalParts)
	return v
}

// withDefaults fills what the zero value leaves open.
func (v Variant) withDefaults() Variant {
	v.Query.PatientID = cmp.Or(v.Query.PatientID, "patient_id")
	v.Query.PerPage = cmp.Or(v.Query.PerPage, "per_page")
	v.Query.Sort = cmp.Or(v.Query.Sort, "sort")
	v.Query.Page = cmp.Or(v.Query.Page, "page")
	v.Query.Cursor = cmp.Or(v.Query.Cursor, "cursor")
	v.DefaultPageSize = cmp.Or(v.DefaultPageSize, 15)
	v.CreateStatus = cmp.Or(v.CreateStatus, http.StatusCreated)
	v.DeleteStatus = cmp.Or(v.DeleteStatus, http.StatusOK)
	v.IncompleteSignStatus = cmp.Or(v.IncompleteSignStatus, http.StatusUnprocessableEntity)
	v.RateWindow = cmp.Or(v.RateWindow, time.Minute)
	v.MaxUploadSize = cmp.Or(v.MaxUploadSize, 4<<30)
	v.AudioRetention = cmp.Or(v.AudioRetention, 30*24*time.Hour)
	v.AudioURLLifetime = cmp.Or(v.AudioURLLifetime, 5*time.Minute)
	return v
}

// Variants returns named variants that together use every switch, the default first. Each is complete: its query
// names and limits are filled in. None of them has [AudioReencodedUntold], because no download could be verified
// with it.
func Variants() []Variant {
	variants := []Variant{
		{Name: "default"},
		{
			Name: "framework", WrapObjects: true, FrameworkTexts: true, Empty: EmptyNull, ExtraFields: true,
			Times: TimeWholeSeconds, LinksKeepQuery: true, DeleteStatus: http.StatusNoContent, RateLimit: 100_000,
			IncompleteSignStatus: http.StatusForbidden, IncompleteSignGeneric: true,
			SignedChangeStatus: http.StatusForbidden, TooLarge: TooLargeHTML,
		},
		{
			Name: "simple", Pagination: PaginationSimple, PageSizeAsString: true, OldestFirst: true,
			ClampPageSize: true, CreateStatus: http.StatusOK, Empty: EmptyArray, Times: TimeOffset,
			IncompleteSignStatus: http.StatusConflict, SignedChangeStatus: http.StatusConflict,
			OptionalParts: []string{"name", "prompt_id"}, MaxUploadSize: 64 << 20,
		},
		{
			Name: "cursor", Pagination: PaginationCursor, DefaultPageSize: 5, Patient: PatientID,
			Times: TimeNoZone, NumbersAsStrings: true, IncompleteSignStatus: http.StatusBadRequest,
			KeepOuterSpace: true, LinkOrigin: "http://internal.example.test",
		},
		{
			Name: "cursor-in-links", Pagination: PaginationCursorInLinks, WrapObjects: true, Empty: EmptyNull,
			IncompleteSignStatus: http.StatusLocked, IncompleteSignGeneric: true, RefuseEmptyText: true,
			Query: QueryNames{Cursor: "page[cursor]", PerPage: "page[size]", PatientID: "filter[patient_id]"},
		},
		{
			Name: "flat", Pagination: PaginationFlat, BasePath: "/api", ExtraFields: true, LocalDisk: true,
			RefuseUnknownQuery: true, TooLarge: TooLargeField, AudioURLLifetime: time.Minute,
			Query: QueryNames{PatientID: "patient", PerPage: "limit", Sort: "order", Page: "page[number]"},
		},
		{
			Name: "bare", Pagination: PaginationBare, AlwaysJSON: true, PatientsMustExist: true,
			AudioRetention: 24 * time.Hour, CreateStatus: http.StatusAccepted,
			RateLimit: 100_000, RateWindow: time.Hour,
		},
		{
			Name: "drifting", ClockOffset: 40 * time.Second, DateOffset: -2 * time.Second, ListTexts: ListTextsExcerpt,
			Times: TimeLocalNoZone, PromptsMustExist: true, Compress: true,
		},
		{
			Name: "altering", NameLength: 60, DecomposeNames: true, Audio: AudioReencoded, ListTexts: ListTextsAbsent,
			NoRequestID: true, RefuseUnknownFilter: true, RefuseEmptyQuery: true, RefuseMalformedBody: true,
			ReuseIDs: true,
		},
		{Name: "everything-at-once", Pagination: PaginationNone, Empty: EmptyArray, Patient: PatientUnnamed},
	}
	for i := range variants {
		variants[i] = variants[i].withDefaults()
	}
	return variants
}

// VariantNamed returns the variant of [Variants] with that name.
func VariantNamed(name string) (Variant, bool) {
	for _, variant := range Variants() {
		if variant.Name == name {
			return variant, true
		}
	}
	return Variant{}, false
}
