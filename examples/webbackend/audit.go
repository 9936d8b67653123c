package main

import (
	"context"
	"encoding/json"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// auditLine says which clinician saw or changed which record.
type auditLine struct {
	Time      time.Time `json:"time"`
	Clinician int64     `json:"clinician"` // user of the service
	clinicaldoc.Access
}

// audit writes a line to the trail, in the name of the session's clinician. If it cannot, the page does not get the
// record.
func (b *backend) audit(ctx context.Context, access clinicaldoc.Access) error {
	if b.trail == nil {
		return nil
	}
	clinician := who(ctx)
	if clinician == nil {
		return errNotLoggedIn
	}
	line, err := json.Marshal(auditLine{time.Now().UTC(), clinician.user.ID, access})
	if err != nil {
		return err
	}
	b.trailLock.Lock()
	defer b.trailLock.Unlock()
	_, err = b.trail.Write(append(line, '\n'))
	return err
}
