package clinicaldoctest_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestRequests_HoldNoSecretOfAHeader(t *testing.T) {
	t.Parallel()
	c := start(t)
	for _, name := range []string{"Authorization", "Proxy-Authorization", "Cookie"} {
		req := c.request(http.MethodGet, "/user", nil)
		req.Header.Set(name, "canary")
		c.send(req)
		req.Header.Set("X-Custom", "kept")
		c.send(req)
		assert.NotContains(t, fmt.Sprintf("%+v", c.srv.Requests()), "canary", name)
		assert.Contains(t, fmt.Sprintf("%+v", c.srv.Requests()), "kept", name)
	}
}

func TestRequests_HoldNoSecretOfASignedAddress(t *testing.T) {
	t.Parallel()
	for name, variant := range map[string]clinicaldoctest.Variant{"S3": {}, "local disk": {LocalDisk: true}} {
		c := start(t, clinicaldoctest.WithVariant(variant))
		c.srv.AddNote(clinicaldoctest.Note{})
		address := c.audioURL()
		require.Equal(t, http.StatusOK, c.as("").get(address).StatusCode, name)
		signed, err := url.Parse(address)
		require.NoError(t, err)
		recorded := fmt.Sprintf("%+v", c.srv.Requests())
		for _, parameter := range []string{"X-Amz-Signature", "X-Amz-Credential", "signature"} {
			if secret := signed.Query().Get(parameter); secret != "" {
				assert.NotContains(t, recorded, secret, "%s: %s", name, parameter)
			}
		}
	}
}

func TestRequests_IDsGoOnAfterForgetting(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.InProcess())
	before := c.get("/user").Header.Get("X-Request-Id")
	c.srv.ForgetRequests()
	assert.NotEqual(t, before, c.get("/user").Header.Get("X-Request-Id"))
}

// A response that leaves in many pieces is counted, cut and completed as one.
func TestFaults_CountOverAllPiecesOfAResponse(t *testing.T) {
	t.Parallel()
	const size = 100_000 // more than one write of the storage
	observed := make(chan clinicaldoctest.Request, 10)
	c := start(t, clinicaldoctest.WithObserver(func(r clinicaldoctest.Request) {
		if r.Storage {
			observed <- r
		}
	}))
	c.srv.AddNote(clinicaldoctest.Note{Audio: bytes.Repeat([]byte("a"), size)})
	address := c.audioURL()
	reader := c.as("")

	assert.Len(t, reader.get(address).text, size)
	assert.Equal(t, int64(size), (<-observed).BytesSent)

	c.srv.Inject(clinicaldoctest.RouteAudio, clinicaldoctest.SlowBody(10_000, 1))
	assert.Len(t, reader.get(address).text, size)
	assert.Equal(t, int64(size), (<-observed).BytesSent)

	for _, fault := range []clinicaldoctest.Fault{clinicaldoctest.Truncate(80_000), clinicaldoctest.TruncateChunked(80_000)} {
		c.srv.Inject(clinicaldoctest.RouteAudio, fault)
		a, err := reader.try(reader.request(http.MethodGet, address, nil))
		require.Error(t, err, fault)
		assert.Len(t, a.text, 80_000, fault)
		<-observed
	}
}

func TestHandler_StorageIsKnownByTheHostHeader(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.InProcess())
	c.srv.AddNote(clinicaldoctest.Note{})
	signed, err := url.Parse(c.audioURL())
	require.NoError(t, err)
	for _, absolute := range []bool{false, true} { // as a server reads a request, and as a client writes one
		req := c.as("").request(http.MethodGet, signed.String(), nil)
		if !absolute {
			req.URL = &url.URL{Path: signed.Path, RawQuery: signed.RawQuery}
			req.Host = signed.Host
		}
		w := newRecorder()
		c.srv.Handler().ServeHTTP(w, req)
		assert.Equal(t, http.StatusOK, w.Code)
		assert.Equal(t, "audio/wav", w.Header().Get("Content-Type"))
	}
}

func TestSign_SignedNote_StaysSigned(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.srv.AddNote(clinicaldoctest.Note{Stage: clinicaldoctest.StageSigned})
	c.expect(http.StatusOK, http.MethodPut, "/v1/progress-notes/1/sign")
}

func TestAddNote_RecordingsOfSeveralSizes(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon))
	for _, size := range []int64{16_044, 32_044, 16_044} {
		id := c.srv.AddNote(clinicaldoctest.Note{AudioSize: size})
		assert.InDelta(t, size, c.audio(int(id))["size"], 0)
	}
}

func TestFreeze_KeepsWhatTheClockWasAdvancedBy(t *testing.T) {
	t.Parallel()
	c := start(t)
	before := c.srv.Now()
	c.srv.Advance(time.Hour)
	c.srv.Freeze()
	assert.WithinDuration(t, before.Add(time.Hour), c.srv.Now(), time.Minute)
	c.srv.Unfreeze()
	assert.WithinDuration(t, before.Add(time.Hour), c.srv.Now(), time.Minute)
}

func TestSetDelays_KeepsWhatNotesWentThrough(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon), clinicaldoctest.WithDelays(clinicaldoctest.Delays{
		Uploaded: time.Minute, Transcribing: time.Minute, Transcribed: time.Minute, Analysing: time.Minute,
	}))
	c.create(validForm())
	c.srv.Advance(150 * time.Second)
	require.Equal(t, clinicaldoctest.StageTranscribed, c.srv.Notes()[0].Stage)
	c.srv.SetDelays(clinicaldoctest.Delays{Uploaded: time.Hour, Transcribing: time.Hour, Transcribed: time.Hour})
	assert.Equal(t, clinicaldoctest.StageTranscribed, c.srv.Notes()[0].Stage)
}

func TestLagging_ListOfAPatientHasNoOthers(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon))
	for patient := range int64(3) {
		c.srv.AddNote(clinicaldoctest.Note{PatientID: patient + 1, CreatedAt: noon.Add(-time.Hour)})
	}
	c.srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Lagging(time.Minute))
	assert.Equal(t, []int{2}, ids(t, c.list("patient_id=2")))
}

func TestCreatedOnce_NamesEachRecordingOnce(t *testing.T) {
	t.Parallel()
	c := start(t)
	lost := []byte("lost")
	require.EqualError(t, c.srv.CreatedOnce(lost, lost),
		"clinicaldoctest: recording 0 should have 2 and has 0 notes []")
}
