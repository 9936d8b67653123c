package clinicaldoctest_test

import (
	"encoding/binary"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// recorded starts a server with one note and returns a caller without a token
// and the address of the note's audio.
func recorded(t *testing.T, v clinicaldoctest.Variant) (storage caller, address string) {
	t.Helper()
	c := start(t, clinicaldoctest.WithVariant(v), clinicaldoctest.WithFrozenClock(noon))
	c.srv.AddNote(clinicaldoctest.Note{Audio: []byte("0123456789")})
	return c.as(""), c.audioURL()
}

func (c caller) fetch(address string, header ...string) answer {
	c.t.Helper()
	req := c.request(http.MethodGet, address, nil)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return c.send(req)
}

func TestStorage_Range_IsServed(t *testing.T) {
	t.Parallel()
	c, address := recorded(t, clinicaldoctest.Variant{})
	assert.True(t, strings.HasPrefix(address, c.srv.StorageURL+"/"))
	assert.NotEqual(t, c.srv.URL, c.srv.StorageURL)

	told := c.as(c.srv.Token).get("/v1/progress-notes/1/audio-url")
	assert.Contains(t, told.text, address, "a person can copy it from a terminal")
	whole := c.fetch(address)
	assert.Equal(t, "0123456789", whole.text)
	assert.Equal(t, "audio/wav", whole.Header.Get("Content-Type"))
	tag := whole.Header.Get("ETag")
	assert.Regexp(t, `^"[0-9a-f]{32}"$`, tag, "a strong tag")
	assert.Equal(t, noon.Format(http.TimeFormat), whole.Header.Get("Last-Modified"))

	part := c.fetch(address, "Range", "bytes=4-", "If-Range", tag)
	assert.Equal(t, http.StatusPartialContent, part.StatusCode)
	assert.Equal(t, "456789", part.text)
	assert.Equal(t, "bytes 4-9/10", part.Header.Get("Content-Range"))

	for _, other := range []string{`"other"`, "W/" + tag} {
		changed := c.fetch(address, "Range", "bytes=4-", "If-Range", other)
		assert.Equal(t, http.StatusOK, changed.StatusCode, "another file is sent whole")
		assert.Equal(t, "0123456789", changed.text)
	}
	past := c.fetch(address, "Range", "bytes=10-")
	assert.Equal(t, http.StatusRequestedRangeNotSatisfiable, past.StatusCode)
	assert.Equal(t, "bytes */10", past.Header.Get("Content-Range"))
	assert.Equal(t, "application/xml", past.Header.Get("Content-Type"))
	assert.Contains(t, past.text, "<Code>InvalidRange</Code>")
}

func TestStorage_WrongRequest_IsRefusedLikeS3(t *testing.T) {
	t.Parallel()
	c, address := recorded(t, clinicaldoctest.Variant{AudioURLLifetime: time.Minute})
	tampered, err := url.Parse(address)
	require.NoError(t, err)
	query := tampered.Query()
	query.Set("X-Amz-Expires", "604800")
	tampered.RawQuery = query.Encode()
	unsigned, _, _ := strings.Cut(address, "?")

	bearer := c.fetch(address, "Authorization", "Bearer "+c.srv.Token)
	assert.Equal(t, http.StatusBadRequest, bearer.StatusCode)
	assert.Contains(t, bearer.text, "<Code>InvalidArgument</Code>")
	assert.Contains(t, bearer.text, "Only one auth mechanism allowed")
	assert.Equal(t, "application/xml", bearer.Header.Get("Content-Type"))

	forged := c.fetch(tampered.String())
	assert.Equal(t, http.StatusForbidden, forged.StatusCode)
	assert.Contains(t, forged.text, "SignatureDoesNotMatch")
	assert.Equal(t, http.StatusForbidden, c.fetch(unsigned).StatusCode)
	assert.Equal(t, http.StatusForbidden, c.send(c.request(http.MethodHead, address, nil)).StatusCode, "the signature is for GET")
	assert.Equal(t, http.StatusMethodNotAllowed, c.send(c.request(http.MethodPut, address, nil)).StatusCode)
	assert.Equal(t, http.StatusForbidden, c.fetch(c.srv.StorageURL+"/").StatusCode)

	c.srv.Advance(59 * time.Second)
	assert.Equal(t, http.StatusOK, c.fetch(address).StatusCode)
	c.srv.Advance(time.Second)
	expired := c.fetch(address)
	assert.Equal(t, http.StatusForbidden, expired.StatusCode)
	assert.Contains(t, expired.text, "Request has expired")

	fresh := c.as(c.srv.Token).audioURL()
	assert.Equal(t, http.StatusOK, c.fetch(fresh).StatusCode)
}

func TestStorage_SignatureOfAnotherRecording_IsRefused(t *testing.T) {
	t.Parallel()
	for status, variant := range map[int]clinicaldoctest.Variant{
		http.StatusForbidden: {}, http.StatusNotFound: {LocalDisk: true},
	} {
		c, first := recorded(t, variant)
		c.srv.AddNote(clinicaldoctest.Note{Audio: []byte("another")})
		note := c.as(c.srv.Token).expect(http.StatusOK, http.MethodGet, "/v1/progress-notes/2/audio-url")
		second := field[string](t, note, "url")
		assert.Equal(t, "another", c.fetch(second).text)
		_, signed, _ := strings.Cut(first, "?")
		path, _, _ := strings.Cut(second, "?")
		assert.Equal(t, status, c.fetch(path+"?"+signed).StatusCode)
	}
}

func TestStorage_AfterRetention_ForgetsAudio(t *testing.T) {
	t.Parallel()
	c, address := recorded(t, clinicaldoctest.Variant{AudioRetention: time.Hour, AudioURLLifetime: 2 * time.Hour})
	assert.Equal(t, http.StatusOK, c.fetch(address).StatusCode)
	c.srv.Advance(time.Hour)
	gone := c.fetch(address)
	assert.Equal(t, http.StatusNotFound, gone.StatusCode)
	assert.Contains(t, gone.text, "NoSuchKey")

	c.srv.AddNote(clinicaldoctest.Note{}) // whose silence is made when it is read
	assert.Contains(t, c.as(c.srv.Token).audio(2), "file_url")
	c.srv.Advance(time.Hour)
	assert.NotContains(t, c.as(c.srv.Token).audio(2), "file_url")
}

func TestStorage_LocalDisk_KnowsNoRanges(t *testing.T) {
	t.Parallel()
	c, address := recorded(t, clinicaldoctest.Variant{LocalDisk: true, BasePath: "/api"})
	ranged := c.fetch(address, "Range", "bytes=4-")
	assert.Equal(t, http.StatusOK, ranged.StatusCode)
	assert.Equal(t, "0123456789", ranged.text)
	assert.Empty(t, ranged.Header.Get("ETag"))
}

func TestStorage_LocalDisk_ServesSignedURLsUntilTheyExpire(t *testing.T) {
	t.Parallel()
	c, address := recorded(t, clinicaldoctest.Variant{LocalDisk: true, BasePath: "/api", AudioURLLifetime: time.Minute})
	assert.True(t, strings.HasPrefix(address, c.srv.URL+"/"), "on the API's own origin")
	assert.Regexp(t, `expires=\d+&signature=[0-9a-f]+$`, address)
	withToken := c.fetch(address, "Authorization", "Bearer "+c.srv.Token)
	assert.Equal(t, http.StatusOK, withToken.StatusCode, "a token does no harm")
	assert.Equal(t, http.StatusNotFound, c.fetch(address+"0").StatusCode, "another signature")
	put := c.send(c.request(http.MethodPut, address, nil))
	assert.Equal(t, http.StatusMethodNotAllowed, put.StatusCode, "it is only read")
	assert.Empty(t, c.send(c.request(http.MethodHead, address, nil)).text, "HEAD has no body")
	c.srv.Advance(time.Minute)
	assert.Equal(t, http.StatusNotFound, c.fetch(address).StatusCode, "it has expired")

	s3, _ := recorded(t, clinicaldoctest.Variant{})
	assert.Equal(t, http.StatusNotFound, s3.fetch(s3.srv.URL+"/audio/x").StatusCode, "elsewhere the API serves no audio")
}

func TestAddNote_AudioSize_IsReportedAndServed(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon))
	for _, size := range []int{16_044, 160_044, 16_044, 44} {
		id := c.srv.AddNote(clinicaldoctest.Note{AudioSize: int64(size)})
		audio := c.audio(int(id))
		assert.InDelta(t, size, audio["size"], 0)
		assert.InDelta(t, float64(size-44)/16_000, audio["duration"], 0)
		assert.InDelta(t, 128_000, audio["bitrate"], 0)
		served := c.as("").fetch(field[string](t, audio, "file_url")).text
		assert.Len(t, served, size)
		rest := binary.LittleEndian.Uint32([]byte(served[4:]))
		assert.Equal(t, uint32(size-8), rest, "the header counts what follows it")
	}
}

func TestAddNote_ReencodedAudio_IsReportedAsServed(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon))
	c.srv.AddNote(clinicaldoctest.Note{AudioSize: 44}) // which the storage keeps as it is
	c.srv.SetVariant(clinicaldoctest.Variant{Audio: clinicaldoctest.AudioReencoded})
	for _, size := range []int{44, 16_044} {
		audio := c.audio(int(c.srv.AddNote(clinicaldoctest.Note{AudioSize: int64(size)})))
		served := c.as("").fetch(field[string](t, audio, "file_url")).text
		assert.InDelta(t, len(served), audio["size"], 0)
		assert.Greater(t, len(served), size)
	}
}
