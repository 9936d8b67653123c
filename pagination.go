package clinicaldoc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"reflect"
	"slices"
	"strconv"

	"github.com/google/go-querystring/query"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/list"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/tolerant"
)

// Page is one page of a list.
type Page[T any] struct {
	Items []T      // nil when the page is empty
	Meta  PageMeta // what the service said of the page

	nextURL    string // as the service gave it; never followed
	saysIfMore bool   // the service said whether a page follows
	more       bool
}

// PageMeta is what the service said of a page; a field is zero where it said nothing.
type PageMeta struct {
	CurrentPage int
	LastPage    int
	PerPage     int
	Total       int
	NextCursor  string // for ListNotesParams.Cursor

	// Extra holds all other members of the response except the rows: those of meta and links, and those next to the rows.
	// It is one flat object, with members such as from, to, prev_cursor, first and last.
	Extra Object `json:",omitzero"`

	// PerPageIgnored reports that the page does not have the requested size: the service limits it, or knows the parameter
	// by another name (see WithQueryNames).
	PerPageIgnored bool
}

// HasNext reports whether another page may follow: the one at Meta.NextCursor if that is set, else the next number. When
// the service says nothing of it, only an empty page is known to be the last.
func (p *Page[T]) HasNext() bool { return p.more }

const (
	maxPerPage  = list.MaxSize
	maxPrefetch = 64
	forAll      = "is for Notes.All; List requests one page"
)

// listParams is ListNotesParams with these names in tags, which is where go-querystring takes them from.
func (n QueryNames) listParams() reflect.Type {
	fields := reflect.VisibleFields(reflect.TypeFor[ListNotesParams]())
	for i := range fields {
		tag := "-"
		if name := reflect.ValueOf(n).FieldByName(fields[i].Name); name.IsValid() {
			tag = name.String() + ",omitempty"
		}
		fields[i].Tag = reflect.StructTag("url:" + strconv.Quote(tag))
	}
	return reflect.StructOf(fields)
}

// query checks the params and encodes them under the names that the tags of named give.
func (p ListNotesParams) query(named reflect.Type) (url.Values, error) {
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
	case p.Prefetch != 0:
		return nil, invalid("Notes.List: Prefetch", forAll)
	case p.Verify:
		return nil, invalid("Notes.List: Verify", forAll)
	}
	return query.Values(reflect.ValueOf(p).Convert(named).Interface())
}

// decodePage reads a list in any form that a Laravel service gives: a bare array, or rows in "data" or under a name of their own,
// alone, with links and meta, or with the meta fields beside them. It makes room for as many rows as size says.
func decodePage[T any](response []byte, own string, names QueryNames, size int, fill func(*T, *jsonscan.Decoder), id func(*T) int64) (*Page[T], []string, error) {
	page := &Page[T]{}
	found := false
	var others []byte // members without a field
	rows := func(d *jsonscan.Decoder) {
		found = true
		page.Items = tolerant.Rows(d, page.Items, size, fill, id)
	}
	member := func(d *jsonscan.Decoder, group, key string) {
		if described := page.fillMeta(group, key, d); !described {
			others = tolerant.AppendMember(others, d, key)
		}
	}
	warnings, err := tolerant.Decode(response, own, func(d *jsonscan.Decoder) {
		if d.Kind() == jsonscan.Array {
			rows(d)
			return
		}
		for key := range d.Fields() {
			name := pageMember(key)
			kind := d.Kind()
			grouped := name == metaMember || name == linksMember
			switch {
			case name == own, name == "data" && kind == jsonscan.Array:
				rows(d)
			case grouped && kind == jsonscan.Object:
				for key := range d.Fields() {
					member(d, name, pageMember(key))
				}
			case grouped && tolerant.Empty(d):
			default:
				member(d, "", name)
			}
		}
		tolerant.KeepMembers(d, &page.Meta.Extra.raw, others)
	})
	if err == nil && !found {
		err = redact.Text("it holds no list")
	}
	page.findNext(names)
	return page, warnings, err
}

// The objects of a page that are about it.
const metaMember, linksMember = "meta", "links"

// pageMembers are the usual members of a page's objects.
var pageMembers = [...]string{
	"data", metaMember, linksMember, "current_page", "last_page", "per_page", "total", "from", "to", "path",
	"next_cursor", "prev_cursor", "next_page_url", "prev_page_url", "first", "last", "prev", nextMember,
}

const nextMember = "next" // of links

// pageMember is the key as a text, which costs no allocation for the usual members.
func pageMember(key []byte) string {
	for _, name := range pageMembers {
		if string(key) == name {
			return name
		}
	}
	return string(key)
}

// fillMeta reads one field of the meta data, which is in the group of that name, and reports whether all that it says is in a field of Meta. Whatever is
// not of the expected kind counts as absent.
func (p *Page[T]) fillMeta(group, key string, d *jsonscan.Decoder) (described bool) {
	if isLink := group == linksMember; isLink != (key == nextMember) {
		return false
	}
	switch key {
	case "current_page":
		return fillNumber(&p.Meta.CurrentPage, d)
	case "last_page":
		return fillNumber(&p.Meta.LastPage, d)
	case "per_page":
		return fillNumber(&p.Meta.PerPage, d)
	case "total":
		return fillNumber(&p.Meta.Total, d)
	case "next_cursor":
		p.saysIfMore = true
		return fillText(&p.Meta.NextCursor, d)
	case "next_page_url", nextMember:
		p.saysIfMore = true
		isNull := d.Kind() == jsonscan.Null // HasNext says it
		fillText(&p.nextURL, d)
		return isNull
	}
	return false
}

