package clinicaldoc

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/retry"
	"github.com/clinicaldoc/clinicaldoc-go/internal/tolerant"
)

// AudioURL is a temporary, signed address of a recording: whoever has it can listen. It does not print. Fetch it without
// the token: storage refuses requests that carry both.
type AudioURL struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // zero when the address does not tell
}

var audioURL = operation{"Notes.AudioURL", http.MethodGet, "/v1/progress-notes/{id}/audio-url", retry.Reads}

// AudioURL asks for a temporary address of the note's recording. Errors: [ErrNotFound], [ErrUnexpectedResponse] when the
// answer holds no http or https address.
func (s *NotesService) AudioURL(ctx context.Context, id int64, opts ...CallOption) (*AudioURL, error) {
	r, err := audioURL.withID(id)
	if err != nil {
		return nil, err
	}
	return do(ctx, s.client, r, opts, decodeAudioURL)
}

func decodeAudioURL(answer []byte) (*AudioURL, error) {
	if len(answer) == 0 {
		return nil, tolerant.ErrEmpty
	}
	var address string
	d := jsonscan.New(tolerant.Unwrap(answer, "url"))
	tolerant.Object(d, func(key []byte) {
		if string(key) == "url" {
			address = tolerant.RequiredText(d)
		}
	})
	if err := d.End(); err != nil {
		return nil, err
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errNoURL
	}
	return &AudioURL{URL: address, ExpiresAt: urlExpiry(u.Query())}, nil
}

// urlExpiry reads the expiry from a signed URL: date plus lifetime as S3 and Google's storage write it, or a Unix time as
// Laravel and older signatures do. What is negative or beyond the year 9999 tells nothing.
func urlExpiry(query url.Values) time.Time {
	for _, prefix := range []string{"X-Amz-", "X-Goog-"} {
		seconds, err := strconv.ParseInt(query.Get(prefix+"Expires"), 10, 32)
		if err != nil {
			continue
		}
		signed, err := time.Parse("20060102T150405Z", query.Get(prefix+"Date"))
		if err != nil || seconds <= 0 {
			return time.Time{}
		}
		return encodable(signed.Add(time.Duration(seconds) * time.Second))
	}
	for _, name := range []string{"expires", "Expires"} {
		if unix, err := strconv.ParseInt(query.Get(name), 10, 64); err == nil && unix > 0 && unix < maxUnix {
			return time.Unix(unix, 0).UTC()
		}
	}
	return time.Time{}
}

const maxUnix = 253402300800 // the year 10000, which a time's JSON and text cannot hold

func encodable(t time.Time) time.Time {
	if t.Unix() >= maxUnix {
		return time.Time{}
	}
	return t
}

// LogValue lists what may be logged of the address: when it expires.
func (u AudioURL) LogValue() slog.Value { return slog.GroupValue(slog.Time("expires_at", u.ExpiresAt)) }

// Format prints what LogValue lists for every verb.
func (u AudioURL) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.AudioURL", u) }
