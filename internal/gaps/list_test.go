package gaps

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// pageOf returns an answer with this document.
func pageOf(document string) listAnswer {
	a := listAnswer{status: http.StatusOK, top: asObject([]byte(document))}
	a.meta = asObject(a.top["meta"])
	a.links = asObject(a.top["links"])
	return a
}

func TestNextLink_EitherPlace_IsRead(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]string{
		`{}`:                                 "",
		`{"links":{"next":"/notes?page=2"}}`: "/notes?page=2",
		`{"next_page_url":"/notes?page=3"}`:  "/notes?page=3",
		`{"links":{"next":null},"next_page_url":"/notes?page=3"}`:      "/notes?page=3",
		`{"links":{"next":""},"next_page_url":"/notes?page=3"}`:        "/notes?page=3",
		`{"links":{"next":7},"next_page_url":"/notes?page=3"}`:         "/notes?page=3",
		`{"links":{"next":"%zz"},"next_page_url":"/notes?page=3"}`:     "/notes?page=3",
		`{"links":{"next":"/notes"},"next_page_url":"/notes?page=3"}`:  "/notes",
		`{"links":{"next":null},"next_page_url":null}`:                 "",
		`{"links":{"next":"http://a.test/x?b=c"},"next_page_url":"y"}`: "http://a.test/x?b=c",
	} {
		link := pageOf(document).nextLink()
		if want == "" {
			assert.Nil(t, link, document)
			continue
		}
		require.NotNil(t, link, document)
		assert.Equal(t, want, link.String(), document)
	}
}

func TestPositionHints_CursorAndLink_ComeFirst(t *testing.T) {
	t.Parallel()
	oneRow := []string{"limit", "1"}
	for document, want := range map[string]struct{ cursor, page, cursorName string }{
		`{}`:                                                       {"", "page", "cursor"},
		`{"meta":{"next_cursor":"abc"}}`:                           {"abc", "page", "cursor"},
		`{"meta":{"next_cursor":null}}`:                            {"", "page", "cursor"},
		`{"meta":{"next_cursor":7}}`:                               {"", "page", "cursor"},
		`{"links":{"next":"?limit=1&p=2"}}`:                        {"", "p", "cursor"},
		`{"links":{"next":"?limit=1&after=abc"}}`:                  {"abc", "page", "after"},
		`{"links":{"next":"?limit=1&no%20name=abc"}}`:              {"", "page", "cursor"},
		`{"meta":{"next_cursor":"a"},"links":{"next":"?after=a"}}`: {"a", "page", "after"},
		`{"meta":{"next_cursor":"a"},"links":{"next":"?after=b"}}`: {"a", "page", "cursor"},
	} {
		hints := pageOf(document).positionHints(oneRow)
		assert.Equal(t, want.cursor, hints.cursor, document)
		assert.Equal(t, want.page, hints.pageNames[0], document)
		assert.Equal(t, want.cursorName, hints.cursorNames[0], document)
	}
}

func TestPrefer_OtherCandidates_Follow(t *testing.T) {
	t.Parallel()
	candidates := []string{"a", "b", "c"}
	assert.Equal(t, []string{"b", "a", "c"}, prefer(candidates, "b"))
	assert.Equal(t, []string{"x", "a", "b", "c"}, prefer(candidates, "x"))
	assert.Equal(t, []string{"a", "b", "c"}, candidates)
}

func TestIsSorted_Times_GoInOneDirection(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		minutes               []int
		ascending, descending bool
	}{
		{nil, false, false},
		{[]int{1}, false, false},
		{[]int{1, 1}, false, false},
		{[]int{1, 2}, true, false},
		{[]int{1, 1, 2}, true, false},
		{[]int{2, 1, 1}, false, true},
		{[]int{1, 2, 1}, false, false},
		{[]int{2, 1, 2}, false, false},
	} {
		var a listAnswer
		for _, minute := range tc.minutes {
			a.notes = append(a.notes, clinicaldoc.ProgressNote{CreatedAt: time.Unix(int64(minute)*60, 0)})
		}
		assert.Equal(t, tc.ascending, a.isSorted(ascending), tc.minutes)
		assert.Equal(t, tc.descending, a.isSorted(descending), tc.minutes)
	}
}

func TestNumber_MetaOrDocument_IsRead(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]int{
		`{"meta":{"per_page":15}}`: 15, `{"meta":{"per_page":"15"}}`: 15, `{"per_page":7}`: 7,
		`{"meta":{"per_page":15},"per_page":7}`: 15, `{"meta":{"per_page":null},"per_page":7}`: 7, `{}`: 0,
	} {
		assert.Equal(t, want, pageOf(document).number("per_page"), document)
	}
}

// noRowsFor is a service that finds no notes by a parameter which it does not know.
type noRowsFor struct {
	http.RoundTripper
	name string
}

func (n noRowsFor) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := n.RoundTripper.RoundTrip(req)
	if err != nil || !req.URL.Query().Has(n.name) {
		return resp, err
	}
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(strings.NewReader(`{"data":[]}`))
	resp.ContentLength = -1
	return resp, nil
}

// A filter that finds nothing for the patient either is not the filter by patient.
func TestProbe_ParameterWithoutRows_IsNotTheFilter(t *testing.T) {
	t.Parallel()
	box, options := startBox(t, clinicaldoctest.Variant{Query: clinicaldoctest.QueryNames{PatientID: "patient"}})
	client, err := clinicaldoc.NewClient(box.URL, box.Token, clinicaldoc.WithHTTPClient(&http.Client{
		Transport: noRowsFor{box.Transport(), "patient_id"},
	}))
	require.NoError(t, err)
	options.Client = client
	report, err := Probe(t.Context(), options)
	require.NoError(t, err)
	assert.Equal(t, "patient", report.Item("list.patient").Seen)
	encoded, err := json.Marshal(report.QueryNames)
	require.NoError(t, err)
	assert.Contains(t, string(encoded), `"patient"`)
}

// A page of one row proves nothing about the size of a page if there is only one row.
func TestAskList_FewNotes_AreNotEnough(t *testing.T) {
	t.Parallel()
	for count, isEnough := range []bool{false, false, true} {
		box, options := startBox(t, clinicaldoctest.Variant{})
		for range count {
			box.AddNote(clinicaldoctest.Note{PatientID: options.PatientID})
		}
		p := blank(options)
		p.askList(t.Context())
		assert.Equal(t, isEnough, p.report.Item("list.per_page").Known, count)
	}
}
