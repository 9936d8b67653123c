package gaps

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// blank is a prober that has not asked anything yet.
func blank(options Options) *prober {
	return &prober{Options: options, report: newReport(), own: map[int64]bool{}, seen: newObservations()}
}

func TestOriginOf_SchemeAndHost_MustAgree(t *testing.T) {
	t.Parallel()
	p := blank(Options{BaseURL: "https://api.clinic.test/api"})
	for address, want := range map[string]string{
		"https://api.clinic.test/files/1":     ownOrigin,
		"http://api.clinic.test/files/1":      otherOrigin,
		"https://storage.clinic.test/files/1": otherOrigin,
	} {
		u, err := url.Parse(address)
		require.NoError(t, err)
		assert.Equal(t, want, p.originOf(u), address)
	}
	assert.Equal(t, otherOrigin, blank(Options{BaseURL: "%zz"}).originOf(new(url.URL)), "it cannot be known")
}

func TestReportRetention_NoteWithExpiry_IsMeasured(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	uploaded := created.Add(time.Hour)
	expires := created.Add(25 * time.Hour)
	for name, tc := range map[string]struct {
		audio *clinicaldoc.AudioInfo
		want  string // empty: not known
	}{
		"no recording":           {nil, ""},
		"no expiry":              {&clinicaldoc.AudioInfo{UploadedAt: uploaded}, ""},
		"since the upload":       {&clinicaldoc.AudioInfo{UploadedAt: uploaded, ExpiresAt: expires}, "24h0m0s"},
		"since the note is made": {&clinicaldoc.AudioInfo{ExpiresAt: expires}, "25h0m0s"},
	} {
		p := blank(Options{})
		p.reportRetention(&clinicaldoc.ProgressNote{CreatedAt: created, Audio: tc.audio})
		item := p.report.Item("limits.retention")
		assert.Equal(t, tc.want != "", item.Known, name)
		if item.Known {
			assert.Equal(t, tc.want, item.Seen, name)
		}
	}
}

func TestSignatureForm_Parameters_NameIt(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"X-Amz-Signature=a":     "S3 signature version 4",
		"AWSAccessKeyId=a":      "S3 signature version 2",
		"Signature=a&Expires=1": "S3 signature version 2",
		"Signature=a":           "other parameters: 1 that may be data",
		"signature=a&expires=1": "expires and signature, as an application signs",
		"expires=1":             "other parameters: expires",
		"":                      "no query",
		"token=a&Expires=1&a=b": "other parameters: a, token, and 1 that may be data",
	} {
		values, err := url.ParseQuery(query)
		require.NoError(t, err)
		assert.Equal(t, want, signatureForm(values), query)
	}
}

// Only a 503 shows that the service is unavailable at times.
func TestObserve_Refusal_IsCounted(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{http.StatusServiceUnavailable: true, http.StatusNotFound: false} {
		p := blank(Options{})
		p.observe("code.get", clinicaldoc.Response{}, &clinicaldoc.Error{StatusCode: status})
		assert.Equal(t, want, p.seen.unavailable, status)
		assert.False(t, p.report.Item("code.get").Known)
	}
}

func TestReportSize_BothKnown_AreCompared(t *testing.T) {
	t.Parallel()
	sent := clinicaldoc.AudioBytes("synthetic.wav", []byte("audio"))
	empty := clinicaldoc.AudioBytes("synthetic.wav", nil)
	stream := clinicaldoc.AudioReader("synthetic.wav", strings.NewReader("audio"))
	for name, tc := range map[string]struct {
		got  *clinicaldoc.AudioInfo
		sent *clinicaldoc.AudioSource
		want string // empty: not known
	}{
		"as sent":           {&clinicaldoc.AudioInfo{Size: 5}, sent, "as sent"},
		"another":           {&clinicaldoc.AudioInfo{Size: 6}, sent, "another than was sent"},
		"it was empty":      {&clinicaldoc.AudioInfo{Size: 6}, empty, "another than was sent"},
		"nothing was shown": {nil, sent, ""},
		"no size was shown": {&clinicaldoc.AudioInfo{}, sent, ""},
		"nothing was sent":  {&clinicaldoc.AudioInfo{Size: 5}, nil, ""},
		"a stream was sent": {&clinicaldoc.AudioInfo{Size: 5}, stream, ""},
	} {
		p := blank(Options{})
		p.reportSize(tc.got, tc.sent)
		item := p.report.Item("audio.size")
		assert.Equal(t, tc.want != "", item.Known, name)
		if item.Known {
			assert.Equal(t, tc.want, item.Seen, name)
		}
	}
}

// A service that accepts no WAV recording may accept an MP3 recording.
func TestAskKept_FormatRefused_TriesTheOther(t *testing.T) {
	t.Parallel()
	box, options := startBox(t, clinicaldoctest.Variant{})
	box.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(http.StatusUnsupportedMediaType, ""))
	p := blank(options)
	p.askKept(t.Context())
	assert.Equal(t, "not seen: the upload was refused with 415", p.report.Item("audio.wav").Seen)
	assert.Equal(t, "unchanged before, unchanged after", p.report.Item("audio.mp3").Seen)
	const want = "wav: not seen; mp3: unchanged before, unchanged after"
	assert.Equal(t, want, p.report.Item("note.name").Seen)
	assert.Empty(t, box.Notes(), "it is deleted")
}
