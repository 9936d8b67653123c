package creates

import "time"

// Bounds on the recordings that one search reads back. Looks are what retries them: a read is made once.
const (
	maxRead      = 30 // to their end
	budget       = 30 // of failures: one that may lag costs one, any other three
	lookFailures = 3
	lookTime     = 5 * time.Minute // after which a look begins no other
)

// Reading counts what a search has read. The zero value is ready to use.
type Reading struct {
	Read            int // to their end
	spent, failures int
	until           time.Time
}

// Begin starts the next look.
func (r *Reading) Begin(now time.Time) { r.failures, r.until = 0, now.Add(lookTime) }

// May reports whether another recording may be read in this look.
func (r *Reading) May(now time.Time) bool {
	return r.Left() && r.failures < lookFailures && now.Before(r.until)
}

// Left reports whether another recording may be read at all.
func (r *Reading) Left() bool { return r.Read < maxRead && r.spent < budget }

// Failed counts a read that failed; missing: storage may not have the recording yet.
func (r *Reading) Failed(missing bool) {
	r.failures, r.spent = r.failures+1, r.spent+3
	if missing {
		r.spent -= 2
	}
}

// Control is a note that a create returned, and what it was made of: read back, it shows whether the service keeps recordings
// of this media type as they are sent.
type Control struct {
	Note    Ref                    `json:"note"`
	Size    int64                  `json:"size"`
	SHA256  string                 `json:"sha256"`
	Compute func() (string, error) `json:"-"` // the sum, when it matters: a create that succeeds is not hashed
	Shows   Match                  `json:"-"` // Equal: recordings are kept; Differs: they are not; Untold: nobody has looked
}

// Computed returns it with its sum; zero: that cannot be known any more.
func (c Control) Computed() Control {
	if c.SHA256 == "" && c.Compute != nil {
		c.SHA256, _ = c.Compute()
	}
	if c.SHA256 == "" {
		return Control{}
	}
	return c
}

// SetControl remembers a note of that media type, or what it showed: that is enough for good. One that nobody has looked at makes
// room for a younger one: somebody may have deleted it, or moved its file.
func (m *Registry) SetControl(mediaType string, c Control) {
	if mediaType != "" && (c.SHA256 != "" || c.Compute != nil) && m.Controls.Get(mediaType).Shows == Untold {
		m.Controls.Put(mediaType, c)
	}
}

// Recording is what is known of one that was read back; zero: nothing.
type Recording struct {
	Size   int64
	SHA256 string // empty: only its size was looked at
}

// Compare holds it against what was sent: by its size alone it can only differ.
func (r Recording) Compare(size int64, sum string) Match {
	if sum != "" && r.SHA256 == "" && Compare(max(size, 0), r.Size) == Differs {
		return Differs
	}
	return Compare(sum, r.SHA256)
}

// WantedSum is the key of a *string in the context of a create that has a BeforeCommit. Its recording is hashed while it is sent:
// when BeforeCommit is called, the SHA-256 stands there, in hexadecimal digits.
type WantedSum struct{}
