package clinicaldoctest

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const maxPageSize = 100

// listQuery is what a list was asked for.
type listQuery struct {
	path        string // of the list
	patientID   int64  // 0 for every patient
	perPage     int
	oldestFirst bool
	page        int
	after       *cursor
	sent        url.Values
}

// cursor is the last row of a page, encoded for the next request.
type cursor struct {
	CreatedAt time.Time `json:"created_at"`
	ID        int64     `json:"id"`
}

// part is the part of a list that one page shows: the rows from start up to end.
type part struct {
	start, end, total int
	rows              []object
	last              cursor // of the last row
}

// add appends a row as it is shown, and where the next page begins after it.
func (p *part) add(row object, at cursor) {
	p.rows = append(p.rows, row)
	p.last = at
}

// more reports whether rows follow.
func (p *part) more() bool { return p.end < p.total }

// listNotes answers with one page of notes. If a fault changes the list after this page, it also records for the fault
// what the page shows.
func (s *state) listNotes(c call) answer {
	query, refused := s.readListQuery(c)
	if refused != nil {
		return *refused
	}
	notes, shown := s.notesOf(c, query)
	for _, n := range notes {
		shown.add(s.rowObject(n, c.now), cursor{n.createdAt, n.id})
	}
	if record, isWanted := c.Context().Value(shownKey{}).(*shownList); isWanted {
		record.add(notes, c.user.id, query.patientID)
	}
	return success(s.page(query, shown))
}

// notesOf returns the notes of the page that was asked for.
func (s *state) notesOf(c call, query listQuery) ([]*note, part) {
	v := s.variant()
	lag := lagOf(c.Request)
	sorted := order{query.oldestFirst, v.Times.wholeSeconds()}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.notes.list(listKey{c.user.teamID, query.patientID}, c.now, lag)
	shown := v.choose(query, len(list), func(after cursor) int {
		return sorted.countUpTo(list, &entry{createdAt: after.CreatedAt, id: after.ID})
	})
	var notes []*note
	for _, e := range sorted.rows(list, shown.start, shown.end-shown.start) {
		notes = append(notes, e.read(c.now, lag).settled(c.now.Add(-lag), s.delays))
	}
	return notes, shown
}

// choose returns the part of a list that a page shows, without its rows. The function counts the rows up to a cursor.
func (v *Variant) choose(query listQuery, total int, upTo func(cursor) int) part {
	start := 0
	count := query.perPage
	pastEnd := query.page-1 > total/query.perPage // the product below could overflow
	switch {
	case v.Pagination == PaginationNone:
		count = total
	case v.byCursor():
		if query.after != nil {
			start = upTo(*query.after)
		}
	case pastEnd:
		start = total
	default:
		start = (query.page - 1) * query.perPage
	}
	start = min(start, total)
	return part{start: start, end: start + min(count, total-start), total: total, rows: []object{}}
}

// readListQuery reads the query as the framework would: a page or cursor that
// makes no sense is the first one, other nonsense is refused.
func (s *state) readListQuery(c call) (listQuery, *answer) {
	v := s.variant()
	names := v.Query
	_, path, _ := strings.Cut(c.route, " ")
	query := listQuery{
		path: path, perPage: v.DefaultPageSize, oldestFirst: v.OldestFirst, page: 1, sent: readQuery(c.URL.RawQuery),
	}
	if v.refusesNames(query.sent) {
		const text = "A query parameter is not allowed"
		return query, new(v.refusal(http.StatusBadRequest, text, "Requested filter(s) are not allowed."))
	}
	problems := map[string][]string{}
	for _, parameter := range []struct {
		name string
		read func(name, value string) (problem string)
	}{
		{names.PatientID, query.readPatient},
		{names.PerPage, query.sizeReader(v.ClampPageSize)},
		{names.Sort, query.readSort},
	} {
		if problem := v.readParameter(query.sent, parameter.name, parameter.read); problem != "" {
			problems[parameter.name] = []string{problem}
		}
	}
	if len(problems) > 0 {
		return query, new(v.invalid(problems))
	}
	if page, isInteger := parseInteger(query.sent.Get(names.Page)); isInteger && page > 0 {
		query.page = int(min(page, math.MaxInt32)) // past the end, wherever that is
	}
	query.after = decodeCursor(query.sent.Get(names.Cursor))
	return query, nil
}

