package clinicaldoctest_test

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// seeded starts a server with notes 1 to n, of patients 1 and 2 in turn, a
// minute apart.
func seeded(t *testing.T, n int, v clinicaldoctest.Variant) caller {
	t.Helper()
	c := start(t, clinicaldoctest.WithVariant(v), clinicaldoctest.WithFrozenClock(noon))
	for i := range n {
		c.srv.AddNote(clinicaldoctest.Note{PatientID: int64(i%2 + 1), CreatedAt: noon.Add(time.Duration(i) * time.Minute)})
	}
	return c
}

func (c caller) list(query string) object {
	c.t.Helper()
	return c.expect(http.StatusOK, http.MethodGet, "/v1/progress-notes?"+query)
}

// ids are the ids of a list's rows.
func ids(t *testing.T, list object) []int {
	t.Helper()
	found := []int{}
	for _, row := range field[[]any](t, list, "data") {
		found = append(found, int(field[float64](t, row, "id")))
	}
	return found
}

func TestList_QueryParameters_FilterSortAndPage(t *testing.T) {
	t.Parallel()
	c := seeded(t, 20, clinicaldoctest.Variant{})

	assert.Equal(t, []int{20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6}, ids(t, c.list("")), "15 rows, latest first")
	assert.Equal(t, []int{2, 4, 6}, ids(t, c.list("patient_id=2&sort=oldest&per_page=3")))
	assert.Equal(t, []int{8, 10, 12}, ids(t, c.list("patient_id=2&sort=oldest&per_page=3&page=2")))
	assert.Empty(t, ids(t, c.list("patient_id=99")))
	assert.Empty(t, ids(t, c.list("patient_id=0")))
	assert.Len(t, ids(t, c.list("patient=2&filter[patient_id]=2")), 15, "a wrong filter name lists everybody's notes")
	assert.Equal(t, 20, ids(t, c.list("page=&cursor=abc"))[0], "an odd page is the first")
	for _, past := range []string{"page=3", "page=9223372036854775807", "page=1000000000000000000"} {
		assert.Empty(t, ids(t, c.list(past)), past)
	}
	for query, field := range map[string]string{
		"per_page=ten": "per_page", "sort=name": "sort", "patient_id=x": "patient_id", "per_page=99999999999999999999": "per_page",
	} {
		refused := c.expect(http.StatusUnprocessableEntity, http.MethodGet, "/v1/progress-notes?"+query)
		assert.Contains(t, refused["errors"], field)
	}
}

func TestList_LengthAware_CountsRowsAndPages(t *testing.T) {
	t.Parallel()
	c := seeded(t, 5, clinicaldoctest.Variant{})
	base := c.srv.URL + "/v1/progress-notes"

	page := c.list("patient_id=1&per_page=1&page=2")
	assert.Equal(t, object{"first": base + "?page=1", "last": base + "?page=3", "prev": base + "?page=1", "next": base + "?page=3"}, page["links"],
		"links forget the query")
	meta := field[object](t, page, "meta")
	buttons := field[[]any](t, meta, "links")
	require.Len(t, buttons, 5)
	for i, button := range buttons {
		const page2 = 2 // after the buttons "Previous" and 1
		assert.Equal(t, i == page2, field[bool](t, button, "active"), i)
	}
	delete(meta, "links")
	assert.Equal(t, object{
		"current_page": 2.0, "from": 2.0, "last_page": 3.0, "path": base, "per_page": 1.0, "to": 2.0, "total": 3.0,
	}, meta)

	empty := c.list("patient_id=9")
	assert.Nil(t, field[any](t, empty, "links", "next"))
	assert.Nil(t, field[any](t, empty, "links", "prev"))
	assert.Nil(t, field[any](t, empty, "meta", "from"))
	assert.Equal(t, 1, int(field[float64](t, empty, "meta", "last_page")))
}

func TestList_LinkVariants_KeepQueryAndOrigin(t *testing.T) {
	t.Parallel()
	c := seeded(t, 5, clinicaldoctest.Variant{LinksKeepQuery: true, LinkOrigin: "http://internal.example.test", BasePath: "/api"})
	next := field[string](t, c.list("patient_id=1&per_page=1&sort=oldest"), "links", "next")
	assert.Equal(t, "http://internal.example.test/api/v1/progress-notes?page=2&patient_id=1&per_page=1&sort=oldest", next)
}

func TestList_SimplePagination_HasNoTotal(t *testing.T) {
	t.Parallel()
	c := seeded(t, 3, clinicaldoctest.Variant{Pagination: clinicaldoctest.PaginationSimple, PageSizeAsString: true})
	page := c.list("per_page=2")
	assert.Nil(t, field[any](t, page, "links", "last"))
	assert.NotEmpty(t, field[string](t, page, "links", "next"))
	assert.Equal(t, "2", field[string](t, page, "meta", "per_page"))
	assert.NotContains(t, page["meta"], "total")
	assert.NotContains(t, page["meta"], "last_page")
	assert.Nil(t, field[any](t, c.list("per_page=2&page=2"), "links", "next"))
}

