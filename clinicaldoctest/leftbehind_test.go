package clinicaldoctest_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// The tests of this file look at the files of recordings: each belongs to a note, and ends with it.

func (c caller) files() []string {
	c.t.Helper()
	names, err := c.srv.Files()
	require.NoError(c.t, err)
	return names
}

// sendBody sends a creation with another body.
func (c caller) sendBody(req *http.Request, body []byte) answer {
	c.t.Helper()
	req.Body = io.NopCloser(bytes.NewReader(body))
	req.GetBody = nil
	req.ContentLength = int64(len(body))
	return c.send(req)
}

func TestCreate_UploadBreaksOff_LeavesNoFile(t *testing.T) {
	t.Parallel()
	c := start(t)
	var body bytes.Buffer
	writer := multipart.NewWriter(&body)
	file, err := writer.CreateFormFile("file", "visit.mp3")
	require.NoError(t, err)
	_, err = file.Write(bytes.Repeat([]byte("a"), 10_000))
	require.NoError(t, err)
	require.NoError(t, writer.WriteField("name", "Visit"))
	require.NoError(t, writer.Close())
	for name, end := range map[string]int{
		"within the recording": 5_000,
		"after the recording":  body.Len() - 30,
	} {
		req := c.request(http.MethodPost, "/v1/progress-notes", nil)
		req.Header.Set("Content-Type", writer.FormDataContentType())
		a := c.sendBody(req, body.Bytes()[:end])
		assert.Equal(t, http.StatusUnprocessableEntity, a.StatusCode, name)
		assert.Empty(t, c.files(), name)
	}
}

func TestCreate_Refused_LeavesNoFile(t *testing.T) {
	t.Parallel()
	c := start(t)
	for field, value := range map[string]string{"_method": "PUT", "patient_id": "none", "name": ""} {
		form := validForm()
		form.fields[field] = value
		a := c.create(form)
		assert.GreaterOrEqual(t, a.StatusCode, http.StatusBadRequest, field)
		assert.Empty(t, c.files(), field)
	}
}

func TestCreate_TwoRecordings_KeepsTheLast(t *testing.T) {
	t.Parallel()
	c := start(t)
	var body bytes.Buffer
	writer := multipart.NewWriter(&body)
	for name, value := range validForm().fields {
		require.NoError(t, writer.WriteField(name, value))
	}
	for _, content := range []string{"first", "second"} {
		file, err := writer.CreateFormFile("file", "visit.mp3")
		require.NoError(t, err)
		_, err = io.WriteString(file, content)
		require.NoError(t, err)
	}
	require.NoError(t, writer.Close())
	req := c.request(http.MethodPost, "/v1/progress-notes", nil)
	req.Header.Set("Content-Type", writer.FormDataContentType())
	require.Equal(t, http.StatusCreated, c.sendBody(req, body.Bytes()).StatusCode)
	assert.Len(t, c.files(), 1)
	assert.NoError(t, c.srv.CreatedOnce([]byte("second")))
}

func TestCreate_TooManyParts_IsRefused(t *testing.T) {
	t.Parallel()
	c := start(t)
	var body bytes.Buffer
	writer := multipart.NewWriter(&body)
	for range 101 {
		require.NoError(t, writer.WriteField("name", "Visit"))
	}
	require.NoError(t, writer.Close())
	req := c.request(http.MethodPost, "/v1/progress-notes", nil)
	req.Header.Set("Content-Type", writer.FormDataContentType())
	assert.Contains(t, c.sendBody(req, body.Bytes()).text, "The file failed to upload.")
}

func TestVanish_TakesTheRecordingToo(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]clinicaldoctest.Option{
		"on disk": nil, "in memory": {clinicaldoctest.InProcess()},
	} {
		c := start(t, options...)
		c.srv.AddNote(clinicaldoctest.Note{Audio: []byte("recorded")})
		address := c.audioURL()
		if options == nil {
			require.Len(t, c.files(), 1)
		}
		c.srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Vanish(1))
		c.get("/v1/progress-notes")
		require.Empty(t, c.srv.Notes())
		assert.Equal(t, http.StatusNotFound, c.as("").get(address).StatusCode, name)
		if options == nil {
			assert.Empty(t, c.files())
		}
	}
}

func TestReset_DuringAnUpload_LeavesNoFile(t *testing.T) {
	t.Parallel()
	c := start(t)
	req := c.createRequest(validForm())
	body, err := io.ReadAll(req.Body)
	require.NoError(t, err)
	reader, writer := io.Pipe()
	req.Body = reader
	req.GetBody = nil
	done := make(chan answer)
	go func() { done <- c.send(req) }()
	_, err = writer.Write(body[:len(body)/2])
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(c.srv.Requests()) == 1 }, 5e9, 1e6)
	c.srv.Reset()
	_, err = writer.Write(body[len(body)/2:])
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	<-done
	assert.Empty(t, c.files())
}

func TestStart_AddressInUse_LeavesNoFolder(t *testing.T) { //nolint:paralleltest // sets a variable of the environment
	c := start(t)
	temporary := t.TempDir()
	setTemporary(t, temporary)
	_, err := clinicaldoctest.Start(clinicaldoctest.WithStorageAddr(strings.TrimPrefix(c.srv.URL, "http://")))
	require.Error(t, err)
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	assert.Empty(t, left)
}