// readParameter calls read with the value of a parameter and returns the problem that read finds, or "". If the
// parameter is absent or has no value, it does not call read; the variant may refuse a parameter without a value.
func (v *Variant) readParameter(sent url.Values, name string, read func(name, value string) string) (problem string) {
	value := v.trimmed(sent.Get(name))
	if isArray(sent, name) {
		value = "[]" // read refuses it, because it is neither a number nor a sort
	}
	if value != "" {
		problem = read(name, value)
	}
	isEmpty := sent.Has(name) && sent.Get(name) == ""
	if problem == "" && isEmpty && v.RefuseEmptyQuery {
		return fieldMessage(name, "must not be empty.")
	}
	return problem
}

func (q *listQuery) readPatient(name, value string) (problem string) {
	id, isInteger := parseInteger(value)
	q.patientID = cmp.Or(id, -1) // no patient has such an id
	if !isInteger {
		return fieldMessage(name, "must be an integer.")
	}
	return ""
}

// sizeReader returns the function that reads the page size. With clamp, it moves any number into the range from 1 to
// 100, and reads a text that is not an integer as 1. Without clamp, it refuses both.
func (q *listQuery) sizeReader(clamp bool) func(name, value string) (problem string) {
	return func(name, value string) string {
		size, isInteger := parseInteger(value)
		inRange := min(max(size, 1), maxPageSize)
		isValid := isInteger && size == inRange
		if !isValid && !clamp {
			return fieldMessage(name, "must be between 1 and 100.")
		}
		q.perPage = int(inRange)
		return ""
	}
}

func (q *listQuery) readSort(name, value string) (problem string) {
	switch value {
	case "latest":
		q.oldestFirst = false
	case "oldest":
		q.oldestFirst = true
	default:
		return "The selected " + name + " is invalid."
	}
	return ""
}

// refusesNames reports whether a query has an unknown name, and the variant refuses such a name.
func (v *Variant) refusesNames(sent url.Values) bool {
	known := []string{v.Query.PatientID, v.Query.PerPage, v.Query.Sort, v.Query.Page, v.Query.Cursor}
	for name := range sent {
		withoutIndex, _, _ := strings.Cut(name, "[") // "page[]" is an array of "page"
		if slices.Contains(known, name) || slices.Contains(known, withoutIndex) {
			continue
		}
		isFilter := strings.HasPrefix(name, "filter[")
		if v.RefuseUnknownQuery || v.RefuseUnknownFilter && isFilter {
			return true
		}
	}
	return false
}

func (v *Variant) byCursor() bool {
	return v.Pagination == PaginationCursor || v.Pagination == PaginationCursorInLinks
}

// page is the list's body in the variant's shape.
func (s *state) page(query listQuery, shown part) object {
	v := s.variant()
	p := s.describePage(query, shown)
	switch v.Pagination {
	case PaginationSimple:
		return object{
			"data":  shown.rows,
			"links": object{"first": p.first, "last": nil, "prev": p.previous, "next": p.next},
			"meta": object{
				"current_page": p.number, "from": p.from, "path": p.path, "per_page": p.perPage, "to": p.to,
			},
		}
	case PaginationCursor, PaginationCursorInLinks:
		return s.cursorPage(query, shown, p)
	case PaginationFlat:
		return object{
			"data": shown.rows, "current_page": p.number, "first_page_url": p.first, "from": p.from,
			"last_page": p.lastNumber, "last_page_url": p.last, "next_page_url": p.next, "path": p.path,
			"per_page": p.perPage, "prev_page_url": p.previous, "to": p.to, "total": p.total,
		}
	case PaginationBare, PaginationNone:
		body := object{"data": shown.rows}
		v.putObject(body, "links", nil)
		v.putObject(body, "meta", nil)
		return body
	default:
		return object{
			"data":  shown.rows,
			"links": object{"first": p.first, "last": p.last, "prev": p.previous, "next": p.next},
			"meta": object{
				"current_page": p.number, "from": p.from, "last_page": p.lastNumber, "links": s.pageLinks(query, p),
				"path": p.path, "per_page": p.perPage, "to": p.to, "total": p.total,
			},
		}
	}
}