func TestList_FlatPagination_HasNoMeta(t *testing.T) {
	t.Parallel()
	c := seeded(t, 3, clinicaldoctest.Variant{Pagination: clinicaldoctest.PaginationFlat, NumbersAsStrings: true})
	page := c.list("per_page=2")
	assert.Equal(t, c.srv.URL+"/v1/progress-notes?page=2", page["next_page_url"])
	assert.Equal(t, "3", page["total"])
	assert.NotContains(t, page, "links")
	assert.NotContains(t, page, "meta")
	assert.Nil(t, c.list("per_page=2&page=2")["next_page_url"])
}

func TestList_BarePagination_HasOnlyData(t *testing.T) {
	t.Parallel()
	c := seeded(t, 3, clinicaldoctest.Variant{Pagination: clinicaldoctest.PaginationBare})
	page := c.list("per_page=2&page=2")
	assert.Equal(t, []int{1}, ids(t, page))
	assert.Len(t, page, 1)

	arrays := seeded(t, 1, clinicaldoctest.Variant{Pagination: clinicaldoctest.PaginationBare, Empty: clinicaldoctest.EmptyArray})
	assert.Equal(t, []any{}, arrays.list("")["links"])
	assert.Equal(t, []any{}, arrays.list("")["meta"])
}

func TestList_NoPagination_ReturnsAllRows(t *testing.T) {
	t.Parallel()
	c := seeded(t, 30, clinicaldoctest.Variant{Pagination: clinicaldoctest.PaginationNone})
	assert.Len(t, ids(t, c.list("per_page=2&page=9")), 30)
}

func TestList_Cursors_ReachEveryRow(t *testing.T) {
	t.Parallel()
	for _, shape := range []clinicaldoctest.Pagination{clinicaldoctest.PaginationCursor, clinicaldoctest.PaginationCursorInLinks} {
		for _, sort := range []string{"latest", "oldest"} {
			c := seeded(t, 5, clinicaldoctest.Variant{Pagination: shape})
			c.srv.AddNote(clinicaldoctest.Note{CreatedAt: noon}) // shares its second with note 1
			var seen []int
			query := url.Values{"per_page": {"2"}, "sort": {sort}}
			for range 3 {
				page := c.list(query.Encode())
				seen = append(seen, ids(t, page)...)
				meta := field[object](t, page, "meta")
				if shape == clinicaldoctest.PaginationCursorInLinks {
					assert.NotContains(t, meta, "next_cursor")
				}
				link, more := field[any](t, page, "links", "next").(string)
				if !more {
					assert.Nil(t, meta["next_cursor"])
					break
				}
				next, err := url.Parse(link)
				require.NoError(t, err)
				if shape == clinicaldoctest.PaginationCursor {
					assert.Equal(t, next.Query().Get("cursor"), meta["next_cursor"])
				}
				query.Set("cursor", next.Query().Get("cursor"))
			}
			assert.ElementsMatch(t, []int{1, 2, 3, 4, 5, 6}, seen)
			assert.Equal(t, sort == "oldest", seen[0] == 1)
		}
	}
}

func TestList_OtherQueryNames_AreHonored(t *testing.T) {
	t.Parallel()
	c := seeded(t, 30, clinicaldoctest.Variant{
		OldestFirst: true, DefaultPageSize: 5, ClampPageSize: true, RefuseUnknownQuery: true,
		Query: clinicaldoctest.QueryNames{PatientID: "filter[patient_id]", PerPage: "page[size]", Sort: "order", Page: "page[number]"},
	})
	assert.Equal(t, []int{1, 2, 3, 4, 5}, ids(t, c.list("")))
	assert.Equal(t, []int{30}, ids(t, c.list(strings.ReplaceAll("page[size]=0&order=latest", "[", "%5B"))))
	assert.Len(t, ids(t, c.list("page[size]=1000&page[number]=1")), 30)
	assert.Equal(t, []int{2, 4, 6, 8, 10}, ids(t, c.list("filter[patient_id]=2")))
	c.expect(http.StatusBadRequest, http.MethodGet, "/v1/progress-notes?patient_id=2")
	c.expect(http.StatusBadRequest, http.MethodGet, "/v1/progress-notes?per_page=2")
}

