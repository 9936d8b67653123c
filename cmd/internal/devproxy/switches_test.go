package devproxy

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestVariant_JSON_RoundTrips(t *testing.T) {
	t.Parallel()
	for _, v := range clinicaldoctest.Variants() {
		text, err := json.Marshal(variant(v))
		require.NoError(t, err)
		var read variant
		require.NoError(t, json.Unmarshal(text, &read), string(text))
		assert.Equal(t, v, clinicaldoctest.Variant(read))
	}
}

func TestSwitches_EveryField_HasNameAndKind(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(variant{})
	require.NoError(t, err)
	var members map[string]any
	require.NoError(t, json.Unmarshal(text, &members))
	kinds := map[string]string{}
	for _, s := range switches() {
		kinds[s.Name] = s.Kind
		assert.Contains(t, members, s.Name)
		assert.Equal(t, s.Kind == "choice", len(s.Values) > 1, s.Name)
		for _, value := range s.Values {
			var v variant
			require.NoError(t, json.Unmarshal([]byte(`{"`+s.Name+`":"`+value+`"}`), &v))
		}
	}
	assert.Len(t, kinds, len(members))
	for name, kind := range map[string]string{
		"audio_url_lifetime": "duration", "always_json": "flag", "pagination": "choice", "create_status": "number",
		"query": "object", "optional_parts": "list", "link_origin": "text", "max_upload_size": "number",
	} {
		assert.Equal(t, kind, kinds[name], name)
	}
}

func TestVariant_SomeSwitches_ChangeOnlyThose(t *testing.T) {
	t.Parallel()
	v := variant{ClampPageSize: true, Query: clinicaldoctest.QueryNames{Sort: "order"}}
	require.NoError(t, json.Unmarshal([]byte(`{"pagination":"cursor","audio_url_lifetime":"1m30s","query":{"page":"p"},"rate_limit":5}`), &v))
	assert.Equal(t, variant{
		ClampPageSize: true, Pagination: clinicaldoctest.PaginationCursor, AudioURLLifetime: 90 * time.Second, RateLimit: 5,
		Query: clinicaldoctest.QueryNames{Sort: "order", Page: "p"},
	}, v)

	require.NoError(t, json.Unmarshal([]byte(`{"clock_offset":"-40s","date_offset":"-2s"}`), &v), "clocks may be slow")
	assert.Equal(t, -40*time.Second, v.ClockOffset)

	for text, want := range map[string]string{
		`[]`:                           "a JSON object",
		`{"no_such":1}`:                `no switch "no_such"`,
		`{"query":{"no_such":"x"}}`:    `no switch "no_such"`,
		`{"pagination":"backwards"}`:   "pagination: want one of length-aware, simple",
		`{"pagination":3}`:             "pagination: want a choice as text",
		`{"clamp_page_size":"yes"}`:    "clamp_page_size: want a flag",
		`{"audio_url_lifetime":"5 m"}`: "audio_url_lifetime",
		`{"audio_url_lifetime":5}`:     "want a duration as text",
		`{"rate_limit":-1}`:            "rate_limit: -1 is below 0",
		`{"rate_window":"-1s"}`:        "rate_window: -1s is below 0",
		`{"audio_retention":"-1h"}`:    "audio_retention: -1h0m0s is below 0",
		`{"create_status":77}`:         "create_status: 77 is not a status",
		`{"delete_status":600}`:        "delete_status: 600 is not a status",
		`{"signed_change_status":199}`: "signed_change_status: 199 is not a status",

		`{"incomplete_sign_status":600}`: "incomplete_sign_status: 600 is not a status",
	} {
		before := v
		require.ErrorContains(t, json.Unmarshal([]byte(text), &v), want, text)
		assert.Equal(t, before, v, "nothing is half set")
	}
}

func TestSwitchName_Abbreviations_StayTogether(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"ReuseIDs": "reuse_ids", "NoRequestID": "no_request_id", "AudioURLLifetime": "audio_url_lifetime", "AlwaysJSON": "always_json",
		"URLsExpire": "urls_expire",
	} {
		assert.Equal(t, want, switchName(field))
	}
}