// cursorPage is the body of a page whose next one has a cursor.
func (s *state) cursorPage(query listQuery, shown part, p pageNumbers) object {
	v := s.variant()
	var next, nextCursor any
	if shown.more() {
		text := shown.last.encode()
		nextCursor = text
		next = s.link(query, v.Query.Cursor, text)
	}
	meta := object{"path": p.path, "per_page": p.perPage}
	if v.Pagination == PaginationCursor {
		meta["next_cursor"] = nextCursor
		meta["prev_cursor"] = nil
	}
	links := object{"first": nil, "last": nil, "prev": nil, "next": next}
	return object{"data": shown.rows, "links": links, "meta": meta}
}

// pageNumbers are the numbers and links of a page, as the variant shows them. Those that do not exist are nil.
type pageNumbers struct {
	number, from, to, perPage, total any
	lastNumber                       any
	pages                            int    // of the list
	path                             string // of the list
	first, last, previous, next      any    // links
}

// describePage returns the numbers and links of a page.
func (s *state) describePage(query listQuery, shown part) pageNumbers {
	v := s.variant()
	link := func(page int) any { return s.link(query, v.Query.Page, strconv.Itoa(page)) }
	pages := max(1, (shown.total+query.perPage-1)/query.perPage)
	p := pageNumbers{
		number: v.number(query.page), perPage: v.number(query.perPage), total: v.number(shown.total),
		lastNumber: v.number(pages), pages: pages, path: s.linkTo(query.path), first: link(1), last: link(pages),
	}
	if v.PageSizeAsString {
		p.perPage = strconv.Itoa(query.perPage)
	}
	if len(shown.rows) > 0 {
		first := (query.page-1)*query.perPage + 1
		p.from = v.number(first)
		p.to = v.number(first + len(shown.rows) - 1)
	}
	if query.page > 1 {
		p.previous = link(query.page - 1)
	}
	if shown.more() {
		p.next = link(query.page + 1)
	}
	return p
}

// pageLinks are the buttons of a pager, labels in HTML and all.
func (s *state) pageLinks(query listQuery, p pageNumbers) []object {
	links := []object{{"url": p.previous, "label": "&laquo; Previous", "active": false}}
	for page := range min(p.pages, 10) {
		label := strconv.Itoa(page + 1)
		address := s.link(query, s.variant().Query.Page, label)
		links = append(links, object{"url": address, "label": label, "active": page+1 == query.page})
	}
	return append(links, object{"url": p.next, "label": "Next &raquo;", "active": false})
}

// linkTo is the address of a list.
func (s *state) linkTo(path string) string {
	return cmp.Or(s.variant().LinkOrigin, s.srv.api.url) + s.variant().BasePath + path
}

// link is a link to another page of the list.
func (s *state) link(query listQuery, name, value string) any {
	parameters := url.Values{}
	if s.variant().LinksKeepQuery {
		maps.Copy(parameters, query.sent)
	}
	parameters.Set(name, value)
	return s.linkTo(query.path) + "?" + parameters.Encode()
}

func (c cursor) encode() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("clinicaldoctest: cursor cannot be encoded: %v", err))
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// decodeCursor returns nil for a text that is not a cursor.
func decodeCursor(text string) *cursor {
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	var c cursor
	if err != nil || json.Unmarshal(decoded, &c) != nil {
		return nil
	}
	return &c
}
