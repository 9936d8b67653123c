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

	// BasePath is a prefix of every API path, such as "/api". Slashes around it do not matter.
	BasePath string

	// Query holds the names of the list's query parameters.
	Query QueryNames
	// RefuseUnknownQuery responds with 400 to a query parameter that is not in Query. By default it is ignored, so a
	// wrong patient filter lists every patient's notes.
	RefuseUnknownQuery bool
	// RefuseUnknownFilter responds with 400 to such a parameter only if it is a "filter[...]".
	RefuseUnknownFilter bool
	// RefuseEmptyQuery responds with 422 to a filter, page size or sort without a value. By default such a parameter
	// is ignored.
	RefuseEmptyQuery bool
	// OldestFirst makes the list start with the oldest note if the request has no sort.
	OldestFirst bool
	// DefaultPageSize is the page size if the request has none. If zero, it defaults to 15.
	DefaultPageSize int
	// ClampPageSize moves a page size outside 1 to 100 to the nearest bound
	// instead of refusing it with 422.
	ClampPageSize bool
	// Pagination is the shape of the list's body.
	Pagination Pagination
	// LinksKeepQuery puts filter, page size and sort into the page links. By default the links contain only the page
	// or cursor.
	LinksKeepQuery bool
	// LinkOrigin replaces scheme and host in the page links, as behind a proxy that the application does not know.
	LinkOrigin string
	// PageSizeAsString returns the page size as a JSON string.
	PageSizeAsString bool

	// ListTexts sets how much of a note's texts the rows of a list contain.
	ListTexts ListTexts

	// WrapObjects puts a single note or user into a member "data".
	WrapObjects bool
	// Empty sets how a field without a value appears.
	Empty Empty
	// ExtraFields adds undescribed members to notes, users, token records and confirmations.
	ExtraFields bool
	// Times is the format of every timestamp.
	Times TimeFormat
	// NumbersAsStrings returns the numbers of audio and page metadata as JSON strings.
	NumbersAsStrings bool
	// ClockOffset is how far the service's clock is off, both in timestamps and in the Date header.
	ClockOffset time.Duration
	// DateOffset is an additional error of the Date header, as when a proxy with its own clock writes it.
	DateOffset time.Duration
	// Patient sets how a note names its patient.
	Patient PatientShape
	// FrameworkTexts uses the web framework's error messages instead of those of the description.
	FrameworkTexts bool
	// NoRequestID sends no X-Request-Id.
	NoRequestID bool
	// Compress sends JSON as gzip to clients that accept it.
	Compress bool
	// AlwaysJSON sends JSON errors also to clients that did not ask for JSON. By default they get HTML or, for 401 and
	// 422, a redirect.
	AlwaysJSON bool

	// CreateStatus is the status of the response to a create. If zero, it defaults to 201.
	CreateStatus int
	// DeleteStatus is the status of the response to a deletion or revocation. If zero, it defaults to 200. With 204
	// there is no body.
	DeleteStatus int
	// IncompleteSignStatus is the status with which the service refuses to sign an incomplete note. If zero, it
	// defaults to 422.
	IncompleteSignStatus int
	// IncompleteSignGeneric leaves the reason out of that refusal's message.
	IncompleteSignGeneric bool
	// SignedChangeStatus is the status with which the service refuses to update or delete a signed note. If zero, it
	// allows both.
	SignedChangeStatus int

	// OptionalParts lists the parts of a create that may be missing.
	OptionalParts []string
	// PatientsMustExist refuses a patient that was not added. By default any positive ID is a patient.
	PatientsMustExist bool
	// PromptsMustExist refuses a prompt that was not added and is not one of the first nine. By default any positive
	// ID is a prompt.
	PromptsMustExist bool
	// ReuseIDs gives a new note the ID of the note that was deleted last, as a database without a counter may do. By
	// default no ID is used twice.
	ReuseIDs bool
	// NameLength cuts a name to that many characters. If zero, a name of more than 255 is refused.
	NameLength int
	// DecomposeNames stores letters with a mark as a letter and a mark, in
	// Unicode's form NFD.
	DecomposeNames bool
	// RefuseMalformedBody responds with 400 to an update whose body is neither a JSON object nor a form. By default
	// such a body counts as empty.
	RefuseMalformedBody bool
	// RefuseEmptyText responds with 422 to an update that empties a transcription or an analysis. By default the text
	// becomes empty.
	RefuseEmptyText bool
	// KeepOuterSpace stores a text with the white space around it. By default that is trimmed.
	KeepOuterSpace bool

	// RateLimit is the number of requests a user may make per RateWindow. If zero, there is no limit.
	RateLimit int
	// RateWindow is the length of the rate limit's window. If zero, it defaults to one minute.
	RateWindow time.Duration
	// MaxUploadSize is the largest body of a create in bytes. If zero, it defaults to 4 GiB.
	MaxUploadSize int64
	// TooLarge sets how a larger body is refused.
	TooLarge TooLarge
	// Audio sets whether and how storage changes a recording.
	Audio StoredAudio
	// AudioRetention is how long audio is kept. If zero, it defaults to 30 days.
	AudioRetention time.Duration
	// AudioURLLifetime is how long a signed address works, in whole seconds. If zero, it defaults to five minutes.
	AudioURLLifetime time.Duration
	// LocalDisk serves audio as an application does that stores files on its own disk. The URLs are on the API's
	// origin, with "expires" and "signature". Ranges are not supported, and an expired URL gets a 404.
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
	PaginationCursorInLinks                   // the next cursor only inside links.next
	PaginationFlat                            // next_page_url and similar members next to data
	PaginationBare                            // pages have numbers, and the body contains only data
	PaginationNone                            // every note in one response, whatever page is requested
)

// Empty is how a field without a value appears.
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

// wholeSeconds reports whether the service's database stores no fractions of seconds. Rows of the same second then come
// in no particular order.
func (f TimeFormat) wholeSeconds() bool {
	return f == TimeWholeSeconds || f == TimeNoZone || f == TimeLocalNoZone
}

// ListTexts is how much of a note's texts the rows of a list contain.
type ListTexts int

// The values of [ListTexts].
const (
	ListTextsWhole   ListTexts = iota // as the note itself shows them
	ListTextsExcerpt                  // the first 100 characters and "..."
	ListTextsAbsent                   // no transcription and no analysis
)

// StoredAudio is whether and how storage changes a recording.
type StoredAudio int

// The values of [StoredAudio].
const (
	AudioAsSent    StoredAudio = iota // it is kept as it is
	AudioReencoded                    // it is changed, and a note reports the new size
	// AudioReencodedUntold changes it, but the note reports the size that was sent. Only DownloadParams.IgnoreSize
	// downloads it.
	AudioReencodedUntold
)

// PatientShape is how a note names its patient.
type PatientShape int

// The values of [PatientShape].
const (
	PatientObject  PatientShape = iota // by a patient object with its id
	PatientID                          // by a member patient_id
	PatientUnnamed                     // not at all
)

// TooLarge is how an upload above the size limit is refused.
type TooLarge int

// The values of [TooLarge].
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
