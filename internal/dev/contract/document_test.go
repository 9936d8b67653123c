package contract

import (
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// The document and the fake server have the same endpoints. The storage is not part of the document.
func TestDocument_HasTheEndpointsOfTheFakeServer(t *testing.T) {
	t.Parallel()
	doc := loaded(t).doc
	require.True(t, doc.IsOpenAPI31OrLater())
	assert.ElementsMatch(t, endpoints(doc), slices.DeleteFunc(clinicaldoctest.Routes(), func(route string) bool {
		return route == clinicaldoctest.RouteAudio
	}))
}

func endpoints(doc *openapi3.T) (found []string) {
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			found = append(found, method+" "+path)
		}
	}
	return found
}

func TestDocument_EveryOperation_IsComplete(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	require.Len(t, c.operations, len(endpoints(c.doc)), "operation ids must differ")
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

func TestDocument_RequiredMembers_AreTheDescribedOnes(t *testing.T) {
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

func TestDocument_AssumedNames_AreMarked(t *testing.T) {
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
