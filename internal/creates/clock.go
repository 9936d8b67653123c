package creates

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Made is when a note was made, held against when the lost create was sent.
type Made int

// When a note can have been made, from impossible to certain.
const (
	MadeOutside    Made = iota // of the window
	MadeEarlier                // before it was sent, in the window
	MadeJustBefore             // before it was sent, by minutes
	MadeUnclear                // the clocks disagree, be it by seconds, the service does not tell, or it was later than it can have taken
	MadeAhead                  // not before it was sent, by both clocks, but that time has not come yet by the service's own
	MadeSince                  // not before it was sent, by both clocks
)

const (
	// slack is how far a service's times can be off without a word: local times, given as if they were UTC.
	slack = 26 * 3600
	// MostMoved is how far a clock may have been set that nobody has compared.
	MostMoved = slack
	// MostBehind is how far the time of a place can be behind UTC: one without a zone may be that of any place.
	MostBehind = 12 * 3600
	// justBefore is how much earlier a note may seem to be that was made since.
	justBefore = 15 * 60
)

// Clocks is the time at which a response came, in whole seconds: few services tell more.
type Clocks struct {
	Now    int64         // by our clock
	Ahead  int64         // how far the service's clock is ahead of ours, going by the nearest it can be
	Moved  int64         // how much farther it was when the create was lost, by a clock that may have been another
	Spread int64         // how much less that may be: Date tells whole seconds, and a response takes its time
	Known  bool          // the service gave its time
	Cached time.Duration // how long the response had been in a cache
	Behind int64         // how far its times may be behind UTC without saying so
	Late   int64         // how much earlier than they were made notes seemed to have been
}

// ReadClocks takes the service's time from a response. A Date between the times of ours at which it was asked for and came agrees.
func ReadClocks(h http.Header, asked, came time.Time) Clocks {
	c := Clocks{Now: came.Unix()}
	if age, err := strconv.ParseInt(h.Get("Age"), 10, 64); err == nil {
		c.Cached = time.Duration(min(max(age, 0), 1<<31)) * time.Second // RFC 9111 has no longer one
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now := date.Add(c.Cached).Unix()
		c.Known = true
		c.Ahead = now - min(max(now, asked.Unix()), came.Unix())
		c.Spread = c.Ahead - (now - came.Unix()) + 1
	}
	return c
}

// Window is the time in which the note of a lost create can have been made, by our clock: from when it was sent until it was settled.
type Window struct{ Sent, Settled int64 }

// Future tells whether it was sent in the future, by our clock and by the service's.
func (w Window) Future(c Clocks) (ours, theirs bool) { return w.Sent > c.Now, w.Sent > c.Now+c.Ahead }

// Made tells when a note was made, going by what the service gives as its time of creation.
func (w Window) Made(created time.Time, c Clocks) Made {
	at := created.Unix()
	least, most := c.Ahead+min(c.Moved, 0), c.Ahead+max(c.Moved, 0)
	earliest := w.Sent + min(least, 0)
	ours, theirs, soon := at >= w.Sent, at >= w.Sent+most, at <= w.Settled+least
	switch {
	case created.IsZero():
		return MadeUnclear
	case at < earliest-slack || at > w.Settled+slack+max(most, 0):
		return MadeOutside
	case ours && theirs && soon && c.Known && at > c.Now+c.Ahead:
		return MadeAhead
	case ours && theirs && soon && c.Known:
		return MadeSince
	case ours || at >= w.Sent+least-max(c.Late, c.Spread):
		return MadeUnclear
	case at >= earliest-justBefore-c.Behind:
		return MadeJustBefore
	}
	return MadeEarlier
}

// Stale is how much less time has passed than our clock says, for what a response shows: as long as it was in a cache, and as
// long as the service's clock has fallen behind ours since it was the furthest ahead, which is updated. A cache may keep an old
// Date and say nothing, and our own clock may have been set.
func (c Clocks) Stale(furthest *Clocks) time.Duration {
	if c.Known && (!furthest.Known || c.Ahead > furthest.Ahead) {
		*furthest = c
	}
	if fallen := furthest.Ahead - c.Ahead; c.Known && fallen > 1 { // whole seconds are rounded
		return c.Cached + time.Duration(fallen)*time.Second
	}
	return c.Cached
}

// Past reports whether notes that were made at these times come newest first and all that follows is older than the window, if the
// service follows the order it is asked for: one that does not know the sort parameter's name says nothing of it.
func (w Window) Past(made []time.Time, c Clocks) bool {
	if len(made) == 0 || made[len(made)-1].IsZero() {
		return false
	}
	falls := slices.IsSortedFunc(made, func(a, b time.Time) int { return cmp.Compare(b.Unix(), a.Unix()) })
	oldest := made[len(made)-1].Unix()
	return falls && oldest < made[0].Unix() && oldest < w.Sent+min(c.Ahead, 0)-slack
}

// Followed reports whether it does: the list in the other order begins with a note made at the first time. A list that falls in time
// only by accident begins with the same note in both.
func Followed(made []time.Time, first time.Time) bool {
	return len(made) > 0 && !first.IsZero() && first.Unix() <= made[len(made)-1].Unix()
}
