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
	run       *run
	size      int64
	sha256    string
	readCount int
	readErr   error // why compare has last returned creates.Unread
}

// searchNamed compares the notes that have the recording's name. One with equal bytes is the recording's. A note that
// cannot be read may be its own, and so may one with other bytes, unless the service stores recordings unchanged. A
// person can rule out both. It reports false if no note may be the recording's.
func (c *comparison) searchNamed(t *task, named []noteRow) (seen sighting, decided bool) {
	unchanged := c.run.uploader.Client.Assumptions().RecordingsUnchanged
	var mayBeIts []noteRow
	reason := "a note has its name but a different recording, and the service may have changed that recording"
	var cause error
	for _, row := range named {
		if unchanged && row.size > 0 && row.size != c.size {
			continue // it differs without being read
		}
		match := c.compare(row)
		isOther := t.isExcluded(row) || match == creates.Differs && unchanged
		switch {
		case match == creates.Equal:
			return sighting{found: &row, sha256: c.sha256}, true
		case isOther:
		case match == creates.Differs:
			mayBeIts = append(mayBeIts, row)
		default:
			mayBeIts = append(mayBeIts, row)
			reason = "the recording of a note with its name cannot be read"
			cause = c.readErr
		}
	}
	if len(mayBeIts) == 0 {
		return sighting{}, false
	}
	return undecidedBecause(reason, mayBeIts, cause), true
}

// searchOthers compares the notes with other names. The first one with equal bytes is the recording's. The others are
// not, also if they cannot be read: without the name, nothing else points to the recording. If another recording with
// the same content is unresolved, the note with equal bytes may be that one's, so it has to be resolved first.
func (c *comparison) searchOthers(t *task, others []noteRow, entries []Entry) sighting {
	for _, row := range others {
		if c.compare(row) != creates.Equal {
			continue
		}
		for i := range entries {
			e := &entries[i]
			mayBeItsNote := e.State == StateInDoubt && e.NoteID == 0 // one with an ID has announced that note
			if e.Key != t.own.Key && mayBeItsNote && e.mayHaveContent(c.size, c.sha256) {
				return sighting{rival: e} // it was not sent: task.rival finds those that were
			}
		}
		return sighting{found: &row, sha256: c.sha256}
	}
	return sighting{}
}

// compare compares the recording of a note with the one that is searched for. It reads the note's recording, unless
// what this run has read of it is enough. If the recording cannot be read, compare returns [creates.Unread] and sets
// c.readErr.
func (c *comparison) compare(row noteRow) creates.Match {
	ref := creates.NewRef(row.id, row.created, "")
	known := c.run.noteRecordings.Get(ref).Compare(c.size, c.sha256)
	if known != creates.Unread {
		return known
	}
	if c.readCount >= maxReads {
		c.readErr = errTooMany
		return creates.Unread
	}
	c.readCount++
	got, err := c.run.readRecording(row.id, c.size, c.sha256)
	c.readErr = err
	if err == nil && !row.created.IsZero() { // without the time, a later note with the same ID would look the same
		c.run.noteRecordings.Put(ref, got)
	}
	return got.Compare(c.size, c.sha256)
}

var (
	errTooMany      = redact.New("too many recordings would have to be read")
	errWithoutAudio = redact.New("Find.WithoutAudio forbids it")
)

// readRecording reads the recording of a note. As soon as the recording is known to differ from the one with this size
// and SHA-256, it stops without an error, and returns what it knows by then.
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
	case got.Compare(size, sum) == creates.Differs: // onProgress has stopped the download
		err = nil
	}
	return got, err
}