func fillNumber(to *int, d *jsonscan.Decoder) (ok bool) {
	value, ok := tolerant.IntegerIn(d)
	*to = int(value)
	return ok
}

func fillText(to *string, d *jsonscan.Decoder) (ok bool) {
	if d.Kind() == jsonscan.String {
		*to = d.Text()
		return true
	}
	return d.Null()
}

// findNext finds out whether a page follows. Of the service's own link only the cursor's value is taken, never the address.
func (p *Page[T]) findNext(names QueryNames) {
	if p.nextURL != "" && p.Meta.NextCursor == "" {
		p.Meta.NextCursor = cursorIn(p.nextURL, names.Cursor)
	}
	p.more = p.Meta.NextCursor != "" || p.nextURL != "" || !p.saysIfMore && len(p.Items) > 0
	if p.Meta.NextCursor == "" && p.Meta.CurrentPage > 0 && p.Meta.LastPage > 0 {
		p.saysIfMore, p.more = true, p.Meta.CurrentPage < p.Meta.LastPage
	}
}

// cursorIn is the value of the query parameter of that name, empty if there is none.
func cursorIn(link, name string) string {
	parsed, err := url.Parse(link)
	if err != nil {
		return ""
	}
	return parsed.Query().Get(name)
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

// noteList is the one iterator over pages. How pages are walked through, and what is proof of the end, is internal/list's.
type noteList struct {
	service  *NotesService
	params   ListNotesParams
	opts     []CallOption
	response *Response // the caller's; nil: not wanted
}

// fetchedPage is a page with the response it came in: several under way must not share one.
type fetchedPage struct {
	*Page[ProgressNote]
	response Response
}

func (l noteList) all(ctx context.Context, yield noteYield) error {
	if ahead := l.params.Prefetch; ahead < 0 || ahead > maxPrefetch {
		return invalid("Notes.All: Prefetch", "%d is outside 0 to %d", ahead, maxPrefetch)
	}
	rule := list.Complete
	if l.params.Verify {
		rule = list.Verified
	}
	for visit, err := range list.Through(ctx, list.List[fetchedPage]{
		Fetch: l.fetch, Start: list.Position{Number: l.params.Page, Cursor: l.params.Cursor}, Ahead: l.params.Prefetch, Rule: rule,
	}) {
		if l.response != nil {
			*l.response = visit.Value.response
		}
		if err != nil {
			return listError(err)
		}
		for _, i := range visit.New {
			if !yield(&visit.Value.Items[i], nil) {
				return nil
			}
		}
	}
	return nil
}

func (l noteList) fetch(ctx context.Context, at list.Position) (said list.Page, got fetchedPage, err error) {
	params, opts := l.params, l.opts
	params.Page, params.Cursor = at.Number, at.Cursor
	params.Prefetch, params.Verify = 0, false // which are not of one page
	if at.Size > 0 {
		params.PerPage, params.Sort = at.Size, cmp.Or(params.Sort, SortLatest)
	}
	if at.Reversed {
		params.Sort = map[Sort]Sort{SortLatest: SortOldest, SortOldest: SortLatest}[params.Sort]
	}
	if l.response != nil {
		opts = append(slices.Clip(opts), WithResponse(&got.response))
	}
	if got.Page, err = l.service.List(ctx, params, opts...); err != nil {
		return said, got, err
	}
	rows := make([]int64, len(got.Items))
	for i := range rows {
		rows[i] = got.Items[i].ID
	}
	return list.Page{
		Rows: rows, SaysIfMore: got.saysIfMore, More: got.more, Cursor: got.Meta.NextCursor,
		Total: got.Meta.Total, Last: got.Meta.LastPage, Size: got.Meta.PerPage,
	}, got, nil
}

// listError gives a list that cannot be shown to be whole its public error.
func listError(err error) error {
	reason, ok := errors.AsType[*list.IncompleteError](err)
	if !ok {
		return err
	}
	e := &callError{op: listNotes, detail: "the list may be incomplete: " + reason.Error(), causes: []error{ErrIncompleteList, reason.Err}}
	if slices.Contains([]list.Step{list.NoProgress, list.MoreExist, list.NotKnown}, reason.Reason) {
		e.detail += "; does WithQueryNames name the page, size and sort parameters?"
		e.causes = append(e.causes, ErrUnexpectedResponse)
	}
	return e
}

// Collect ranges to the end and returns what came without an error. The errors are returned beside it, joined if there
// are several, of which the text names a few; a list that ended with one is not whole.
func Collect[T any](rows iter.Seq2[*T, error]) ([]*T, error) {
	var all []*T
	var failures joinedErrors
	for row, err := range rows {
		if err == nil {
			all = append(all, row)
		} else {
			failures = append(failures, err)
		}
	}
	if len(failures) > 1 {
		return all, failures
	}
	return all, cmp.Or(failures...)
}

// joinedErrors matches what each of the errors does, as errors.Join has it. Its text stays short however many there are.
type joinedErrors []error

func (e joinedErrors) Error() string {
	const most = 5
	if len(e) <= most+1 {
		return errors.Join(e...).Error()
	}
	return fmt.Sprintf("%v\n%d more errors", errors.Join(e[:most]...), len(e)-most)
}

func (e joinedErrors) Unwrap() []error { return e }
