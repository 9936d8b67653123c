package clinicaldoc

import (
	"fmt"
	"log/slog"
	"net/url"
	"strconv"

	"github.com/google/go-querystring/query"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/tolerant"
)

// Page is one page of a list.
type Page[T any] struct {
	Items []T      // nil when the page is empty
	Meta  PageMeta // what the service said of the page

	nextURL string // as the service gave it; never followed
	told    bool   // the service said whether a page follows
	more    bool
}

// PageMeta is what the service said of a page; a field is zero where it said nothing.
type PageMeta struct {
	CurrentPage int
	LastPage    int
	PerPage     int
	Total       int
	NextCursor  string // for ListNotesParams.Cursor

	// PerPageIgnored tells that the page does not have the size asked for: the service limits it, or knows the parameter
	// by another name (see WithQueryNames).
	PerPageIgnored bool
}

// HasNext reports whether another page may follow: the one at Meta.NextCursor if that is set, else the next number. When
// the service tells nothing of it, only an empty page is known to be the last.
func (p *Page[T]) HasNext() bool { return p.more }

// Sort is the order of a list.
type Sort string

// The orders the service knows. Its default is not described.
const (
	SortLatest Sort = "latest"
	SortOldest Sort = "oldest"
)

// ListNotesParams selects and orders notes. Zero fields are not sent.
type ListNotesParams struct {
	PatientID int64  `url:"patient_id,omitempty"` // only this patient's notes; every row is checked
	PerPage   int    `url:"per_page,omitempty"`   // 1 to 100
	Sort      Sort   `url:"sort,omitempty"`
	Page      int    `url:"page,omitempty"`   // from 1; not with Cursor
	Cursor    string `url:"cursor,omitempty"` // from PageMeta.NextCursor

	// Prefetch is how many pages All requests ahead of the one being read, at most, up to 64; 0 requests each when it is
	// needed. More than one at a time needs a service that tells its last page.
	Prefetch int `url:"-"`
	// TrustPatientFilter accepts rows that name no patient although PatientID is set. Rows of another patient are refused
	// all the same.
	TrustPatientFilter bool `url:"-"`
}

const (
	maxPerPage  = 100
	maxPrefetch = 64
)

// query checks the params and gives them the service's names.
func (p ListNotesParams) query(names QueryNames) (url.Values, error) {
	switch {
	case p.PatientID < 0:
		return nil, invalid("Notes.List: PatientID", "must not be negative")
	case p.PerPage < 0 || p.PerPage > maxPerPage:
		return nil, invalid("Notes.List: PerPage", "%d is outside 1 to %d", p.PerPage, maxPerPage)
	case p.Sort != "" && p.Sort != SortLatest && p.Sort != SortOldest:
		return nil, invalid("Notes.List: Sort", "is neither SortLatest nor SortOldest")
	case p.Page < 0:
		return nil, invalid("Notes.List: Page", "must not be negative")
	case p.Page > 0 && p.Cursor != "":
		return nil, invalid("Notes.List: Page", "cannot be combined with Cursor")
	case p.Prefetch < 0 || p.Prefetch > maxPrefetch:
		return nil, invalid("Notes.List: Prefetch", "%d is outside 0 to %d", p.Prefetch, maxPrefetch)
	}
	defaults, err := query.Values(p)
	if err != nil {
		return nil, err
	}
	named := url.Values{}
	for from, to := range map[string]string{
		defaultQueryNames.PatientID: names.PatientID, defaultQueryNames.PerPage: names.PerPage, defaultQueryNames.Sort: names.Sort,
		defaultQueryNames.Page: names.Page, defaultQueryNames.Cursor: names.Cursor,
	} {
		if values := defaults[from]; values != nil {
			named[to] = values
		}
	}
	return named, nil
}

var (
	errOtherPage = safeError("it is another page than the one asked for; does WithQueryNames name the page parameter?")
	errNoRows    = safeError("it holds no list")
)

