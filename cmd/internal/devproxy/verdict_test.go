package devproxy

import (
	"html"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/docs"
)

// The data of the local server is synthetic, so the page shows the values that a program gets.
func TestVerdict_LocalServer_ShowsValues(t *testing.T) {
	t.Parallel()
	c := launch(t, "-seed", "2")
	c.get("/user")
	c.get("/v1/progress-notes/1")
	c.get("/v1/progress-notes")
	for id, want := range map[int64][]string{
		1: {`"name": "User 1"`, `"email": "user1@example.test"`},
		2: {`"id": 1,`, `"transcription": "`},
		3: {`"id": 1,`, `"id": 2,`},
	} {
		thought := c.opened(id).Verdict
		require.NotNil(t, thought)
		assert.False(t, thought.Failed, thought.Text)
		for _, text := range want {
			assert.Contains(t, thought.Text, text)
		}
		assert.NotContains(t, thought.Text, "{id=")
	}
}

// With -show-bodies the page shows bodies of a real service. The SDK's result of a request is still shown as in a log,
// without values.
func TestVerdict_RealService_ShowsNoValues(t *testing.T) {
	t.Parallel()
	service := launch(t)
	c := launch(t, "-upstream", service.url, "-show-bodies")
	c.token = service.token
	require.Equal(t, http.StatusOK, c.get("/user").status)
	thought := c.opened(1).Verdict
	require.NotNil(t, thought)
	assert.False(t, thought.Failed, thought.Text)
	assert.Contains(t, thought.Text, "clinicaldoc.User{id=1")
	assert.NotContains(t, thought.Text, "example.test")
}

func TestVerdict_Failure_IsExplainedAsOnTheErrorsPage(t *testing.T) {
	t.Parallel()
	c := launch(t, "-fault", "GET /user:status=503", "-fault", "POST /v1/progress-notes:status=503")
	c.get("/user")
	thought := c.opened(1).Verdict
	require.NotNil(t, thought)
	assert.Equal(t, "the service failed (5xx), retries used up", thought.Happened)
	assert.Equal(t, "try later", thought.Do)
	assert.True(t, thought.Retryable)

	c.create()
	thought = c.opened(2).Verdict
	require.NotNil(t, thought)
	assert.Equal(t, "a create without a usable response", thought.Happened)
	assert.Contains(t, thought.Do, "Never just create again")
	assert.False(t, thought.Retryable)
}

func TestUpdate_EveryTextOfANote_IsCopiedAndSent(t *testing.T) {
	t.Parallel()
	names := clinicaldoctest.Variants()[0].Query
	for _, field := range reflect.VisibleFields(reflect.TypeFor[clinicaldoc.UpdateNoteParams]()) {
		if field.Type != reflect.TypeFor[*string]() {
			continue
		}
		member, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/v1/progress-notes/5", nil)
		rec := newRecord(r, &bodies{})
		_, _ = rec.requestBody.Write([]byte(`{"` + member + `":"canary"}`))
		call := callOf(clinicaldoctest.RouteUpdateNote, rec, names)
		assert.Contains(t, call.text(clinicaldoctest.RouteUpdateNote), "{"+field.Name+`: new("canary")}`)
		sent := reflect.ValueOf(call.update()).FieldByIndex(field.Index)
		require.False(t, sent.IsNil(), field.Name)
		assert.Equal(t, "canary", sent.Elem().String())
	}
}

// A service reads the names of members exactly, unlike encoding/json.
func TestUpdate_OtherSpellingOfAText_IsNotCopied(t *testing.T) {
	t.Parallel()
	call := goCall{fields: map[string]string{"Analysis": "canary"}}
	assert.Zero(t, call.update())
	assert.Empty(t, call.updateParams())
}

// The words are those of docs/errors.md, which may be edited without a thought of this page.
func TestAdvice_EverySentinel_IsOnTheErrorsPage(t *testing.T) {
	t.Parallel()
	for _, s := range sentinels {
		happened, do := advice(s.name)
		assert.NotEmpty(t, happened, s.name)
		assert.NotEmpty(t, do, s.name)
	}
	create, _ := advice("*OutcomeUnknownError")
	edit, _ := advice("ErrOutcomeUnknown")
	assert.NotEqual(t, create, edit, "what is unknown of a create is another matter than of an edit")
}

// A page is shown as text: nothing in it is markup for the browser, except headings.
func TestDocs_EachPage_IsEscaped(t *testing.T) {
	t.Parallel()
	heading := regexp.MustCompile(`<b id="[a-z0-9-]*">|</b>`)
	pages, err := fs.Glob(docs.Pages(), "*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, name := range pages {
		page, err := fs.ReadFile(docs.Pages(), name)
		require.NoError(t, err)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/_/docs/"+name, nil)
		r.SetPathValue("name", name)
		w := httptest.NewRecorder()
		serveDocs(w, r)
		_, shown, _ := strings.Cut(w.Body.String(), "<pre>")
		shown, _, _ = strings.Cut(shown, "</pre>\n</html>\n")
		assert.Equal(t, html.EscapeString(string(page)), heading.ReplaceAllString(shown, ""), name)
	}
}

// A link leads to a page that the proxy has, and to a heading that the page has.
func TestDocs_EveryLinkOfAVerdict_LeadsToAHeading(t *testing.T) {
	t.Parallel()
	c := launch(t)
	for _, s := range sentinels {
		path, anchor, _ := strings.Cut(s.docs, "#")
		page := c.get("/_/" + path)
		assert.Equal(t, http.StatusOK, page.status, path)
		assert.Contains(t, page.text, `<b id="`+anchor+`">#`, s.docs)
	}
	assert.Equal(t, http.StatusNotFound, c.get("/_/docs/openapi.go").status)
}
