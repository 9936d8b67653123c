package clinicaldoc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"slices"

	"github.com/google/go-querystring/query"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/list"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/tolerant"
)

// Page is one page of a list.
type Page[T any] struct {
	Items []T      // nil when the page is empty
	Meta  PageMeta // what the service reports about the page

	nextURL     string // as the service sent it; never followed
	namesNext   bool   // the service names a following page, perhaps in a form that cannot be read
	isPageZero  bool   // the service reports 0 as the number of this page
	fromZero    bool   // if this is the first page: the service counts pages from 0
	saysIfMore  bool   // the service reports whether a page follows
	mayHaveNext bool   // a page follows, or may follow
}

// PageMeta is what the service reports about a page. A field is zero if the service does not report it.
type PageMeta struct {
	CurrentPage int
	LastPage    int
	PerPage     int
	Total       int
	NextCursor  string // for ListNotesParams.Cursor

	// Extra holds all other members of the response except the rows: those of meta and links, and those next to the
	// rows. It is one flat object, with members such as from, to, prev_cursor, first and last.
	Extra Object `json:",omitzero"`

	// PerPageIgnored reports that the page does not have the requested size: the service limits it, or knows the
	// parameter by another name (see WithQueryNames).
	PerPageIgnored bool
}

// HasNext reports whether another page may follow: the one at Meta.NextCursor if that is set, otherwise the one with
// the next number. If the service does not report it, HasNext is false only for an empty page. JSON does not keep it,
// so it is false for a page that was decoded.
func (p *Page[T]) HasNext() bool { return p.mayHaveNext }

const (
	maxPerPage  = list.MaxSize
	maxPrefetch = 64
)

// listing is a list endpoint with rows of type T, and what a call asks of it. The methods List and All of a service are
// its page and rows.
type listing[T any] struct {
	client    *Client
	op        *operation // requests one page
	allName   string     // the name of the method that ranges over the rows of all pages
	asked     listQuery
	fill      func(*scope, *T, *jsonscan.Decoder)
	id        func(*T) int64
	checkRows func(rows []T) error // compares them with what was asked for; nil if they are not checked
}

// listQuery are the parameters of lists. The tags are the default names; see QueryNames.
type listQuery struct {
	PatientID int64  `url:"patient_id,omitempty"`
	PerPage   int    `url:"per_page,omitempty"`
	Sort      Sort   `url:"sort,omitempty"`
	Page      int    `url:"page,omitempty"`
	Cursor    string `url:"cursor,omitempty"`
	Prefetch  int    `url:"-"`
	Verify    bool   `url:"-"`
}

// page requests one page.
func (l *listing[T]) page(ctx context.Context, opts []CallOption) (*Page[T], error) {
	return run(ctx, l.client, l.op.name, opts, func(ctx context.Context, call *scope) (*Page[T], error) {
		if err := l.validate(); err != nil {
			return nil, err
		}
		query, err := l.asked.encode(l.client.names)
		if err != nil {
			return nil, err
		}
		for key, values := range call.options.query {
			query[key] = append(query[key], values...)
		}
		call.options.query = query
		page, err := do(ctx, call, l.op, l.op.route, func(response []byte) (*Page[T], []string, error) {
			fill := func(row *T, d *jsonscan.Decoder) { l.fill(call, row, d) }
			return decodePage(response, "data", l.client.names, l.asked.PerPage, fill, l.id)
		})
		if err != nil {
			return nil, err
		}
		if err := l.checkPage(page); err != nil {
			return nil, &callError{op: l.op, detail: redact.Cause(err), causes: []error{err}}
		}
		if page.Meta.PerPageIgnored && l.client.logger != nil {
			l.client.logger.WarnContext(ctx,
				"clinicaldoc: the service ignored the requested page size; check its parameter in WithQueryNames",
				"asked", l.asked.PerPage, "rows", len(page.Items))
		}
		return page, nil
	})
}

