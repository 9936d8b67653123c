package gaps

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// askAudio requests the address of a note's recording. It does not use the address, and reports only its form.
func (p *prober) askAudio(ctx context.Context, id int64) {
	if note, err := p.get(ctx, id); err == nil {
		p.reportRetention(note)
	}
	var r clinicaldoc.Response
	address, err := p.Client.Notes.AudioURL(ctx, id, clinicaldoc.WithResponse(&r))
	p.observe("code.audio_url", r, err)
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
	p.reportLifetime(u.Query(), address.ExpiresAt, r.Header)
}

// reportLifetime reports how long an audio URL can be used: by its own parameter, or by its expiry and the time of the
// response.
func (p *prober) reportLifetime(query url.Values, expiresAt time.Time, header http.Header) {
	switch {
	case query.Has("X-Amz-Expires"):
		seconds, err := strconv.Atoi(query.Get("X-Amz-Expires"))
		if err == nil {
			p.report.set("audio.lifetime", "%s", time.Duration(seconds)*time.Second)
		}
	case !expiresAt.IsZero():
		now, err := http.ParseTime(header.Get("Date"))
		if err == nil {
			p.report.set("audio.lifetime", "about %s", expiresAt.Sub(now).Round(time.Second))
		}
	default:
		p.report.unseen("audio.lifetime", "the URL does not tell")
	}
}

// reportRetention reports how long the service keeps the note's recording, if the note shows it.
func (p *prober) reportRetention(note *clinicaldoc.ProgressNote) {
	if note.Audio == nil || note.Audio.ExpiresAt.IsZero() {
		return
	}
	from := note.Audio.UploadedAt
	if from.IsZero() {
		from = note.CreatedAt
	}
	p.report.set("limits.retention", "%s", note.Audio.ExpiresAt.Sub(from).Round(time.Minute))
}

const (
	ownOrigin   = "the API's"
	otherOrigin = "another one than the API's"
)

// originOf returns whether a URL has the origin of the API, in words.
func (p *prober) originOf(u *url.URL) string {
	base, err := url.Parse(p.BaseURL)
	if err != nil || base.Scheme != u.Scheme {
		return otherOrigin
	}
	if base.Host != u.Host {
		return otherOrigin
	}
	return ownOrigin
}

// signatureForm names how a URL is signed, by the names of its parameters.
func signatureForm(query url.Values) string {
	switch {
	case query.Has("X-Amz-Signature"):
		return "S3 signature version 4"
	case query.Has("AWSAccessKeyId"), query.Has("Signature") && query.Has("Expires"):
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

// askKept finds whether the service keeps recordings and names as they were sent. It uploads a recording of each format
// and reads it back before and after the service has processed it. One recording does not prove a rule: the report
// contains what was seen, and its reader decides on [clinicaldoc.WithAssumptions].
func (p *prober) askKept(ctx context.Context) {
	formats := []struct {
		key, file string
		recording []byte
	}{
		{"audio.wav", "synthetic.wav", p.Audio},
		{"audio.mp3", "synthetic.mp3", silentMP3()},
	}
	names := make([]string, len(formats)) // what was seen of them; empty: nothing
	for i, format := range formats {
		params := p.params()
		params.Audio = clinicaldoc.AudioBytes(format.file, format.recording)
		created, err := p.createWith(ctx, params)
		if err != nil {
			p.report.unseen(format.key, "the upload was %s", outcome(err))
			continue
		}
		before := p.readBack(ctx, created.ID, format.recording)
		note, err := p.follow(ctx, created.ID, func(clinicaldoc.Stage) {})
		after := "not seen, as it was not processed in time"
		if err == nil {
			after = p.readBack(ctx, created.ID, format.recording)
			nameBefore := compareName(params.Name, created.Name)
			nameAfter := compareName(params.Name, note.Name)
			names[i] = nameBefore + " before, " + nameAfter + " after"
		}
		p.report.set(format.key, "%s before, %s after", before, after)
		_ = p.remove(ctx, created.ID) // what stays is deleted at the end
	}
	wav, mp3 := names[0], names[1]
	switch {
	case wav == "" && mp3 == "":
		p.report.unseen("note.name", "no note was processed in time")
	case wav == mp3:
		p.report.set("note.name", "%s", wav)
	default:
		const notSeen = "not seen"
		p.report.set("note.name", "wav: %s; mp3: %s", cmp.Or(wav, notSeen), cmp.Or(mp3, notSeen))
	}
}

// readBack downloads a note's recording and returns whether it is what was sent, in words.
func (p *prober) readBack(ctx context.Context, id int64, sent []byte) string {
	hash := sha256.New()
	_, err := p.Client.Notes.DownloadAudio(ctx, id, hash, clinicaldoc.DownloadParams{IgnoreSize: true})
	want := sha256.Sum256(sent)
	switch {
	case err != nil:
		return "not readable"
	case bytes.Equal(hash.Sum(nil), want[:]):
		return "unchanged"
	}
	return "changed"
}

// compareName returns whether a note's name is the one that was sent, in words.
func compareName(sent, got string) string {
	if strings.TrimSpace(got) == strings.TrimSpace(sent) {
		return "unchanged"
	}
	return "changed"
}

// silentMP3 returns a quarter of a second of silence: frames of MPEG-1 layer III, 128 kbit/s, 44.1 kHz, mono.
func silentMP3() []byte {
	const frames, frameLength = 10, 417
	var recording []byte
	for range frames {
		frame := make([]byte, frameLength)
		copy(frame, []byte{0xff, 0xfb, 0x90, 0xc4})
		recording = append(recording, frame...)
	}
	return recording
}
