package command

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
)

// auditTrail writes a line for each record that a command sees or changes.
type auditTrail struct {
	file *os.File
	user string // of this machine
}

// auditLine is one line of the file.
type auditLine struct {
	Time    time.Time `json:"time"`
	User    string    `json:"user"`    // of this machine
	Service string    `json:"service"` // base URL
	clinicaldoc.Access
}

// openAuditTrail opens the file to append to it, and makes it if it is not there. Others must not be able to write to
// it.
func openAuditTrail(path string) (*auditTrail, error) {
	refused := func(why string) error {
		return &usageError{
			"the audit file of --audit cannot be used: " + why,
			"name a file that only you can write to; nothing was sent",
		}
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // to open a FIFO may take forever
		return nil, refused(disk.ErrNotRegular.Error())
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrPermission) { // it may be one that can only be written to
		file, err = os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
	}
	if err != nil {
		return nil, refused(reason(err))
	}
	if err := disk.CheckPrivate(file); err != nil {
		_ = file.Close()
		return nil, refused(err.Error())
	}
	trail := &auditTrail{file: file}
	if known, err := user.Current(); err == nil {
		trail.user = known.Username
	}
	return trail, nil
}

// isAuditFile reports whether the path is that of --audit, or another name of the same file. The file may not exist
// yet.
func (e *Env) isAuditFile(path string) bool {
	if e.auditPath == "" {
		return false
	}
	audit, err := os.Stat(e.auditPath)
	if err == nil {
		named, err := os.Stat(path)
		return err == nil && os.SameFile(audit, named)
	}
	auditPath, err := filepath.Abs(e.auditPath)
	if err != nil {
		return false
	}
	absolute, err := filepath.Abs(path)
	return err == nil && absolute == auditPath
}

// option tells the trail of what a client of the service sees or changes. A line is one write, so that several commands
// can share a file.
func (t *auditTrail) option(service string) clinicaldoc.Option {
	return clinicaldoc.WithAudit(func(_ context.Context, access clinicaldoc.Access) error {
		line, err := json.Marshal(auditLine{time.Now().UTC(), t.user, service, access})
		if err != nil {
			return err
		}
		return t.append(line)
	})
}

// append appends a line. If a full disk or a kill has cut off the line before, it ends that one first, because it would
// become a part of this one otherwise.
func (t *auditTrail) append(line []byte) error {
	if t.isCutOff() {
		line = append([]byte{'\n'}, line...)
	}
	_, err := t.file.Write(append(line, '\n'))
	return err
}

// isCutOff reports whether the file's last line lacks its end.
func (t *auditTrail) isCutOff() bool {
	info, err := t.file.Stat()
	if err != nil || info.Size() == 0 {
		return false
	}
	last := make([]byte, 1)
	_, err = t.file.ReadAt(last, info.Size()-1)
	return err == nil && last[0] != '\n'
}