// validate returns an error if one page cannot be requested with these parameters.
func (l *listing[T]) validate() error {
	const forAll = "is for %s; List requests one page"
	asked := &l.asked
	name := l.op.name
	switch {
	case asked.PatientID < 0:
		return invalid(name+": PatientID", "must not be negative")
	case asked.PerPage < 0 || asked.PerPage > maxPerPage:
		return invalid(name+": PerPage", "%d is outside 1 to %d", asked.PerPage, maxPerPage)
	case !asked.Sort.valid():
		return invalid(name+": Sort", "is neither SortLatest nor SortOldest")
	case asked.Page < 0:
		return invalid(name+": Page", "must not be negative")
	case asked.Page > 0 && asked.Cursor != "":
		return invalid(name+": Page", "cannot be combined with Cursor")
	case asked.Prefetch != 0:
		return invalid(name+": Prefetch", forAll, l.allName)
	case asked.Verify:
		return invalid(name+": Verify", forAll, l.allName)
	}
	return nil
}

func (s Sort) valid() bool { return s == "" || s == SortLatest || s == SortOldest }

// encode returns the query, with the parameter names that the service knows.
func (q listQuery) encode(names QueryNames) (url.Values, error) {
	values, err := query.Values(q)
	if err != nil || names == defaultQueryNames {
		return values, err
	}
	table := [...]struct{ usual, name string }{
		{defaultQueryNames.PatientID, names.PatientID},
		{defaultQueryNames.PerPage, names.PerPage},
		{defaultQueryNames.Sort, names.Sort},
		{defaultQueryNames.Page, names.Page},
		{defaultQueryNames.Cursor, names.Cursor},
	}
	renamed := make(url.Values, len(values))
	for _, parameter := range table {
		if value, sent := values[parameter.usual]; sent {
			renamed[parameter.name] = value
		}
	}
	return renamed, nil
}

var errOtherPage = redact.Fail(
	"it is not the requested page; check the page parameter in WithQueryNames", ErrUnexpectedResponse)

// checkPage returns an error if a page is not what was asked for. It records in the page if its size was ignored.
func (l *listing[T]) checkPage(page *Page[T]) error {
	asked := &l.asked
	current := page.Meta.CurrentPage
	hasNumber := asked.Cursor == "" && current > 0
	if hasNumber && current != max(asked.Page, 1) {
		return errOtherPage
	}
	otherSize := page.Meta.PerPage > 0 && page.Meta.PerPage != asked.PerPage
	tooMany := len(page.Items) > asked.PerPage
	page.Meta.PerPageIgnored = asked.PerPage > 0 && (otherSize || tooMany)
	if l.checkRows == nil {
		return nil
	}
	return l.checkRows(page.Items)
}

const unknownSize = 0 // for decodePage

// decodePage reads a list in any form of a Laravel service. It may be a bare array, or rows in "data" or in the named
// member. Links and meta may be absent, or the meta fields may be next to the rows. It makes room for size rows,
// unless that is unknownSize. The texts that it returns are the members that could not be read.
func decodePage[T any](
	response []byte, rowsMember string, names QueryNames, size int,
	fill func(*T, *jsonscan.Decoder), id func(*T) int64,
) (*Page[T], []string, error) {
	page := &Page[T]{}
	hasRows := false
	readRows := func(d *jsonscan.Decoder) {
		hasRows = true
		page.Items = tolerant.Rows(d, page.Items, size, fill, id)
	}
	warnings, err := tolerant.Decode(response, rowsMember, func(d *jsonscan.Decoder) {
		page.read(d, rowsMember, readRows)
	})
	if err == nil && !hasRows {
		err = redact.Text("it contains no list")
	}
	page.findNext(names)
	return page, warnings, err
}

