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
	patientID   int64 // 0: every patient
	perPage     int
	oldestFirst bool
	page        int
	after       *cursor
	sent        url.Values
}

// cursor is the last note of a page, encoded for the next request.
type cursor struct {
	CreatedAt time.Time `json:"created_at"`
	ID        int64     `json:"id"`
}

func (s *state) listNotes(c call) answer {
	query, refused := s.readListQuery(readQuery(c.URL.RawQuery))
	if refused != nil {
		return *refused
	}
	rows, total, more := s.rows(c, query)
	data := []object{}
	churn, _ := c.Context().Value(churnKey{}).(*churn)
	for _, n := range rows {
		if churn != nil {
			churn.shown = append(churn.shown, n.id)
		}
		data = append(data, s.rowObject(n, c.now))
	}
	if churn != nil {
		churn.userID, churn.patientID = c.user.id, query.patientID
	}
	return success(s.page(query, rows, data, total, more))
}

// rows returns the notes of the page that was asked for, how many there are in
// all, and whether more follow.
func (s *state) rows(c call, query listQuery) (rows []*note, total int, more bool) {
	v, lag := s.variant(), lagOf(c.Request)
	sorted := order{query.oldestFirst, v.Times.wholeSeconds()}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.notes.list(listKey{c.user.teamID, query.patientID}, c.now, lag)
	start, count := 0, query.perPage
	switch {
	case v.Pagination == PaginationNone:
		count = len(list)
	case v.byCursor() && query.after != nil:
		start = sorted.after(list, &entry{createdAt: query.after.CreatedAt, id: query.after.ID})
	case !v.byCursor() && query.page-1 > len(list)/query.perPage:
		start = len(list) // also where the product below would overflow
	case !v.byCursor():
		start = (query.page - 1) * query.perPage
	}
	for _, e := range sorted.rows(list, start, count) {
		rows = append(rows, e.read(c.now, lag).settled(c.now.Add(-lag), s.delays))
	}
	return rows, len(list), start+len(rows) < len(list)
}

// readListQuery reads the query as the framework would: a page or cursor that
// makes no sense is the first one, other nonsense is refused.
func (s *state) readListQuery(sent url.Values) (listQuery, *answer) {
	names := s.variant().Query
	query := listQuery{perPage: s.variant().DefaultPageSize, oldestFirst: s.variant().OldestFirst, page: 1, sent: sent}
	problems := map[string][]string{}

	if s.variant().refusesNames(sent) {
		return query, new(s.variant().refusal(http.StatusBadRequest, "A query parameter is not allowed", "Requested filter(s) are not allowed."))
	}
	if s.variant().RefuseEmptyQuery {
		for _, name := range []string{names.PatientID, names.PerPage, names.Sort} {
			if sent.Has(name) && sent.Get(name) == "" {
				problems[name] = []string{fieldMessage(name, "must not be empty.")}
			}
		}
	}
	get := func(name string) string {
		value := s.variant().trimmed(sent.Get(name))
		if isArray(sent, name) {
			value = "[]" // which is neither a number nor a sort
		}
		return value
	}
	if value := get(names.PatientID); value != "" {
		id, isInteger := parseInteger(value)
		if !isInteger {
			problems[names.PatientID] = []string{fieldMessage(names.PatientID, "must be an integer.")}
		}
		query.patientID = cmp.Or(id, -1) // no patient has such an id
	}
	if value := get(names.PerPage); value != "" {
		size, isInteger := parseInteger(value)
		switch inRange := min(max(size, 1), maxPageSize); {
		case isInteger && size == inRange || s.variant().ClampPageSize:
			query.perPage = int(inRange)
		default:
			problems[names.PerPage] = []string{fieldMessage(names.PerPage, "must be between 1 and 100.")}
		}
	}
	switch get(names.Sort) {
	case "":
	case "latest":
		query.oldestFirst = false
	case "oldest":
		query.oldestFirst = true
	default:
		problems[names.Sort] = []string{"The selected " + names.Sort + " is invalid."}
	}
	if len(problems) > 0 {
		return query, new(s.variant().invalid(problems))
	}
	if page, isInteger := parseInteger(sent.Get(names.Page)); isInteger && page > 0 {
		query.page = int(min(page, math.MaxInt32)) // past the end, wherever that is
	}
	query.after = decodeCursor(sent.Get(names.Cursor))
	return query, nil
}

