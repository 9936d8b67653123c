package recipes

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// auditFile is a file with a line of JSON for each access. Before it exceeds most bytes, it is
// renamed to its name and the time, and a new file is begun. Only one process may use it.
type auditFile struct {
	path string
	most int64
	user func(context.Context) string // for whom a call is made

	mu   sync.Mutex
	file *os.File
	size int64
}

type auditLine struct {
	Time time.Time `json:"time"`
	User string    `json:"user"`
	clinicaldoc.Access
}

// audit is a function for clinicaldoc.WithAudit. If the line cannot be written, the caller does not
// get the record.
func (f *auditFile) audit(ctx context.Context, access clinicaldoc.Access) error {
	line, err := json.Marshal(auditLine{time.Now().UTC(), f.user(ctx), access})
	if err != nil {
		return err
	}
	line = append(line, '\n')
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.makeRoom(int64(len(line))); err != nil {
		return err
	}
	n, err := f.file.Write(line)
	f.size += int64(n)
	return err // add f.file.Sync() if lines must survive a power cut
}

// makeRoom opens the file, or begins a new one if this one is full.
func (f *auditFile) makeRoom(needed int64) error {
	if f.file != nil && f.size+needed > f.most {
		if err := f.file.Close(); err != nil {
			return err
		}
		f.file = nil
		kept := f.path + "." + time.Now().UTC().Format("20060102T150405.000000000Z")
		if err := os.Rename(f.path, kept); err != nil {
			return err
		}
	}
	if f.file != nil {
		return nil
	}
	file, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	f.file = file
	f.size = info.Size()
	return nil
}
