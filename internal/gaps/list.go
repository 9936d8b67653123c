package gaps

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// The names that services of this kind use, the likeliest first.
var (
	patientNames = []string{
		"patient_id", "filter[patient_id]", "patient", "patientId", "filter[patient]", "patient_ids",
		"filter[patient.id]",
	}
	perPageNames = []string{"per_page", "limit", "page[size]", "perPage", "page_size", "pageSize", "size"}
	sortNames    = []string{"sort", "order", "sort_by", "order_by", "sort_order", "sortBy", "orderBy", "direction"}
	pageNames    = []string{"page", "page[number]", "page_number", "pageNumber", "p"}
	cursorNames  = []string{"cursor", "page[cursor]", "next_cursor", "after", "page[after]", "page_token", "pageToken"}
)

// listAnswer is one response of the list.
type listAnswer struct {
	status      int // 0: there was no response that could be read
	notes       []clinicaldoc.ProgressNote
	raw         []json.RawMessage // the same rows
	top         fields            // of the document; nil if that is an array
	meta, links fields
}

// ok reports whether the response is a page.
func (a listAnswer) ok() bool { return a.status/100 == 2 }

// refused reports whether the service rejects the query. It may be neither ok nor refused: if the service failed, or
// was asked too often.
func (a listAnswer) refused() bool {
	switch a.status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// hasRows reports whether the answer is a page with this many rows.
func (a listAnswer) hasRows(n int) bool { return a.ok() && len(a.notes) == n }

// firstID returns the id of the first row, or 0 if there is none.
func (a listAnswer) firstID() int64 {
	if len(a.notes) == 0 {
		return 0
	}
	return a.notes[0].ID
}

// number returns a number of the page's metadata, from meta or from the document itself, or 0 if it is absent.
func (a listAnswer) number(name string) int {
	for _, f := range []fields{a.meta, a.top} {
		n, err := strconv.Atoi(strings.Trim(string(f[name]), `"`))
		if err == nil {
			return n
		}
	}
	return 0
}

// nextLink returns the link to the next page, from links or from the document itself. It returns nil if neither has one
// that can be parsed.
func (a listAnswer) nextLink() *url.URL {
	for _, raw := range []json.RawMessage{a.links["next"], a.top["next_page_url"]} {
		var text string
		if json.Unmarshal(raw, &text) != nil || text == "" {
			continue
		}
		if link, err := url.Parse(text); err == nil {
			return link
		}
	}
	return nil
}

// list requests notes with a query of these names and values, in pairs.
func (p *prober) list(ctx context.Context, query ...string) listAnswer {
	var r clinicaldoc.Response
	opts := []clinicaldoc.CallOption{clinicaldoc.WithResponse(&r)}
	for pair := range slices.Chunk(query, 2) {
		opts = append(opts, clinicaldoc.WithQuery(pair[0], pair[1]))
	}
	var body json.RawMessage
	err := p.Client.Do(ctx, http.MethodGet, "/v1/progress-notes", nil, &body, opts...)
	p.observe("code.list", r, err)
	if err != nil {
		return listAnswer{status: statusOf(err)}
	}
	a := listAnswer{status: r.StatusCode, top: asObject(body)}
	a.meta = asObject(a.top["meta"])
	a.links = asObject(a.top["links"])
	rows := a.top["data"]
	if a.top == nil { // the document is an array
		rows = body
	}
	if json.Unmarshal(rows, &a.notes) != nil || json.Unmarshal(rows, &a.raw) != nil {
		return listAnswer{} // a status of 0 means that it could not be read
	}
	return a
}

// askList finds the names of the list's parameters, and with them how the list behaves.
func (p *prober) askList(ctx context.Context) {
	plain := p.list(ctx)                     // without a query
	if !plain.ok() || len(plain.notes) < 2 { // of one row, a page of one row would prove nothing
		for _, q := range questions {
			if strings.HasPrefix(q.key, "list.") {
				p.report.unseen(q.key, "the list does not show the notes just created")
			}
		}
		return
	}
	for i, raw := range plain.raw {
		if p.own[plain.notes[i].ID] { // of other notes not even the names of fields are reported
			p.seen.row(asObject(raw))
		}
	}
	p.seen.meta("meta", plain.meta)
	p.seen.meta("page", plain.top) // some services put the page's numbers next to "data"
	found := &p.report.QueryNames
	found.PerPage = p.find("list.per_page", perPageNames, func(name string) bool {
		return p.list(ctx, name, "1").hasRows(1)
	})
	found.PatientID = p.find("list.patient", patientNames, func(name string) bool {
		mine := p.list(ctx, name, strconv.FormatInt(p.PatientID, 10))
		if !mine.ok() || len(mine.notes) == 0 {
			return false
		}
		nobodys := p.list(ctx, name, strconv.Itoa(absentID))
		return nobodys.hasRows(0) || nobodys.refused()
	})

	oneRow := p.oneRow()
	first := p.list(ctx, oneRow...)
	p.askPosition(ctx, oneRow, first)
	p.askSort(ctx, oneRow, plain, first)
	p.askSizes(ctx, plain)
	p.askUnknownParameter(ctx)
	p.reportShape(plain, first)
}

// oneRow returns the query for pages of one row, or nil if the name of the page size is not known.
func (p *prober) oneRow() []string {
	if p.report.QueryNames.PerPage == "" {
		return nil
	}
	return []string{p.report.QueryNames.PerPage, "1"}
}

// find tries names until one works, and reports and returns it. It returns "" if none works.
func (p *prober) find(key string, candidates []string, works func(name string) bool) string {
	for _, name := range candidates {
		if works(name) {
			p.report.set(key, "%s", name)
			return name
		}
	}
	p.report.unseen(key, "none of these works: %s", strings.Join(candidates, ", "))
	return ""
}

// askPosition finds how the second page is requested: by number or by cursor.
// The first page was requested with the query oneRow, which is empty if no name for the size is known.
func (p *prober) askPosition(ctx context.Context, oneRow []string, first listAnswer) {
	hints := first.positionHints(oneRow)
	leadsToSecond := func(name, value string) bool {
		second := p.list(ctx, append(slices.Clone(oneRow), name, value)...)
		if !second.ok() {
			return false
		}
		return second.number("current_page") == 2 || second.firstID() != first.firstID()
	}
	names := &p.report.QueryNames
	if hints.cursor == "" {
		p.report.unseen("list.cursor", "no cursor is given")
		names.Page = p.find("list.page", hints.pageNames, func(name string) bool { return leadsToSecond(name, "2") })
	} else {
		cursorLeads := func(name string) bool { return leadsToSecond(name, hints.cursor) }
		names.Cursor = p.find("list.cursor", hints.cursorNames, cursorLeads)
		p.report.unseen("list.page", "pages go by cursor")
	}
	hasMorePages := len(oneRow) > 0 // there are at least three notes
	p.report.PagesUnreachable = hasMorePages && names.Page == "" && names.Cursor == ""
}

// positionHints are the likeliest ways to request the second page.
type positionHints struct {
	cursor      string // of the second page; empty: none is known
	pageNames   []string
	cursorNames []string
}

// positionHints reads the cursor of the second page from meta or from the link to that page. Parameters of that link
// come first among the names to try, except those of the query oneRow.
func (a listAnswer) positionHints(oneRow []string) positionHints {
	hints := positionHints{pageNames: pageNames, cursorNames: cursorNames}
	raw := a.meta["next_cursor"]
	if kind(raw) == "string" {
		_ = json.Unmarshal(raw, &hints.cursor)
	}
	link := a.nextLink()
	if link == nil {
		return hints
	}
	for name, values := range link.Query() {
		switch {
		case slices.Contains(oneRow, name), !isParameterName(name):
		case values[0] == "2":
			hints.pageNames = prefer(hints.pageNames, name)
		case hints.cursor == "", values[0] == hints.cursor:
			hints.cursor = values[0]
			hints.cursorNames = prefer(hints.cursorNames, name)
		}
	}
	return hints
}

// prefer returns the candidates with the name as the first one.
func prefer(candidates []string, name string) []string {
	rest := slices.DeleteFunc(slices.Clone(candidates), func(other string) bool { return other == name })
	return append([]string{name}, rest...)
}

// isParameterName reports whether a name in a link can be reported: a link might contain data as a name.
func isParameterName(name string) bool {
	return printableName.MatchString(strings.NewReplacer("[", "_", "]", "_", ".", "_").Replace(name))
}

// askSort finds the name of the sort, and the order without it. Rows of one page show the order if no name works.
func (p *prober) askSort(ctx context.Context, oneRow []string, plain, first listAnswer) {
	var latest, oldest listAnswer
	p.report.QueryNames.Sort = p.find("list.sort", sortNames, func(name string) bool {
		latest = p.list(ctx, append(slices.Clone(oneRow), name, string(clinicaldoc.SortLatest))...)
		oldest = p.list(ctx, append(slices.Clone(oneRow), name, string(clinicaldoc.SortOldest))...)
		return latest.ok() && oldest.ok() && latest.firstID() != oldest.firstID()
	})
	isKnown := p.report.QueryNames.Sort != ""
	switch {
	case isKnown && first.firstID() == latest.firstID():
		p.report.set("list.default_sort", "latest")
	case isKnown && first.firstID() == oldest.firstID():
		p.report.set("list.default_sort", "oldest")
	case plain.isSorted(ascending):
		p.report.set("list.default_sort", "oldest, as the rows' created_at tell")
	case plain.isSorted(descending):
		p.report.set("list.default_sort", "latest, as the rows' created_at tell")
	default:
		p.report.set("list.default_sort", "neither latest nor oldest")
	}
}

// Directions of a sort: how a row's time compares with that of the row before it.
const (
	ascending  = 1
	descending = -1
)

// isSorted reports whether the rows' times go in this direction. If all times are equal, they go in none.
func (a listAnswer) isSorted(direction int) bool {
	hasMoved := false
	for i := 1; i < len(a.notes); i++ {
		step := a.notes[i].CreatedAt.Compare(a.notes[i-1].CreatedAt)
		if step == -direction {
			return false
		}
		if step == direction {
			hasMoved = true
		}
	}
	return hasMoved
}

// askSizes finds the default size of a page, and what the service does with sizes that are too large or too small.
func (p *prober) askSizes(ctx context.Context, plain listAnswer) {
	names := p.report.QueryNames
	size := plain.number("per_page")
	switch {
	case size > 0:
		p.report.set("list.default_size", "%d", size)
	case names.Page != "" && len(p.list(ctx, names.Page, "2").notes) > 0:
		p.report.set("list.default_size", "%d, as the first page has", len(plain.notes))
	default:
		p.report.unseen("list.default_size", "at least %d, which came at once", len(plain.notes))
	}
	if names.PerPage == "" {
		p.report.unseen("list.size_above", "the parameter's name is not known")
		p.report.unseen("list.size_below", "the parameter's name is not known")
		return
	}
	for key, size := range map[string]string{"list.size_above": "101", "list.size_below": "0"} {
		a := p.list(ctx, names.PerPage, size)
		switch {
		case a.refused():
			p.report.set(key, "refused with %d", a.status)
		case !a.ok():
		case a.number("per_page") > 0:
			p.report.set(key, "accepted as %d", a.number("per_page"))
		default:
			p.report.set(key, "accepted with %d rows", len(a.notes))
		}
	}
}

// askUnknownParameter finds out whether the service ignores or rejects parameters that it cannot know.
func (p *prober) askUnknownParameter(ctx context.Context) {
	unknown := map[string]string{
		"list.unknown":        "synthetic_unknown",
		"list.unknown_filter": "filter[synthetic_unknown]",
	}
	for key, name := range unknown {
		a := p.list(ctx, name, "1")
		switch {
		case a.ok():
			p.report.set(key, "ignored")
		case a.refused():
			p.report.set(key, "refused with %d", a.status)
		}
	}
}

// askTexts gives a note of this run a long text, and compares it with the text in the note's row.
func (p *prober) askTexts(ctx context.Context, id int64) {
	const key = "list.texts"
	text := strings.Repeat("Synthetic text. ", 200)
	note, err := p.update(ctx, id, clinicaldoc.UpdateNoteParams{Transcription: &text})
	if err != nil {
		p.report.unseen(key, "update %s", outcome(err))
		return
	}
	var query []string
	if name := p.report.QueryNames.PatientID; name != "" {
		query = []string{name, strconv.FormatInt(p.PatientID, 10)}
	}
	for _, row := range p.list(ctx, query...).notes {
		switch {
		case row.ID != id:
		case row.Transcription == note.Transcription:
			p.report.set(key, "as in the note")
		case row.Transcription == "":
			p.report.set(key, "left out")
		default:
			p.report.set(key, "shortened")
		}
	}
	p.report.unseen(key, "the note is not on the list's first page")
}

// The shapes of a page.
const (
	shapeLengthAware   = "numbered pages with a total"
	shapeSimple        = "numbered pages without a total"
	shapeCursor        = "cursor in meta"
	shapeCursorInLinks = "cursor in links alone"
	shapeFlat          = "numbered pages, metadata beside data"
	shapeBare          = "data alone, in pages"
	shapeEverything    = "data alone, everything at once"
	shapeArray         = "a bare array"
)

// shape returns the shape of the list's pages, by the fields of a page without a query and the link of the first page
// of one row.
func (p *prober) shape(plain, first listAnswer) string {
	has := func(f fields, names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return f[name] != nil })
	}
	switch {
	case plain.top == nil:
		return shapeArray
	case has(plain.meta, "last_page", "total"):
		return shapeLengthAware
	case has(plain.meta, "next_cursor", "prev_cursor"):
		return shapeCursor
	case has(plain.meta, "current_page"):
		return shapeSimple
	case has(plain.top, "current_page", "next_page_url"):
		return shapeFlat
	case first.nextLink() != nil:
		return shapeCursorInLinks
	case p.report.QueryNames.PerPage != "":
		return shapeBare
	}
	return shapeEverything
}

// reportShape reports the fields of a page, and what its link to the next page contains.
func (p *prober) reportShape(plain, first listAnswer) {
	p.report.set("list.shape", "%s", p.shape(plain, first))
	p.report.set("list.links_fields", "%s", plain.links.names())
	p.report.set("list.meta_fields", "%s", plain.meta.names())
	beside := maps.Clone(plain.top)
	for _, described := range []string{"data", "links", "meta"} {
		delete(beside, described)
	}
	p.report.set("list.top_fields", "%s", beside.names())

	link := first.nextLink()
	if link == nil {
		p.report.unseen("list.links_query", "there is no next link")
		p.report.unseen("list.links_origin", "there is no next link")
		return
	}
	p.report.set("list.links_origin", "%s", p.originOf(link))
	oneRow := p.oneRow()
	switch {
	case oneRow == nil:
		p.report.unseen("list.links_query", "the page size's name is not known")
	case link.Query().Has(oneRow[0]):
		p.report.set("list.links_query", "kept")
	default:
		p.report.set("list.links_query", "dropped")
	}
}
