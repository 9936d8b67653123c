package devproxy

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

// FuzzArchive loads archives of any content. Each is rejected as a whole, or gives requests that can be shown, copied,
// and saved so that they are loaded again as the same ones. No header that lets others in keeps its value.
func FuzzArchive(f *testing.F) {
	const entry = `{"startedDateTime":"2026-01-02T03:04:05Z","time":1.5,"request":{"method":"PUT",` +
		`"url":"http://127.0.0.1:1/v1/progress-notes/7?x=%20","httpVersion":"HTTP/1.1","headers":[{"name":"authorization","value":"s"},` +
		`{"name":"Content-Type","value":"multipart/form-data; boundary=b"}],"postData":{"mimeType":"x","text":"LS1iDQoNCng=","_encoding":"base64"},` +
		`"bodySize":-1},"response":{"status":200,"headers":[{"name":"Content-Encoding","value":"gzip"},{"name":"Set-Cookie","value":"s"}],` +
		`"content":{"mimeType":"application/json","text":"{\"id\":7}","_cut":true},"bodySize":8},"_route":"PUT /v1/progress-notes/{id}","_note":7}`
	for _, text := range []string{
		"", "[]", "{}", `{"log":{}}`, `{"log":{"version":"1.2","entries":[]}}`, `{"log":{"version":"1.2","entries":[{}]}}`,
		`{"log":{"version":"1.2","entries":[` + entry + `]}}`, `{"log":{"version":"1.2","entries":[` + entry + `,` + entry + `]}}`,
		`{"log":{"version":"1","entries":[{"request":{"method":"GET","url":"http://h/audio/1?X-Amz-Signature=s"},"_route":"GET /audio/{key}"}]}}`,
		`{"log":{"version":"1","entries":[{"request":{"method":"'","url":"http://h/'?'","headers":[{"name":"'","value":"'\n"}]}}]}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		followed := following()
		count, err := followed.load(text)
		loaded := followed.list(0, keptRequests)
		require.Len(t, loaded, count)
		if err != nil {
			require.Empty(t, loaded, "a wrong archive is not loaded in part")
			return
		}
		for _, r := range loaded {
			checkSecrets(t, r)
			_, err := json.Marshal(r.record.open(r, clinicaldoctest.QueryNames{PatientID: "patient_id"}, true))
			require.NoError(t, err)
		}
		saved, err := json.Marshal(archive(loaded))
		require.NoError(t, err)
		again := following()
		count, err = again.load(saved)
		require.NoError(t, err)
		require.Equal(t, len(loaded), count)
		savedAgain, err := json.Marshal(archive(again.list(0, keptRequests)))
		require.NoError(t, err)
		require.JSONEq(t, string(saved), string(savedAgain))
	})
}

func checkSecrets(t *testing.T, r *request) {
	t.Helper()
	for _, header := range []http.Header{r.record.requestHeader, r.record.responseHeader} {
		for name, values := range header {
			for _, value := range values {
				require.True(t, value == withheld || !boxlink.IsSecretHeader(name), name)
			}
		}
	}
}
