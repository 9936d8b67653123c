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

// losesLongChunked does as a service behind FastCGI may: of a long body without a length nothing arrives.
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
				_, _ = io.WriteString(w, `{"message":"The given data was invalid","errors":{"file":["The file field is required."]}}`)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		next.ServeHTTP(w, r)
	})
}

// A probe of one size says nothing of another: both are tried, and what was refused is told.
func TestUploadsAreTriedInTwoSizes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options         []clinicaldoctest.Option
		chunked, limits string
	}{
		"everything is taken": {nil, "accepted at 8 kB, accepted at 256 kB", "none up to 256 kB"},
		"long chunked bodies are lost": {
			[]clinicaldoctest.Option{clinicaldoctest.WithMiddleware(losesLongChunked)},
			"accepted at 8 kB, refused with 422 at 256 kB", "none up to 256 kB",
		},
		"long bodies are refused": {
			[]clinicaldoctest.Option{clinicaldoctest.WithVariant(clinicaldoctest.Variant{MaxUploadSize: 100_000})},
			"accepted at 8 kB, refused with 413 at 256 kB", "above 8 kB: 256 kB was refused with 413",
		},
		"all but the shortest are refused": {
			[]clinicaldoctest.Option{clinicaldoctest.WithVariant(clinicaldoctest.Variant{MaxUploadSize: 2_000, TooLarge: clinicaldoctest.TooLargeField})},
			"refused with 422 at 8 kB, refused with 422 at 256 kB", "above 500 B: 8 kB was refused with 422",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := clinicaldoctest.NewServer(append(test.options, clinicaldoctest.WithDelays(clinicaldoctest.Delays{}))...)
			t.Cleanup(box.Close)
			options := Options{
				Client: box.Client(), Stranger: box.Client(clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{})), BaseURL: box.URL,
				PatientID: 1, PromptID: 1, NamePrefix: "Gaps", Audio: bytes.Repeat([]byte("audio"), 100), WaitFor: step, Interval: 1,
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
			assert.Equal(t, !strings.Contains(test.limits, "above 500"), sizes[8_000])
		})
	}
}

// The report as a page is one file that needs nothing else, and whatever a service said stays text in it.
func TestTheReportAsAPage(t *testing.T) {
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
	for _, want := range []string{"&lt;script&gt;alert(1)", "https://service.example", "Ask &amp; wait.", "was flat", "upload size limit", "WithQueryNames"} {
		assert.Contains(t, text, want)
	}
	for _, never := range []string{"<script", "src=", "href=", "@import", "url("} {
		assert.NotContains(t, text, never, "nothing is loaded or run")
	}
	for _, item := range report.Items {
		assert.Contains(t, text, item.Key)
	}
}
