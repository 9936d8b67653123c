package creates

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Made is when a note was made, compared with the window of a lost create.
type Made int

// The results of that comparison.
const (
	MadeOutside Made = iota // the create cannot have made it: too early or too late
	MadeBefore              // before the create was sent, but by so little that the clocks may be wrong
	MadeSince               // not before the create was sent, as far as the clocks can tell
)

const (
	// slack is how far a service's times can be off without showing it: local times that are labeled as UTC.
	slack = 26 * 3600
	// MostBehind is how far local time can be behind UTC. A time without a zone may be of any place.
	MostBehind = 12 * 3600
	// justBefore is how much earlier than it was sent a create's note may appear to have been made.
	justBefore = 15 * 60
)

// Clocks compares the service's clock with ours, in whole seconds, because few services report more.
type Clocks struct {
	Now   int64 // by our clock
	Known bool  // the service reported its time

	// ServiceAhead is how far the service's clock is ahead of ours, or behind if it is negative. Of the values that
	// the response allows, it is the one closest to zero.
	ServiceAhead int64
	// AheadUncertainty is how much less far ahead, or further behind, the service's clock may be: Date has whole
	// seconds, and a response takes time.
	AheadUncertainty int64
	// FurtherAheadWhenSent is how much further ahead the service's clock was when the create was sent.
	FurtherAheadWhenSent int64
	// CachedFor is how long the response had been in a cache.
	CachedFor time.Duration

	// NotesBackdatedBy is how much earlier than they were made notes have appeared to be.
	NotesBackdatedBy int64
	// NoteTimesVerified is set if the latest note that this client created has shown how its time compares with the
	// clocks. A date alone does not show it.
	NoteTimesVerified bool
	// MayBeHoursOff is set if notes' times have no zone, were never tried, or the clock of the service or of the create
	// is not known.
	MayBeHoursOff bool
	// Zoneless is set if notes' times have no zone. One at midnight may then be a date alone.
	Zoneless bool
}

// ReadClocks reads the service's time from the headers of a response. A Date between the times at which the request was
// sent and the response arrived agrees with our clock.
func ReadClocks(h http.Header, sent, arrived time.Time) Clocks {
	c := Clocks{Now: arrived.Unix()}
	const longest = 1 << 31 // RFC 9111 allows no longer Age
	if age, err := strconv.ParseInt(h.Get("Age"), 10, 64); err == nil {
		c.CachedFor = time.Duration(min(max(age, 0), longest)) * time.Second
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		service := date.Add(c.CachedFor).Unix()
		// Our time when Date was set: between sent and arrived, and as close to Date as possible.
		ours := min(max(service, sent.Unix()), arrived.Unix())
		c.Known = true
		c.ServiceAhead = service - ours
		c.AheadUncertainty = arrived.Unix() - ours + 1
	}
	return c
}

// StaleFor returns how old the content of the response that showed these clocks may be. It is the time in a cache that
// the response reports, plus how far the service's clock has fallen back, against ours, since furthest: a cache may
// keep an old Date without an Age, and our clock may have been set. StaleFor replaces furthest, the clocks that were
// furthest ahead in any response so far, if these are further ahead.
func (c Clocks) StaleFor(furthest *Clocks) time.Duration {
	if !c.Known {
		return c.CachedFor
	}
	if !furthest.Known || c.ServiceAhead > furthest.ServiceAhead {
		*furthest = c
	}
	fallen := furthest.ServiceAhead - c.ServiceAhead
	if fallen <= 1 { // clocks in whole seconds may differ by one without a change
		return c.CachedFor
	}
	return c.CachedFor + time.Duration(fallen)*time.Second
}

// Window is the time in which a lost create can have made its note, by our clock: from when it was sent until the
// service was done with it.
type Window struct{ Sent, Settled int64 }

// InFuture reports whether the create was sent in the future, by our clock or by the service's.
func (w Window) InFuture(c Clocks) bool { return w.Sent > c.Now || w.Sent > c.Now+c.ServiceAhead }

// Compare compares a note's time of creation, by the service's clock, with the window. A note without one, or with one
// in the future, counts as MadeSince.
func (w Window) Compare(created time.Time, c Clocks) Made {
	made := created.Unix()
	isInFuture := made > c.Now+max(c.ServiceAhead, 0)+slack // so it is not the time of creation
	if created.IsZero() || isInFuture {
		return MadeSince
	}
	sent := w.Sent + c.ServiceAhead + c.FurtherAheadWhenSent // by the service's clock
	tolerance := max(c.NotesBackdatedBy, c.AheadUncertainty) // the note may appear older than it is by either
	switch {
	case c.latestOf(created) < w.earliest(c), made > w.latest(c):
		return MadeOutside
	case made < sent-tolerance:
		return MadeBefore
	}
	return MadeSince
}

// earliest returns the earliest time, by either clock, at which the create's note may appear to have been made.
func (w Window) earliest(c Clocks) int64 {
	sent := w.Sent + min(c.ServiceAhead+min(c.FurtherAheadWhenSent, 0), 0)
	if c.MayBeHoursOff {
		return sent - max(slack, c.NotesBackdatedBy)
	}
	return sent - max(justBefore, c.NotesBackdatedBy)
}

// latest returns the latest time, by either clock, at which the create's note may appear to have been made.
func (w Window) latest(c Clocks) int64 {
	return w.Settled + max(c.ServiceAhead+max(c.FurtherAheadWhenSent, 0), 0) + slack
}

// quarterHour is the step of zones: a date alone, with any zone, is a multiple of it in UTC.
const quarterHour = 15 * 60

// LatestOf returns the latest time that a service's time can stand for, in the service's zone. One at midnight may be a
// date alone.
func LatestOf(sent time.Time, zoneless bool) time.Time {
	const day = 24 * time.Hour
	midnights := quarterHour * time.Second
	if zoneless { // read as UTC
		midnights = day
	}
	mayBeMidnight := sent.Truncate(midnights).Equal(sent)
	if mayBeMidnight {
		return sent.Add(day)
	}
	return sent
}

// latestOf returns the latest time at which a note can have been made that names this time.
func (c Clocks) latestOf(created time.Time) int64 {
	if c.Zoneless {
		return LatestOf(created, c.Zoneless).Unix()
	}
	return created.Unix()
}

// Past reports whether a list with these times of creation is sorted from the newest to the oldest and has reached
// notes that are older than the window. That proves nothing about a service which does not sort as it is asked to;
// see [ReversedBeginsWithOldest].
func (w Window) Past(made []time.Time, c Clocks) bool {
	if len(made) == 0 || made[len(made)-1].IsZero() {
		return false
	}
	newest := made[0]
	oldest := made[len(made)-1]
	isSorted := slices.IsSortedFunc(made, func(a, b time.Time) int { return cmp.Compare(b.Unix(), a.Unix()) })
	if !isSorted {
		return false
	}
	if newest.Unix() == oldest.Unix() { // notes of one second show no order
		return false
	}
	sent := w.Sent + min(c.ServiceAhead, 0) // by our clock or the service's, whichever is behind
	return c.latestOf(oldest) < sent-slack
}

// ReversedBeginsWithOldest reports whether the list in the other order begins with a note that is not newer than the
// last one of made, the times from the newest to the oldest. Then the service sorts as it is asked to: a list that is
// sorted only by accident begins with the same note in both orders.
func ReversedBeginsWithOldest(made []time.Time, firstReversed time.Time) bool {
	if len(made) == 0 || firstReversed.IsZero() {
		return false
	}
	oldest := made[len(made)-1]
	return firstReversed.Unix() <= oldest.Unix()
}
