package contract

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// endpoints are the ten of the service's description.
var endpoints = []string{
	"DELETE /v1/auth/tokens/{id}",
	"DELETE /v1/progress-notes/{id}",
	"GET /user",
	"GET /v1/auth/tokens",
	"GET /v1/progress-notes",
	"GET /v1/progress-notes/{id}",
	"GET /v1/progress-notes/{id}/audio-url",
	"POST /v1/progress-notes",
	"PUT /v1/progress-notes/{id}",
	"PUT /v1/progress-notes/{id}/sign",
}

func TestDocumentHasExactlyTheTenEndpoints(t *testing.T) {
	t.Parallel()
	doc := loaded(t).doc
	require.True(t, doc.IsOpenAPI31OrLater())

	var found []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			found = append(found, method+" "+path)
		}
	}
	assert.ElementsMatch(t, endpoints, found)

	boxed := slices.DeleteFunc(clinicaldoctest.Routes(), func(route string) bool { return route == clinicaldoctest.RouteAudio })
	assert.ElementsMatch(t, endpoints, boxed, "the storage is not part of the document, all else in the box is")
}

func TestEveryOperationIsComplete(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	require.Len(t, c.operations, len(endpoints), "operation ids must differ")
	for id, route := range c.operations {
		operation := route.Operation
		assert.Regexp(t, `^[a-z][A-Za-z]+$`, id)
		assert.Len(t, operation.Tags, 1, id)
		assert.NotEmpty(t, operation.Summary, id)
		assert.NotNil(t, operation.Responses.Value("401"), id)
		assert.NotNil(t, operation.Responses.Default(), id)
		assert.NotNil(t, operation.Responses.Status(200), id)
	}
}

func TestRequiredMembersAreTheDescribedOnes(t *testing.T) {
	t.Parallel()
	doc := loaded(t).doc
	described := map[string][]string{
		"AudioURL":        {"url"},
		"Confirmation":    {"message"},
		"Error":           {"message"},
		"NotePage":        {"data", "links", "meta"}, // an assumption, and marked as such
		"ProgressNote":    {"id", "name", "team_id", "user_id", "created_at", "updated_at"},
		"TokenList":       {"tokens"},
		"ValidationError": {"message", "errors"},
	}
	for name, schema := range doc.Components.Schemas {
		assert.ElementsMatch(t, described[name], schema.Value.Required, name)
	}
}

func TestAssumedNamesAreMarked(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	var names []string
	for _, parameter := range c.operations["listNotes"].Operation.Parameters {
		names = append(names, parameter.Value.Name)
		assert.Contains(t, parameter.Value.Description, "assumption", parameter.Value.Name)
		assert.False(t, parameter.Value.Required, parameter.Value.Name)
	}
	assert.Equal(t, []string{"patient_id", "per_page", "sort", "page", "cursor"}, names)
}
