package contract_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/contract"
)

// The SDK's requests keep the contract whatever the service is like, and the box's answers keep it but for what the
// table of departures says.
func TestEveryVariantKeepsTheContract(t *testing.T) {
	t.Parallel()
	for _, variant := range clinicaldoctest.Variants() {
		t.Run(variant.Name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, variant)
			b.converse(t)
			used := map[string]bool{}
			for _, e := range b.exchanges() {
				require.NoError(t, e.RequestErr)
				if e.AnswerErr == nil {
					continue
				}
				mended := mend(t, e, departures[variant.Name], used)
				require.NoErrorf(t, b.contract.CheckAnswer(t.Context(), e.Operation, mended), "%s", e.Answer.Body)
			}
			for _, d := range departures[variant.Name] {
				assert.Truef(t, used[d.what], "the variant does not depart in this: %s", d.what)
			}
		})
	}
}

func TestDeparturesAreOfVariants(t *testing.T) {
	t.Parallel()
	require.Empty(t, departures["default"])
	for name := range departures {
		_, ok := clinicaldoctest.VariantNamed(name)
		assert.True(t, ok, name)
	}
}

// mend undoes departures in a copy of the answer, and notes which of them it met.
func mend(t *testing.T, e contract.Exchange, all []departure, used map[string]bool) contract.Answer {
	t.Helper()
	status, text := e.Answer.Status, e.Answer.Body
	for _, d := range all {
		var body any
		if len(text) > 0 {
			require.NoError(t, json.Unmarshal(text, &body))
		}
		before, err := json.Marshal(body)
		require.NoError(t, err)
		var undone any
		status, undone = d.undo(e.Operation, status, body)
		text, err = json.Marshal(undone)
		require.NoError(t, err)
		if !bytes.Equal(before, text) {
			used[d.what] = true
		}
	}
	return contract.Answer{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: text}
}