// read reads a page. It calls readRows at the array of the rows, which may be the page itself.
func (p *Page[T]) read(d *jsonscan.Decoder, rowsMember string, readRows func(*jsonscan.Decoder)) {
	if d.Kind() == jsonscan.Array {
		readRows(d)
		return
	}
	var others []byte // members without a field
	for key := range d.Fields() {
		name := pageMember(key)
		isArray := d.Kind() == jsonscan.Array
		switch {
		case name == rowsMember, name == "data" && isArray:
			readRows(d)
		case name == metaMember, name == linksMember:
			others = p.readGroup(others, name, d)
		default:
			others = p.readMember(others, noGroup, name, d)
		}
	}
	tolerant.KeepMembers(d, &p.Meta.Extra.raw, others)
}

const noGroup = "" // for members next to the rows

// readGroup reads the members of meta or links, and appends those without a field to the others. If the group is not an
// object, it is a member like any other.
func (p *Page[T]) readGroup(others []byte, name string, d *jsonscan.Decoder) []byte {
	if d.Kind() == jsonscan.Object {
		for key := range d.Fields() {
			others = p.readMember(others, name, pageMember(key), d)
		}
		return others
	}
	if tolerant.Empty(d) {
		return others
	}
	return p.readMember(others, noGroup, name, d)
}

// readMember reads a member of a group: metaMember, linksMember or noGroup. It appends the member to the others if the
// fields of Meta do not hold all of it.
func (p *Page[T]) readMember(others []byte, group, key string, d *jsonscan.Decoder) []byte {
	if p.fillMeta(group, key, d) {
		return others
	}
	return tolerant.AppendMember(others, d, key)
}

// The objects of a page that are about it.
const metaMember, linksMember = "meta", "links"

// pageMembers are the usual members of a page's objects.
var pageMembers = [...]string{
	"data", metaMember, linksMember, "current_page", "last_page", "per_page", "total", "from", "to", "path",
	"next_cursor", "prev_cursor", "next_page_url", "prev_page_url", "first", "last", "prev", nextMember,
}

const nextMember = "next" // of links

// pageMember returns the key as a string, without an allocation for the usual members.
func pageMember(key []byte) string {
	for _, name := range pageMembers {
		if string(key) == name {
			return name
		}
	}
	return string(key)
}

// fillMeta reads one member of the group, and reports whether the fields of Meta hold all of it. A value that is not of
// the expected kind counts as absent. Of the links, only "next" is read; "next" elsewhere is not a link.
func (p *Page[T]) fillMeta(group, key string, d *jsonscan.Decoder) (described bool) {
	inLinks := group == linksMember
	isNext := key == nextMember
	if inLinks != isNext {
		return false
	}
	switch key {
	case "current_page":
		isNumber := fillNumber(&p.Meta.CurrentPage, d)
		p.isPageZero = isZero(d.Consumed())
		return isNumber
	case "last_page":
		return fillNumber(&p.Meta.LastPage, d)
	case "per_page":
		return fillNumber(&p.Meta.PerPage, d)
	case "total":
		return fillNumber(&p.Meta.Total, d)
	case "next_cursor":
		return p.fillCursor(d)
	case "next_page_url", nextMember:
		return p.fillNext(d)
	}
	return false
}

// fillCursor reads the cursor of the next page, a text or a number. It reports whether NextCursor and HasNext hold all
// of it.
func (p *Page[T]) fillCursor(d *jsonscan.Decoder) (described bool) {
	p.saysIfMore = true
	isNumber := d.Kind() == jsonscan.Number
	described = fillText(&p.Meta.NextCursor, d)
	value := d.Consumed()
	p.namesNext = p.namesNext || !isNothing(value)
	if isNumber && !isZero(value) { // 0 often means that no page follows
		p.Meta.NextCursor = string(value)
		described = true
	}
	return described
}

// fillNext reads the link to the next page: an address, or an object with the address as its member href. Any other
// value that is not empty shows only that a page follows. fillNext reports whether HasNext holds all of the value.
func (p *Page[T]) fillNext(d *jsonscan.Decoder) (described bool) {
	p.saysIfMore = true
	if d.Kind() == jsonscan.Object {
		for key := range d.Fields() {
			if string(key) == "href" {
				fillText(&p.nextURL, d)
			}
		}
	} else {
		fillText(&p.nextURL, d)
	}
	value := d.Consumed()
	p.namesNext = p.namesNext || !isNothing(value)
	return string(value) == "null" // an address is in Extra too
}

