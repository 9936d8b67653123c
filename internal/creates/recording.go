package creates

import "time"

// Bounds on the recordings that one search reads. A search polls the list several times. A recording that cannot be
// read is not retried within a poll.
const (
	maxRead         = 30              // recordings of a search
	maxFailureCost  = 30              // of a search: 1 if a recording may not be stored yet, 5 for any other failure
	maxPollFailures = 3               // after which a poll reads nothing more
	maxPollTime     = 5 * time.Minute // after which a poll starts no further read
	firstPause      = 4 * time.Second // after a poll with failures, until the next one reads again; doubled each time
	lastPause       = 8 * time.Minute
)

// Reading limits what a search reads. The zero value is ready to use.
type Reading struct {
	read        int // recordings
	failureCost int

	pollBegan    time.Time     // the latest poll that read
	pollFailures int           // of that poll
	pause        time.Duration // after it, until a poll reads again
	paused       bool          // this poll does not read
}

// Begin starts the next poll. The poll reads nothing as long as the pause after the latest poll that read is not over.
func (r *Reading) Begin(now time.Time) {
	r.paused = now.Before(r.pollBegan.Add(r.pause))
	if r.paused {
		return
	}
	r.pollBegan = now
	r.pollFailures = 0
}

// MayRead reports whether this poll may read another recording.
func (r *Reading) MayRead(now time.Time) bool {
	if r.paused || !r.MayReadLater() {
		return false
	}
	inTime := now.Before(r.pollBegan.Add(maxPollTime))
	return r.pollFailures < maxPollFailures && inTime
}

// MayReadLater reports whether this search may read another recording.
func (r *Reading) MayReadLater() bool { return r.read < maxRead && r.failureCost < maxFailureCost }

// Done counts a recording that was read.
func (r *Reading) Done() { r.read++ }

// Failed counts a recording that could not be read. If it is missing, it may not be stored yet. Any other failure
// ends the reading of this poll.
func (r *Reading) Failed(missing bool) {
	if r.pollFailures == 0 { // the first one of this poll
		r.pause = min(max(2*r.pause, firstPause), lastPause)
	}
	if missing {
		r.pollFailures++
		r.failureCost++
		return
	}
	r.pollFailures = maxPollFailures
	r.failureCost += 5
}

// Recording is what is known of a note's recording. The zero value is unread.
type Recording struct {
	SHA256     string // empty if it was not read to its end
	Size       int64  // 0 if not known
	LongerThan int64  // it has more bytes than this, because reading stopped there; 0 if not known
}

// Match compares a recording with another one.
type Match int

// The results of a comparison.
const (
	Unread Match = iota
	Differs
	Equal
)

// Compare compares the recording with what was sent. A size that is not positive, or an empty sum, is not known.
// Without a sum nothing can be compared, so the result is Unread.
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