func TestList_EmptyQueryValue_IsRefusedByVariant(t *testing.T) {
	t.Parallel()
	c := seeded(t, 2, clinicaldoctest.Variant{RefuseEmptyQuery: true})
	for _, name := range []string{"patient_id", "per_page", "sort"} {
		refused := c.expect(http.StatusUnprocessableEntity, http.MethodGet, "/v1/progress-notes?"+name+"=")
		assert.Contains(t, refused["errors"], name)
	}
	assert.Len(t, ids(t, c.list("")), 2)
}

func TestList_UnknownFilter_IsRefusedByVariant(t *testing.T) {
	t.Parallel()
	c := seeded(t, 2, clinicaldoctest.Variant{RefuseUnknownFilter: true, Query: clinicaldoctest.QueryNames{PatientID: "filter[patient_id]"}})
	c.expect(http.StatusBadRequest, http.MethodGet, "/v1/progress-notes?filter[patient]=1")
	assert.Len(t, ids(t, c.list("filter[patient_id]=1&anything=else")), 1)
}

func TestList_LongTexts_AreShortenedByVariant(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("Synthetic words. ", 20) + "End."
	for show, want := range map[clinicaldoctest.ListTexts]any{
		clinicaldoctest.ListTextsWhole:   long,
		clinicaldoctest.ListTextsExcerpt: long[:100] + "...",
		clinicaldoctest.ListTextsAbsent:  nil,
	} {
		c := start(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{ListTexts: show}))
		short := long[:100]
		c.srv.AddNote(clinicaldoctest.Note{Transcription: long, Analysis: short})
		row := field[object](t, field[[]any](t, c.list(""), "data")[0])
		assert.Equal(t, want, row["transcription"])
		if show == clinicaldoctest.ListTextsAbsent {
			assert.NotContains(t, row, "analysis")
		} else {
			assert.Equal(t, short, row["analysis"], "nothing is cut off")
		}
		assert.Equal(t, long, c.expect(http.StatusOK, http.MethodGet, "/v1/progress-notes/1")["transcription"], "the note itself has all of it")
	}
}

// A text that the SDK gets is also one of the fake server: an update sets it, and lists treat it as the others.
func TestList_EveryTextOfANote_IsShortenedByVariant(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("Synthetic words. ", 10) + "End."
	for show, want := range map[clinicaldoctest.ListTexts]any{
		clinicaldoctest.ListTextsWhole:   long,
		clinicaldoctest.ListTextsExcerpt: long[:100] + "...",
		clinicaldoctest.ListTextsAbsent:  nil,
	} {
		c := start(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{ListTexts: show}))
		c.srv.AddNote(clinicaldoctest.Note{})
		for text := range reflect.TypeFor[clinicaldoc.UpdateNoteParams]().Fields() {
			member, _, _ := strings.Cut(text.Tag.Get("json"), ",")
			if text.Type != reflect.TypeFor[*string]() || member == "name" { // which every row shows
				continue
			}
			updated := c.put("/v1/progress-notes/1", `{"`+member+`":"`+long+`"}`).object(t)
			require.Equal(t, long, updated[member], "an update does not set %s", member)
			row := field[object](t, field[[]any](t, c.list(""), "data")[0])
			assert.Equal(t, want, row[member], "%s in a list", member)
		}
	}
}

func TestList_NotesOfOneSecond_KeepDatabaseOrder(t *testing.T) {
	t.Parallel()
	for times, latest := range map[clinicaldoctest.TimeFormat][]int{
		clinicaldoctest.TimeMicroseconds: {4, 3, 2, 1},
		clinicaldoctest.TimeWholeSeconds: {4, 1, 2, 3},
		clinicaldoctest.TimeNoZone:       {4, 1, 2, 3},
		clinicaldoctest.TimeLocalNoZone:  {4, 1, 2, 3},
	} {
		for _, shape := range []clinicaldoctest.Pagination{clinicaldoctest.PaginationLengthAware, clinicaldoctest.PaginationCursor} {
			c := seeded(t, 0, clinicaldoctest.Variant{Times: times, Pagination: shape})
			for i := range 3 { // within the same second
				c.srv.AddNote(clinicaldoctest.Note{CreatedAt: noon.Add(time.Duration(i) * time.Millisecond)})
			}
			c.srv.AddNote(clinicaldoctest.Note{CreatedAt: noon.Add(time.Minute)})
			assert.Equal(t, latest, ids(t, c.list("")), "rows of one second come as the database has them")
			assert.Equal(t, []int{1, 2, 3, 4}, ids(t, c.list("sort=oldest")))
			first := c.list("per_page=2")
			query := "per_page=2&page=2"
			if shape == clinicaldoctest.PaginationCursor {
				query = "per_page=2&cursor=" + field[string](t, first, "meta", "next_cursor")
			}
			assert.Equal(t, latest, append(ids(t, first), ids(t, c.list(query))...))
		}
	}
}