// isNothing reports whether a value, in place of the next page, means that no page follows.
func isNothing(value []byte) bool {
	switch string(value) {
	case "", "null", `""`, "false", "[]", "{}":
		return true
	}
	return isZero(value)
}

// isZero reports whether a value is the number 0, which may be in a string.
func isZero(value []byte) bool { return string(bytes.Trim(value, `"`)) == "0" }

// fillNumber reads a number, and reports whether it is one.
func fillNumber(to *int, d *jsonscan.Decoder) (ok bool) {
	value, ok := tolerant.IntegerIn(d)
	*to = int(value)
	return ok
}

// fillText reads a string, and reports whether it is one or null.
func fillText(to *string, d *jsonscan.Decoder) (ok bool) {
	if d.Kind() == jsonscan.String {
		*to = d.Text()
		return true
	}
	return d.Null()
}

// findNext sets whether a page follows, the cursor of that page, and whether pages are counted from 0. It takes only
// parameters from the service's link, never the address.
func (p *Page[T]) findNext(names QueryNames) {
	if p.nextURL != "" && p.Meta.NextCursor == "" {
		p.Meta.NextCursor = parameterIn(p.nextURL, names.Cursor)
	}
	p.fromZero = p.isPageZero || parameterIn(p.nextURL, names.Page) == "1"
	hasCursor := p.Meta.NextCursor != ""
	mayHaveMore := !p.saysIfMore && len(p.Items) > 0
	p.mayHaveNext = hasCursor || p.namesNext || mayHaveMore
	hasNumber := p.Meta.CurrentPage > 0 || p.isPageZero
	isNumbered := hasNumber && p.Meta.LastPage > 0
	if isNumbered && !hasCursor {
		p.saysIfMore = true
		p.mayHaveNext = p.Meta.CurrentPage < p.Meta.LastPage
	}
}

// parameterIn returns the value of the link's query parameter of that name, or "" if there is none.
func parameterIn(link, name string) string {
	parsed, err := url.Parse(link)
	if err != nil {
		return ""
	}
	return parsed.Query().Get(name)
}

// LogValue lists what may be logged of the page: how many rows it has, and the numbers in Meta.
func (p Page[T]) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("items", len(p.Items)), slog.Any("meta", p.Meta))
}

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (p Page[T]) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.Page", p) }

// LogValue lists the numbers. It does not list the cursor, which may encode a row's data.
func (m PageMeta) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int("current_page", m.CurrentPage), slog.Int("last_page", m.LastPage),
		slog.Int("per_page", m.PerPage), slog.Int("total", m.Total), slog.Bool("per_page_ignored", m.PerPageIgnored),
	)
}

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (m PageMeta) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.PageMeta", m) }

// fetchedPage is a page with its response. Requests that run concurrently must not share a response.
type fetchedPage[T any] struct {
	*Page[T]
	response Response
}

// pageSource requests the pages of a list for a call. Package list decides which page is next and what proves the end.
type pageSource[T any] struct {
	list     *listing[T]
	opts     []CallOption // of each request
	response *Response    // the caller's; nil if it is not wanted
}

// rows ranges over the rows of all pages.
func (l *listing[T]) rows(ctx context.Context, opts []CallOption) iter.Seq2[*T, error] {
	return ranged(ctx, l.client, l.allName, opts, func(ctx context.Context, call *scope, yield yieldFunc[T]) error {
		p := pageSource[T]{list: l, opts: []CallOption{call.options.inherited()}, response: call.options.response}
		return p.yieldAll(ctx, yield)
	})
}

