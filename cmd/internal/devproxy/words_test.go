package devproxy

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSize_EachSize_IsForPeople(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1_000: "1.0 kB", 1_540: "1.5 kB", 1_000_000: "1.0 MB", 2_540_000: "2.5 MB",
	} {
		assert.Equal(t, want, size(bytes))
	}
}

func TestRetryable_EachStatus_IsTheClientsChoice(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{0: true, 200: false, 404: false, 429: true, 499: false, 500: true} {
		assert.Equal(t, want, retryable(status), status)
	}
}

// A caller may send any text as a method, so the log names only known ones.
func TestMethod_EachMethod_IsLoggedIfKnown(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]string{
		http.MethodGet: "GET", http.MethodHead: "HEAD", http.MethodPost: "POST", http.MethodPut: "PUT",
		http.MethodPatch: "PATCH", http.MethodDelete: "DELETE", http.MethodOptions: "OPTIONS",
		"A-PERSON": "other", "get": "other",
	} {
		assert.Equal(t, want, method(sent), sent)
	}
}

func TestFaultKinds_EachKind_HasItsExample(t *testing.T) {
	t.Parallel()
	kinds := faultKinds()
	assert.Regexp(t, `(?m)^  status=\d+ `, kinds)
	assert.Regexp(t, `(?m)^  reset +\S`, kinds)
}

// Curl reads a body that begins with @ from a file, and arguments cannot contain zeros.
func TestFitsInline_OnlyShortTexts_AreArguments(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]bool{
		`{"name":"a"}`: true, "a@b": true, "@file": false, "a\x00b": false, "\xff": false,
		strings.Repeat("a", maxInline): true, strings.Repeat("a", maxInline+1): false,
	} {
		assert.Equal(t, want, fitsInline([]byte(content)), "%.20q", content)
	}
}

func TestEntry_QueryAndSizes_AreThoseSent(t *testing.T) {
	t.Parallel()
	r := &request{
		At: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC).UnixMilli(), Received: 10, Sent: 20,
		record: &record{method: http.MethodGet, scheme: "http", host: "127.0.0.1", uri: "/x?a=1&&b=%20&c"},
	}
	kept := &bodies{}
	r.record.requestBody, r.record.responseBody = kept.new(), kept.new()
	r.record.responseHeader = http.Header{"Content-Type": {"text/html"}, "Location": {"/login"}}
	entry := r.entry()
	assert.Equal(t, "text/html", entry.Response.Content.MimeType)
	assert.Equal(t, "/login", entry.Response.RedirectURL)
	assert.Equal(t, []harPair{{"a", "1"}, {"b", " "}, {"c", ""}}, entry.Request.QueryString)
	assert.EqualValues(t, 10, entry.Request.BodySize)
	assert.EqualValues(t, 20, entry.Response.BodySize)
	assert.Equal(t, -1, entry.Request.HeadersSize, "not known")
	assert.Equal(t, -1, entry.Response.HeadersSize, "not known")

	r.record.uri = "/x"
	assert.Empty(t, r.entry().Request.QueryString)
}

func TestPartsOf_EachForm_ShowsItsTexts(t *testing.T) {
	t.Parallel()
	const start = "--b\r\nContent-Disposition: form-data; name="
	body := start + "\"short\"\r\n\r\ntext\r\n" +
		start + "\"longest\"\r\n\r\n" + strings.Repeat("a", maxText) + "\r\n" +
		start + "\"long\"\r\n\r\n" + strings.Repeat("a", maxText+1) + "\r\n" +
		start + "\"binary\"\r\n\r\n\x00\r\n" +
		start + "\"other\"\r\n\r\n\xff\r\n" +
		start + "\"file\"; filename=\"a.wav\"\r\n\r\nRIFF\r\n--b--\r\n"
	parts := partsOf(http.Header{"Content-Type": {"multipart/form-data; boundary=b"}}, []byte(body))
	shown := map[string]bool{}
	for _, p := range parts {
		shown[p.Name] = p.Text != ""
	}
	assert.Equal(t, map[string]bool{
		"short": true, "longest": true, "long": false, "binary": false, "other": false, "file": false,
	}, shown)
	form := http.Header{"Content-Type": {"multipart/form-data; boundary=b"}}
	many := strings.Repeat(start+"\"short\"\r\n\r\ntext\r\n", maxShapeLines+1)
	assert.Len(t, partsOf(form, []byte(many)), maxShapeLines)
	for _, other := range []string{"", "application/json", "multipart/form-data", "multipart/mixed; boundary=b"} {
		assert.Empty(t, partsOf(http.Header{"Content-Type": {other}}, []byte(body)), other)
	}
}

func TestReadSeed_FolderOrLargeFile_IsRejected(t *testing.T) {
	t.Parallel()
	const rejected = "is not a regular file, or is larger than 64 MiB"
	folder := t.TempDir()
	_, err := readSeed(folder)
	require.ErrorContains(t, err, rejected)
	for extra, want := range map[int64]string{0: "invalid character", 1: rejected} {
		file := filepath.Join(folder, strconv.FormatInt(extra, 10)+".json")
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		require.NoError(t, os.Truncate(file, maxSeed+extra)) // zeros, which are not JSON
		_, err = readSeed(file)
		require.ErrorContains(t, err, want)
	}
}

func TestList_Limit_ReturnsTheNewest(t *testing.T) {
	t.Parallel()
	c := launch(t)
	for range 3 {
		c.get("/user")
	}
	c.shown()
	for query, want := range map[string]int{
		"": 3, "?limit=2": 2, "?limit=0": 3, "?limit=-1": 3, "?limit=x": 3, "?after=2": 1, "?after=3": 0, "?after=-1": 3,
		"?after=1&limit=9223372036854775807": 2, "?after=9223372036854775807": 0,
	} {
		assert.Equal(t, want, strings.Count(c.get("/_/requests"+query).text, `"route":"GET /user"`), query)
	}
}

func TestRequestLog_Duration_IsShort(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	newRequestLog(&out).write(entry{
		method: http.MethodGet, route: "GET /user", status: http.StatusOK, duration: 1_234_567, sent: 1_540,
	})
	assert.Regexp(t, `  GET    /user +200  1\.23ms  in 0 B  out 1\.5 kB\n$`, out.String())
}

func TestResultText_LongResult_IsCut(t *testing.T) {
	t.Parallel()
	for letters, cut := range map[int]bool{maxVerdict - 8: false, maxVerdict - 7: true} {
		text := resultText([]string{strings.Repeat("a", letters)}, true) // eight bytes around the letters
		assert.Equal(t, cut, strings.Contains(text, "(more is in the response below)"), letters)
	}
}

func TestPlayer_ResponseCut_EndsEarly(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		content string
		cut     bool
	}{{"{}", false}, {"{}", true}, {"", false}, {"", true}} {
		content, cut := test.content, test.cut
		client := &http.Client{Transport: &player{status: http.StatusOK, content: []byte(content), cut: cut}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/user", nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, content, string(text))
		assert.Equal(t, cut, errors.Is(err, io.ErrUnexpectedEOF))
		assert.Equal(t, cut, resp.ContentLength > int64(len(text)))
		_, err = client.Do(req) //nolint:bodyclose // there is no response
		require.ErrorIs(t, err, syscall.ECONNRESET, "only one response was recorded")
	}
}