// check holds a page against what was asked for, and notes a page size that was ignored.
func (p ListNotesParams) check(page *Page[ProgressNote]) error {
	current := page.Meta.CurrentPage
	if p.Cursor == "" && current > 0 && current != max(p.Page, 1) {
		return unexpectedPage(errOtherPage)
	}
	page.Meta.PerPageIgnored = p.PerPage > 0 &&
		(page.Meta.PerPage > 0 && page.Meta.PerPage != p.PerPage || len(page.Items) > p.PerPage)
	for i := range page.Items {
		if err := p.checkPatient(&page.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p ListNotesParams) checkPatient(note *ProgressNote) error {
	if p.PatientID == 0 {
		return nil
	}
	switch match := note.comparePatient(p.PatientID); {
	case match == namesThis, match == namesNone && p.TrustPatientFilter:
		return nil
	case match == namesOther:
		return mismatch("the service returned a note of another patient, or of one that cannot be told; does WithQueryNames name the patient parameter?")
	}
	return mismatch("the service returned a note that names no patient, so that nothing can be verified; TrustPatientFilter accepts such rows")
}

// sentinelError gives a sentinel a text of its own.
type sentinelError struct {
	safeError
	sentinel error
}

func (e sentinelError) Unwrap() error { return e.sentinel }

func mismatch(detail safeError) error       { return sentinelError{detail, ErrPatientMismatch} }
func unexpectedPage(detail safeError) error { return sentinelError{detail, ErrUnexpectedResponse} }

// decodePage reads a list in any of the forms a Laravel service gives: rows in "data" with links and meta, or with the
// meta fields beside them, or alone; or a bare array.
// The size is the number of rows to make room for.
func decodePage[T any](answer []byte, names QueryNames, size int, fill func(*T, *jsonscan.Decoder), id func(*T) int64) (*Page[T], []*jsonscan.TypeError, error) {
	if len(answer) == 0 {
		return nil, nil, tolerant.ErrEmpty
	}
	page := &Page[T]{}
	d := jsonscan.New(answer)
	found := d.Kind() == jsonscan.Array
	if found {
		page.Items = tolerant.Rows(d, page.Items, size, fill, id)
	} else {
		for key := range d.Fields() {
			switch {
			case string(key) == "data":
				found = true
				page.Items = tolerant.Rows(d, page.Items, size, fill, id)
			case string(key) == "meta" && d.Kind() == jsonscan.Object:
				for key := range d.Fields() {
					page.fillMeta(string(key), d)
				}
			case string(key) == "links" && d.Kind() == jsonscan.Object:
				for key := range d.Fields() {
					if string(key) == "next" {
						page.fillNextURL(d)
					}
				}
			default:
				page.fillMeta(string(key), d)
			}
		}
	}
	if err := d.End(); err != nil {
		return nil, nil, err
	}
	if !found {
		return nil, nil, errNoRows
	}
	page.findNext(names)
	return page, d.Forgiven(), nil
}

// fillMeta reads one field of the meta data. Whatever is not of the expected kind counts as not told.
func (p *Page[T]) fillMeta(key string, d *jsonscan.Decoder) {
	switch key {
	case "current_page":
		p.Meta.CurrentPage = int(tolerant.IntegerOrZero(d))
	case "last_page":
		p.Meta.LastPage = int(tolerant.IntegerOrZero(d))
	case "per_page":
		p.Meta.PerPage = int(tolerant.IntegerOrZero(d))
	case "total":
		p.Meta.Total = int(tolerant.IntegerOrZero(d))
	case "next_cursor":
		p.told = true
		if d.Kind() == jsonscan.String {
			p.Meta.NextCursor = d.Text()
		}
	case "next_page_url":
		p.fillNextURL(d)
	}
}

func (p *Page[T]) fillNextURL(d *jsonscan.Decoder) {
	p.told = true
	if d.Kind() == jsonscan.String {
		p.nextURL = d.Text()
	}
}

// findNext finds out whether a page follows. Of the service's own link only the cursor's value is taken, never the
// address.
func (p *Page[T]) findNext(names QueryNames) {
	if p.Meta.NextCursor == "" {
		p.Meta.NextCursor = linkParameter(p.nextURL, names.Cursor)
	}
	switch {
	case p.Meta.NextCursor != "":
		p.more = true
	case p.Meta.CurrentPage > 0 && p.Meta.LastPage > 0:
		p.told = true
		p.more = p.Meta.CurrentPage < p.Meta.LastPage
	case p.told:
		p.more = p.nextURL != ""
	default:
		p.more = len(p.Items) > 0
	}
}

func linkParameter(link, name string) string {
	u, err := url.Parse(link)
	if err != nil {
		return ""
	}
	return u.Query().Get(name)
}

// LogValue lists what may be logged of the page: how many rows it has and where it stands.
func (p Page[T]) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("items", len(p.Items)), slog.Any("meta", p.Meta))
}

// Format prints what LogValue lists for every verb.
func (p Page[T]) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.Page", p) }

// LogValue lists the numbers; a cursor may encode a row's data.
func (m PageMeta) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int("current_page", m.CurrentPage), slog.Int("last_page", m.LastPage),
		slog.Int("per_page", m.PerPage), slog.Int("total", m.Total), slog.Bool("per_page_ignored", m.PerPageIgnored),
	)
}

// Format prints what LogValue lists for every verb.
func (m PageMeta) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.PageMeta", m) }

// LogValue lists what may be logged of the params: whether a patient is named, not which.
func (p ListNotesParams) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Bool("patient", p.PatientID != 0), slog.String("sort", string(p.Sort)),
		slog.String("page", strconv.Itoa(p.Page)), slog.Int("per_page", p.PerPage), slog.Int("prefetch", p.Prefetch),
	)
}

// Format prints what LogValue lists for every verb.
func (p ListNotesParams) Format(s fmt.State, _ rune) {
	redact.Format(s, "clinicaldoc.ListNotesParams", p)
}