// refusesNames tells whether a query has a name that is not allowed.
func (v *Variant) refusesNames(sent url.Values) bool {
	known := []string{v.Query.PatientID, v.Query.PerPage, v.Query.Sort, v.Query.Page, v.Query.Cursor}
	for name := range sent {
		isFilter := strings.HasPrefix(name, "filter[")
		array, _, _ := strings.Cut(name, "[")
		if !slices.Contains(known, name) && !slices.Contains(known, array) && (v.RefuseUnknownQuery || v.RefuseUnknownFilter && isFilter) {
			return true
		}
	}
	return false
}

func (v *Variant) byCursor() bool {
	return v.Pagination == PaginationCursor || v.Pagination == PaginationCursorInLinks
}

// page is the list's body in the variant's shape.
func (s *state) page(query listQuery, rows []*note, data []object, total int, more bool) object {
	v := s.variant()
	var perPage any = query.perPage
	if v.PageSizeAsString {
		perPage = strconv.Itoa(query.perPage)
	}
	numbered := func(page int) any { return s.link(query, v.Query.Page, strconv.Itoa(page)) }
	orNil := func(present bool, link func() any) any {
		if !present {
			return nil
		}
		return link()
	}
	lastPage := max(1, (total+query.perPage-1)/query.perPage)
	var from, to any
	if len(rows) > 0 {
		first := (query.page-1)*query.perPage + 1
		from, to = v.number(first), v.number(first+len(rows)-1)
	}
	previous := orNil(query.page > 1, func() any { return numbered(query.page - 1) })
	next := orNil(more, func() any { return numbered(query.page + 1) })
	path := s.linkBase()

	switch v.Pagination {
	case PaginationSimple:
		return object{
			"data":  data,
			"links": object{"first": numbered(1), "last": nil, "prev": previous, "next": next},
			"meta": object{
				"current_page": v.number(query.page), "from": from, "path": path,
				"per_page": v.number(perPage), "to": to,
			},
		}
	case PaginationCursor, PaginationCursorInLinks:
		meta := object{"path": path, "per_page": v.number(perPage)}
		var nextCursor any
		if more {
			last := rows[len(rows)-1]
			text := cursor{last.createdAt, last.id}.encode()
			nextCursor, next = text, s.link(query, v.Query.Cursor, text)
		}
		if v.Pagination == PaginationCursor {
			meta["next_cursor"], meta["prev_cursor"] = nextCursor, nil
		}
		return object{"data": data, "links": object{"first": nil, "last": nil, "prev": nil, "next": next}, "meta": meta}
	case PaginationFlat:
		return object{
			"data": data, "current_page": v.number(query.page), "first_page_url": numbered(1), "from": from,
			"last_page": v.number(lastPage), "last_page_url": numbered(lastPage), "next_page_url": next, "path": path,
			"per_page": v.number(perPage), "prev_page_url": previous, "to": to, "total": v.number(total),
		}
	case PaginationBare, PaginationNone:
		body := object{"data": data}
		v.putObject(body, "links", nil)
		v.putObject(body, "meta", nil)
		return body
	default:
		return object{
			"data":  data,
			"links": object{"first": numbered(1), "last": numbered(lastPage), "prev": previous, "next": next},
			"meta": object{
				"current_page": v.number(query.page), "from": from, "last_page": v.number(lastPage),
				"links": s.pageLinks(query, lastPage, previous, next), "path": path,
				"per_page": v.number(perPage), "to": to, "total": v.number(total),
			},
		}
	}
}

// pageLinks are the buttons of a pager, labels in HTML and all.
func (s *state) pageLinks(query listQuery, lastPage int, previous, next any) []object {
	links := []object{{"url": previous, "label": "&laquo; Previous", "active": false}}
	for page := range min(lastPage, 10) {
		label := strconv.Itoa(page + 1)
		links = append(links, object{"url": s.link(query, s.variant().Query.Page, label), "label": label, "active": page+1 == query.page})
	}
	return append(links, object{"url": next, "label": "Next &raquo;", "active": false})
}

func (s *state) linkBase() string {
	return cmp.Or(s.variant().LinkOrigin, s.srv.api.url) + s.variant().BasePath + "/v1/progress-notes"
}

// link is a link to another page of the list.
func (s *state) link(query listQuery, name, value string) any {
	parameters := url.Values{}
	if s.variant().LinksKeepQuery {
		maps.Copy(parameters, query.sent)
	}
	parameters.Set(name, value)
	return s.linkBase() + "?" + parameters.Encode()
}

func (c cursor) encode() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("clinicaldoctest: cursor cannot be encoded: %v", err))
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func decodeCursor(text string) *cursor {
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	var c cursor
	if err != nil || json.Unmarshal(decoded, &c) != nil {
		return nil
	}
	return &c
}
