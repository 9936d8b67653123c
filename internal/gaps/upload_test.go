package gaps

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// losesLongChunked behaves like a service behind FastCGI: a long body without a length does not arrive.
func losesLongChunked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.ContentLength < 0 {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			if len(body) > 200_000 {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusUnprocessableEntity)
				_, _ = io.WriteString(
					w, `{"message":"The given data was invalid","errors":{"file":["The file field is required."]}}`,
				)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		next.ServeHTTP(w, r)
	})
}

// A service may accept one size and refuse another. So 8 kB and 256 kB are uploaded, and the report names the one that
// was refused.
func TestProbe_Uploads_AreTriedInTwoSizes(t *testing.T) {
	t.Parallel()
	below256kB := clinicaldoctest.Variant{MaxUploadSize: 100_000}
	below8kB := clinicaldoctest.Variant{MaxUploadSize: 2_000, TooLarge: clinicaldoctest.TooLargeField}
	for name, test := range map[string]struct {
		option          clinicaldoctest.Option
		chunked, limits string // in the report
		takes8kB        bool
	}{
		"everything is taken": {
			option:  clinicaldoctest.WithVariant(clinicaldoctest.Variant{}),
			chunked: "accepted at 8 kB, accepted at 256 kB", limits: "none up to 256 kB", takes8kB: true,
		},
		"long chunked bodies are lost": {
			option:  clinicaldoctest.WithMiddleware(losesLongChunked),
			chunked: "accepted at 8 kB, refused with 422 at 256 kB", limits: "none up to 256 kB", takes8kB: true,
		},
		"long bodies are refused": {
			option:  clinicaldoctest.WithVariant(below256kB),
			chunked: "accepted at 8 kB, refused with 413 at 256 kB",
			limits:  "above 8 kB: 256 kB was refused with 413", takes8kB: true,
		},
		"all but the shortest are refused": {
			option:  clinicaldoctest.WithVariant(below8kB),
			chunked: "refused with 422 at 8 kB, refused with 422 at 256 kB",
			limits:  "above 500 B: 8 kB was refused with 422", // 500 B is the caller's own recording
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := clinicaldoctest.NewServer(test.option, clinicaldoctest.WithDelays(clinicaldoctest.Delays{}))
			t.Cleanup(box.Close)
			recording := bytes.Repeat([]byte("audio"), 100) // 500 B
			options := Options{
				Client: box.Client(), Stranger: box.Client(clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{})), BaseURL: box.URL,
				PatientID: 1, PromptID: 1, NamePrefix: "Gaps", Audio: recording, WaitFor: step, Interval: 1,
			}
			report, err := Probe(t.Context(), options)
			require.NoError(t, err)
			assert.Equal(t, test.chunked, report.Item("create.chunked").Seen)
			assert.Equal(t, test.limits, report.Item("limits.upload").Seen)
			assert.True(t, report.Item("limits.upload").Known)
			assert.Empty(t, report.LeftBehind)
			sizes := map[int64]bool{}
			for _, c := range box.Created() {
				sizes[c.AudioSize] = true
			}
			assert.Equal(t, test.takes8kB, sizes[8_000], "a recording of 8 kB became a note")
		})
	}
}

// The page is one file that loads nothing. Responses of the service are escaped in it.
func TestWriteHTML_OnePage_EscapesAndLoadsNothing(t *testing.T) {
	t.Parallel()
	report := newReport()
	report.set("list.shape", "<script>alert(1)</script>")
	report.Advice = []string{"Ask & wait."}
	report.LeftBehind = []int64{7}
	earlier := newReport()
	earlier.set("list.shape", "flat")
	var page strings.Builder
	require.NoError(t, report.WriteHTML(&page, "https://service.example", earlier))
	text := page.String()
	assert.True(t, strings.HasPrefix(text, "<!doctype html>"))
	for _, want := range []string{
		"&lt;script&gt;alert(1)", "https://service.example", "Ask &amp; wait.", "was flat", "upload size limit",
		"WithQueryNames",
	} {
		assert.Contains(t, text, want)
	}
	for _, never := range []string{"<script", "src=", "href=", "@import", "url("} {
		assert.NotContains(t, text, never, "nothing is loaded or run")
	}
	for _, item := range report.Items {
		assert.Contains(t, text, item.Key)
	}
}
