package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// comparison compares the recordings of notes with one that may be among them.
type comparison struct {
	run   *run
	size  int64
	sum   string
	reads int
	err   error // why the latest recording could not be read
}

// searchNamed compares the notes that have the recording's name. Each of them must be decided. A note whose
// recording cannot be read may be its own. So may one with other bytes, unless the service stores recordings
// unchanged. A person may have decided so before.
func (c *comparison) searchNamed(t *task, named []noteRow) (seen sighting, decided bool) {
	unchanged := c.run.uploader.Client.Assumptions().RecordingsUnchanged
	var mayBeIts []noteRow
	reason := "a note has its name but a different recording, and the service may have changed that recording"
	var cause error
	for _, row := range named {
		if unchanged && row.size > 0 && row.size != c.size {
			continue
		}
		match := c.compare(row)
		isOther := t.isExcluded(row) || match == creates.Differs && unchanged
		switch {
		case match == creates.Equal:
			return sighting{found: &row}, true
		case isOther:
		case match == creates.Differs:
			mayBeIts = append(mayBeIts, row)
		default:
			mayBeIts = append(mayBeIts, row)
			reason = "the recording of a note with its name cannot be read"
			cause = c.err
		}
	}
	if len(mayBeIts) == 0 {
		return sighting{}, false
	}
	return undecided(reason, mayBeIts, cause), true
}

// searchOthers compares the notes with other names. One that differs, or that cannot be read, is not the recording's.
func (c *comparison) searchOthers(t *task, others []noteRow, entries []Entry) sighting {
	for _, row := range others {
		if c.compare(row) != creates.Equal {
			continue
		}
		for i := range entries {
			e := &entries[i]
			if e.Key != t.own.Key && e.State == StateInDoubt && e.mayHaveContent(c.size, c.sum) {
				return sighting{rival: e} // it looks for a note with the same content, perhaps of this name
			}
		}
		return sighting{found: &row}
	}
	return sighting{}
}

// compare compares the recording of a note, which it reads once in a run. If that cannot be read, it returns
// [creates.Unread] and c.err is why.
func (c *comparison) compare(row noteRow) creates.Match {
	ref := creates.NewRef(row.id, row.created, "")
	match := c.run.noteRecordings.Get(ref).Compare(c.size, c.sum)
	if match != creates.Unread {
		return match
	}
	if c.reads >= maxReads {
		c.err = errTooMany
		return creates.Unread
	}
	c.reads++
	got, err := c.run.readRecording(row.id, c.size, c.sum)
	c.err = err
	if err == nil && !row.created.IsZero() { // without a time, its id may be another note's by now
		c.run.noteRecordings.Put(ref, got)
	}
	return got.Compare(c.size, c.sum)
}

var (
	errTooMany      = redact.New("too many recordings would have to be read")
	errWithoutAudio = redact.New("Find.WithoutAudio forbids it")
)

// readRecording reads the recording of a note and stops as soon as it is known to differ from the one of this size and
// SHA-256. That is not an error.
func (r *run) readRecording(id, size int64, sum string) (creates.Recording, error) {
	var got creates.Recording
	if r.uploader.Find.WithoutAudio {
		return got, errWithoutAudio
	}
	ctx, stop := context.WithCancel(r.ctx)
	defer stop()
	onProgress := func(received, total int64) {
		got.Size = max(total, 0)
		if size > 0 && received > size {
			got.LongerThan = size
		}
		if got.Compare(size, sum) == creates.Differs {
			stop()
		}
	}
	hash := sha256.New()
	params := clinicaldoc.DownloadParams{OnProgress: onProgress, IgnoreSize: true}
	_, err := r.uploader.Client.Notes.DownloadAudio(ctx, id, hash, params)
	switch {
	case err == nil:
		got.SHA256 = hex.EncodeToString(hash.Sum(nil))
	case got.Compare(size, sum) == creates.Differs:
		err = nil
	}
	return got, err
}
