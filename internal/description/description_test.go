package description_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/docs"
	"github.com/clinicaldoc/clinicaldoc-go/internal/description"
)

func TestDescription_Document_IsRead(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, description.Endpoints)
	for route, e := range description.Endpoints {
		assert.Equal(t, description.Object, e.Success.Kind, route)
		assert.NotEmpty(t, e.Success.Fields, route)
		assert.Contains(t, e.Errors, 401, route)
		assert.Equal(t, route == "PUT /v1/progress-notes/{id}/sign", e.AnyRefusal, route)
	}
	update := description.Endpoints["PUT /v1/progress-notes/{id}"]
	assert.Equal(t, 200, update.Status)
	assert.ElementsMatch(t, []int{401, 403, 404, 422}, update.Errors)
	assert.Zero(t, description.Endpoints["GET /user"].Status)
	assert.Equal(t,
		map[int]string{401: "Unauthorized", 404: "Resource not found", 422: "The given data was invalid"},
		description.Messages,
	)
}

// Programs that generate responses from the document use its examples, or else the smallest value that fits. An ID of 0
// would be invalid.
func TestDescription_ExamplesAndMinimums_AreRealistic(t *testing.T) {
	t.Parallel()
	type schema struct {
		Example    json.RawMessage
		Properties map[string]struct {
			Type    any
			Minimum *int64
		}
	}
	var doc struct {
		Components struct{ Schemas map[string]schema }
	}
	require.NoError(t, json.Unmarshal(docs.OpenAPI(), &doc))
	for name, s := range doc.Components.Schemas {
		for property, p := range s.Properties {
			if p.Type == "integer" && (property == "id" || strings.HasSuffix(property, "_id")) {
				if assert.NotNil(t, p.Minimum, "%s.%s", name, property) {
					assert.Equal(t, int64(1), *p.Minimum, "%s.%s", name, property)
				}
			}
		}
	}
	for _, name := range []string{"ProgressNote", "User", "AudioURL", "Token"} {
		var example map[string]any
		require.NoError(t, json.Unmarshal(doc.Components.Schemas[name].Example, &example), name)
		for field := range example {
			assert.Contains(t, description.Schemas[name].Fields, field, name)
		}
		for _, required := range description.Schemas[name].Required {
			assert.Contains(t, example, required, name)
		}
	}
}

func TestSchema_EveryForm_IsRead(t *testing.T) {
	t.Parallel()
	note := description.Endpoints["GET /v1/progress-notes"].Success.Fields["data"].Elements
	assert.Equal(t, description.Schemas["ProgressNote"], note)
	assert.Contains(t, note.Required, "created_at")
	assert.Equal(t, &description.Schema{Kind: description.Integer}, note.Fields["id"])
	assert.Equal(t, &description.Schema{Kind: description.DateTime}, note.Fields["created_at"])
	assert.Equal(t, &description.Schema{Kind: description.String, Nullable: true}, note.Fields["error_state"])
	assert.Equal(t, &description.Schema{Kind: description.Object}, note.Fields["patient"])
	assert.Equal(t, description.Number, note.Fields["audio"].Fields["duration"].Kind)
	assert.Equal(t, &description.Schema{Kind: description.Map, Elements: &description.Schema{
		Kind: description.Array, Elements: &description.Schema{Kind: description.String},
	}}, description.Schemas["Error"].Fields["errors"])
}
