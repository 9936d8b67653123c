package main

import (
	"context"
	"encoding/json"
	"os"
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
	return b.append(line)
}

// append appends a line to the trail. If a full disk has cut off the line before, it ends that one first, because it
// would become a part of this one otherwise.
func (b *backend) append(line []byte) error {
	b.trailLock.Lock()
	defer b.trailLock.Unlock()
	if b.trailIsCut {
		line = append([]byte{'\n'}, line...)
	}
	n, err := b.trail.Write(append(line, '\n'))
	b.trailIsCut = err != nil && (b.trailIsCut || n > 0)
	return err
}

// openTrail opens the file of the trail. It reports whether the last line was cut off, as a full disk leaves it.
func openTrail(path string) (file *os.File, isCut bool, err error) {
	file, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, err
	}
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return file, false, err
	}
	last := make([]byte, 1)
	_, err = file.ReadAt(last, info.Size()-1)
	return file, last[0] != '\n', err
}
