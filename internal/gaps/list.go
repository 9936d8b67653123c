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

// answered is one answer of the list.
type answered struct {
	status      int // 0: no answer that could be read
	notes       []clinicaldoc.ProgressNote
	raw         []json.RawMessage
	top         fields
	meta, links fields
}

// ok and refused are both false when the answer says nothing of the query: the service failed or was asked too often.
func (a answered) ok() bool { return a.status/100 == 2 }
func (a answered) refused() bool {
	switch a.status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// hasRows reports whether the answer is a page with this many rows.
func (a answered) hasRows(n int) bool { return a.ok() && len(a.notes) == n }

func (a answered) firstID() int64 {
	if len(a.notes) == 0 {
		return 0
	}
	return a.notes[0].ID
}

// number reads a number of the page's metadata, wherever it stands; 0 when it is not told.
func (a answered) number(name string) int {
	for _, f := range []fields{a.meta, a.top} {
		if n, err := strconv.Atoi(strings.Trim(string(f[name]), `"`)); err == nil {
			return n
		}
	}
	return 0
}

// next is the link to the next page, or nil.
func (a answered) next() *url.URL {
	for _, raw := range []json.RawMessage{a.links["next"], a.top["next_page_url"]} {
		var link string
		if json.Unmarshal(raw, &link) == nil && link != "" {
			if u, err := url.Parse(link); err == nil {
				return u
			}
		}
	}
	return nil
}

// list asks for notes with these names and values in the query.
func (p *prober) list(ctx context.Context, query ...string) answered {
	var r clinicaldoc.Response
	opts := []clinicaldoc.CallOption{clinicaldoc.WithResponse(&r)}
	for pair := range slices.Chunk(query, 2) {
		opts = append(opts, clinicaldoc.WithQuery(pair[0], pair[1]))
	}
	var body json.RawMessage
	err := p.Client.Do(ctx, http.MethodGet, "/v1/progress-notes", nil, &body, opts...)
	p.saw("code.list", r, err)
	if err != nil {
		return answered{status: statusOf(err)}
	}
	a := answered{status: r.StatusCode, top: asObject(body)}
	a.meta = asObject(a.top["meta"])
	a.links = asObject(a.top["links"])
	rows := a.top["data"]
	if a.top == nil {
		rows = body
	}
	if json.Unmarshal(rows, &a.notes) != nil || json.Unmarshal(rows, &a.raw) != nil {
		return answered{}
	}
	return a
}

// askList finds the names of the list's parameters, and with them the rest of its manners.
func (p *prober) askList(ctx context.Context) {
	plain := p.list(ctx)
	if !plain.ok() || len(plain.notes) < 2 {
		for _, q := range questions {
			if strings.HasPrefix(q.key, "list.") {
				p.report.unseen(q.key, "the list does not show the notes just created")
			}
		}
		return
	}
	for i, raw := range plain.raw {
		if p.own[plain.notes[i].ID] { // of other notes not even the fields' names are told
			p.seen.row(asObject(raw))
		}
	}
	p.seen.meta("meta", plain.meta)
	p.seen.meta("page", plain.top)
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

	one := p.oneRow()
	first := p.list(ctx, one...)
	p.askPosition(ctx, one, first)
	p.askSort(ctx, one, plain, first)
	p.askSizes(ctx, plain)
	p.askUnknownParameter(ctx)
	p.tellShape(plain, first)
}

// oneRow is the query for pages of one row, where the page size's name is known.
func (p *prober) oneRow() []string {
	if p.report.QueryNames.PerPage == "" {
		return nil
	}
	return []string{p.report.QueryNames.PerPage, "1"}
}

// find tries names until one works.
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

// askPosition finds how the second page is asked for: by number or by cursor. The first page's own link is the best
// hint.
func (p *prober) askPosition(ctx context.Context, one []string, first answered) {
	pages := pageNames
	cursors := cursorNames
	var cursor string
	if raw := first.meta["next_cursor"]; kind(raw) == "string" {
		_ = json.Unmarshal(raw, &cursor)
	}
	if link := first.next(); link != nil {
		for name, values := range link.Query() {
			switch {
			case slices.Contains(one, name), !isParameterName(name):
			case values[0] == "2":
				pages = prefer(pages, name)
			case cursor == "", values[0] == cursor:
				cursor = values[0]
				cursors = prefer(cursors, name)
			}
		}
	}
	moves := func(name, value string) bool {
		second := p.list(ctx, append(slices.Clone(one), name, value)...)
		if !second.ok() {
			return false
		}
		return second.number("current_page") == 2 || second.firstID() != first.firstID()
	}
	names := &p.report.QueryNames
	if cursor == "" {
		p.report.unseen("list.cursor", "no cursor is given")
		names.Page = p.find("list.page", pages, func(name string) bool { return moves(name, "2") })
	} else {
		names.Cursor = p.find("list.cursor", cursors, func(name string) bool { return moves(name, cursor) })
		p.report.unseen("list.page", "pages go by cursor")
	}
	// There are three notes at least, so that one row is not all.
	p.report.PagesUnreachable = names.Page == "" && names.Cursor == "" && len(one) > 0
}

func prefer(candidates []string, name string) []string {
	rest := slices.DeleteFunc(slices.Clone(candidates), func(other string) bool { return other == name })
	return append([]string{name}, rest...)
}

// isParameterName keeps data out of the report that a link might carry as a name.
func isParameterName(name string) bool {
	return printableName.MatchString(strings.NewReplacer("[", "_", "]", "_", ".", "_").Replace(name))
}

func (p *prober) askSort(ctx context.Context, one []string, plain, first answered) {
	var latest, oldest answered
	p.report.QueryNames.Sort = p.find("list.sort", sortNames, func(name string) bool {
		latest = p.list(ctx, append(slices.Clone(one), name, string(clinicaldoc.SortLatest))...)
		oldest = p.list(ctx, append(slices.Clone(one), name, string(clinicaldoc.SortOldest))...)
		return latest.ok() && oldest.ok() && latest.firstID() != oldest.firstID()
	})
	isKnown := p.report.QueryNames.Sort != ""
	switch {
	case isKnown && first.firstID() == latest.firstID():
		p.report.set("list.default_sort", "latest")
	case isKnown && first.firstID() == oldest.firstID():
		p.report.set("list.default_sort", "oldest")
	case plain.sorted(1):
		p.report.set("list.default_sort", "oldest, as the rows' created_at tell")
	case plain.sorted(-1):
		p.report.set("list.default_sort", "latest, as the rows' created_at tell")
	default:
		p.report.set("list.default_sort", "neither latest nor oldest")
	}
}

// sorted tells whether the rows' times go in one direction, and do go.
func (a answered) sorted(direction int) bool {
	went := false
	for i := 1; i < len(a.notes); i++ {
		step := a.notes[i].CreatedAt.Compare(a.notes[i-1].CreatedAt)
		if step == -direction {
			return false
		}
		if step == direction {
			went = true
		}
	}
	return went
}

func (p *prober) askSizes(ctx context.Context, plain answered) {
	names := p.report.QueryNames
	switch size := plain.number("per_page"); {
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
		switch a := p.list(ctx, names.PerPage, size); {
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

func (p *prober) askUnknownParameter(ctx context.Context) {
	unknown := map[string]string{
		"list.unknown":        "synthetic_unknown",
		"list.unknown_filter": "filter[synthetic_unknown]",
	}
	for key, name := range unknown {
		switch a := p.list(ctx, name, "1"); {
		case a.ok():
			p.report.set(key, "ignored")
		case a.refused():
			p.report.set(key, "refused with %d", a.status)
		}
	}
}

// askTexts gives a note of the probe's own a long text and looks for it in the note's row.
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

func (p *prober) tellShape(plain, first answered) {
	has := func(f fields, names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return f[name] != nil })
	}
	shape := shapeEverything
	switch {
	case plain.top == nil:
		shape = shapeArray
	case has(plain.meta, "last_page", "total"):
		shape = shapeLengthAware
	case has(plain.meta, "next_cursor", "prev_cursor"):
		shape = shapeCursor
	case has(plain.meta, "current_page"):
		shape = shapeSimple
	case has(plain.top, "current_page", "next_page_url"):
		shape = shapeFlat
	case first.next() != nil:
		shape = shapeCursorInLinks
	case p.report.QueryNames.PerPage != "":
		shape = shapeBare
	}
	p.report.set("list.shape", "%s", shape)
	p.report.set("list.links_fields", "%s", plain.links.names())
	p.report.set("list.meta_fields", "%s", plain.meta.names())
	beside := maps.Clone(plain.top)
	for _, described := range []string{"data", "links", "meta"} {
		delete(beside, described)
	}
	p.report.set("list.top_fields", "%s", beside.names())

	link := first.next()
	if link == nil {
		p.report.unseen("list.links_query", "there is no next link")
		p.report.unseen("list.links_origin", "there is no next link")
		return
	}
	p.report.set("list.links_origin", "%s", p.originOf(link))
	one := p.oneRow()
	switch {
	case one == nil:
		p.report.unseen("list.links_query", "the page size's name is not known")
	case link.Query().Has(one[0]):
		p.report.set("list.links_query", "kept")
	default:
		p.report.set("list.links_query", "dropped")
	}
}
