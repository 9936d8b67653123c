package creates

import "time"

// Bounds on the recordings that one search reads. A search looks at the list several times; each time is a look. A
// recording that cannot be read is not retried within a look.
const (
	maxRead        = 30              // recordings of a search
	maxFailureCost = 30              // of a search: 1 if a recording may not be stored yet, 5 for any other failure
	lookFailures   = 3               // after which a look reads nothing more
	lookTime       = 5 * time.Minute // after which a look starts no further read
	firstPause     = 4 * time.Second // after a look with failures, until the next one reads again; doubled each time
	lastPause      = 8 * time.Minute
)

// Reading limits what a search reads. The zero value is ready to use.
type Reading struct {
	read        int // recordings
	failureCost int

	began    time.Time     // the latest look that read
	failures int           // of that look
	pause    time.Duration // after it, until a look reads again
	paused   bool          // this look does not read
}

// Begin starts the next look. It does not read if the look that read last had failures and its pause is not over.
func (r *Reading) Begin(now time.Time) {
	r.paused = now.Before(r.began.Add(r.pause))
	if r.paused {
		return
	}
	r.began = now
	r.failures = 0
}

// MayRead reports whether this look may read another recording.
func (r *Reading) MayRead(now time.Time) bool {
	if r.paused || !r.MayReadLater() {
		return false
	}
	inTime := now.Before(r.began.Add(lookTime))
	return r.failures < lookFailures && inTime
}

// MayReadLater reports whether this search may read another recording.
func (r *Reading) MayReadLater() bool { return r.read < maxRead && r.failureCost < maxFailureCost }

// Done counts a recording that was read.
func (r *Reading) Done() { r.read++ }

// Failed counts a recording that could not be read. If it is missing, it may not be stored yet. Any other failure
// ends the reading of this look.
func (r *Reading) Failed(missing bool) {
	if r.failures == 0 {
		r.pause = min(max(2*r.pause, firstPause), lastPause)
	}
	if missing {
		r.failures++
		r.failureCost++
		return
	}
	r.failures = lookFailures
	r.failureCost += 5
}

// Recording is what is known of a note's recording. The zero value is unread.
type Recording struct {
	SHA256     string // empty if it was not read to its end
	Size       int64  // 0 if not known
	LongerThan int64  // it has more bytes than this; 0 if not known
}

// Match compares a recording with another one.
type Match int

// The results of a comparison.
const (
	Unread Match = iota
	Differs
	Equal
)

// Compare compares the recording with what was sent. A size that is not positive is not known.
func (r Recording) Compare(size int64, sum string) Match {
	switch {
	case sum == "":
		return Unread
	case r.SHA256 == sum:
		return Equal
	case r.SHA256 != "", r.hasOtherSize(size):
		return Differs
	}
	return Unread
}

// hasOtherSize reports whether the recording is known to have another size. A size that is not positive is not known.
func (r Recording) hasOtherSize(size int64) bool {
	if size <= 0 {
		return false
	}
	if r.Size > 0 && r.Size != size {
		return true
	}
	return r.LongerThan >= size
}

// WantedSum is the context key of a *string that Create fills with the recording's SHA-256, in hexadecimal digits,
// before it calls BeforeCommit.
type WantedSum struct{}