// yieldAll yields the rows of all pages, none twice. It stores the response of each page for the caller, also of one
// that failed.
func (p pageSource[T]) yieldAll(ctx context.Context, yield yieldFunc[T]) error {
	asked := &p.list.asked
	if asked.Prefetch < 0 || asked.Prefetch > maxPrefetch {
		return invalid(p.list.allName+": Prefetch", "%d is outside 0 to %d", asked.Prefetch, maxPrefetch)
	}
	walk := list.List[fetchedPage[T]]{
		Fetch: p.fetch,
		Start: list.Position{Number: asked.Page, Cursor: asked.Cursor},
		Ahead: asked.Prefetch,
		Rule:  list.Complete, // ends when the list is shown to be complete
	}
	if asked.Verify {
		walk.Rule = list.Verified // reads it again until a walk finds nothing new and no fewer rows, up to a limit
	}
	for visit, err := range list.Through(ctx, walk) {
		if p.response != nil {
			*p.response = visit.Value.response
		}
		if err != nil {
			return p.list.explain(err)
		}
		for _, i := range visit.New { // the rows that no page before had
			if !yield(&visit.Value.Items[i], nil) {
				return nil
			}
		}
	}
	return nil
}

// fetch requests the page at a position. It returns what package list has to know of the page, and the page.
func (p pageSource[T]) fetch(ctx context.Context, at list.Position) (about list.Page, got fetchedPage[T], err error) {
	opts := p.opts
	if p.response != nil {
		opts = append(slices.Clip(opts), WithResponse(&got.response))
	}
	onePage := *p.list
	onePage.asked = onePage.asked.at(at)
	got.Page, err = onePage.page(ctx, opts)
	if err != nil {
		return about, got, err
	}
	rows := make([]int64, len(got.Items))
	for i := range rows {
		rows[i] = onePage.id(&got.Items[i])
	}
	return list.Page{
		Rows: rows, SaysIfMore: got.saysIfMore, More: got.mayHaveNext, Cursor: got.Meta.NextCursor,
		Total: got.Meta.Total, Last: got.Meta.LastPage, Size: got.Meta.PerPage, FromZero: got.fromZero,
	}, got, nil
}

// at returns the parameters of the page at a position. A position with a size is a probe, which needs an order.
func (q listQuery) at(at list.Position) listQuery {
	q.Page = at.Number
	q.Cursor = at.Cursor
	q.Prefetch = 0
	q.Verify = false
	if at.Size > 0 {
		q.PerPage = at.Size
		q.Sort = cmp.Or(q.Sort, SortLatest)
	}
	if at.Reversed {
		q.Sort = map[Sort]Sort{SortLatest: SortOldest, SortOldest: SortLatest}[q.Sort]
	}
	return q
}

// wrongNameReasons are the reasons for an incomplete list that a wrong name of a query parameter may cause.
var wrongNameReasons = []list.Step{list.NoProgress, list.MoreExist, list.NotKnown}

// explain returns the public error for a list that cannot be shown to be complete. Other errors are returned unchanged.
func (l *listing[T]) explain(err error) error {
	reason, ok := errors.AsType[*list.IncompleteError](err)
	if !ok {
		return err
	}
	e := &callError{
		op:     l.op,
		detail: "the list may be incomplete: " + reason.Error(),
		causes: []error{ErrIncompleteList, reason.Err},
	}
	if slices.Contains(wrongNameReasons, reason.Reason) {
		e.detail += "; check the page, size and sort parameters in WithQueryNames"
		e.causes = append(e.causes, ErrUnexpectedResponse)
	}
	return e
}

// Collect ranges to the end and returns the items that came without an error. It also returns the errors, joined if
// there are several; the text contains only a few of them. After an error, the list is incomplete.
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

// joinedErrors matches what each of the errors matches, as the result of errors.Join does. Its text names only a few.
type joinedErrors []error

// Error returns the texts of the first errors, and the number of the others.
func (e joinedErrors) Error() string {
	const most = 5
	if len(e) <= most+1 {
		return errors.Join(e...).Error()
	}
	return fmt.Sprintf("%v\n%d more errors", errors.Join(e[:most]...), len(e)-most)
}

func (e joinedErrors) Unwrap() []error { return e }
