package gaps

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// askAudio looks at the address of a note's recording. It is not fetched, and nothing of it is told but its form.
func (p *prober) askAudio(ctx context.Context, id int64) {
	if note, err := p.get(ctx, id); err == nil && note.Audio != nil && !note.Audio.ExpiresAt.IsZero() {
		kept := note.Audio.ExpiresAt.Sub(note.Audio.UploadedAt)
		if note.Audio.UploadedAt.IsZero() {
			kept = note.Audio.ExpiresAt.Sub(note.CreatedAt)
		}
		p.report.set("limits.retention", "%s", kept.Round(time.Minute))
	}
	var r clinicaldoc.Response
	address, err := p.Client.Notes.AudioURL(ctx, id, clinicaldoc.WithResponse(&r))
	p.saw("code.audio_url", r, err)
	if err != nil {
		for _, key := range []string{"audio.origin", "audio.form", "audio.lifetime"} {
			p.report.unseen(key, "the audio URL was %s", outcome(err))
		}
		return
	}
	u, err := url.Parse(address.URL)
	if err != nil {
		return // the SDK has checked it
	}
	p.report.set("audio.origin", "%s", p.originOf(u))
	p.report.set("audio.form", "%s", signatureForm(u.Query()))
	switch {
	case u.Query().Has("X-Amz-Expires"):
		if seconds, err := strconv.Atoi(u.Query().Get("X-Amz-Expires")); err == nil {
			p.report.set("audio.lifetime", "%s", time.Duration(seconds)*time.Second)
		}
	case !address.ExpiresAt.IsZero():
		if now, err := http.ParseTime(r.Header.Get("Date")); err == nil {
			p.report.set("audio.lifetime", "about %s", address.ExpiresAt.Sub(now).Round(time.Second))
		}
	default:
		p.report.unseen("audio.lifetime", "the URL does not tell")
	}
}

const (
	ownOrigin   = "the API's"
	otherOrigin = "another one than the API's"
)

func (p *prober) originOf(u *url.URL) string {
	base, err := url.Parse(p.BaseURL)
	if err == nil && base.Scheme == u.Scheme && base.Host == u.Host {
		return ownOrigin
	}
	return otherOrigin
}

func signatureForm(query url.Values) string {
	switch {
	case query.Has("X-Amz-Signature"):
		return "S3 signature version 4"
	case query.Has("AWSAccessKeyId") || query.Has("Signature") && query.Has("Expires"):
		return "S3 signature version 2"
	case query.Has("signature") && query.Has("expires"):
		return "expires and signature, as an application signs"
	case len(query) == 0:
		return "no query"
	}
	var keys []string
	for key := range query {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return "other parameters: " + names(keys)
}
