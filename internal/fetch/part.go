package fetch

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/clinicaldoc/clinicaldoc-go/internal/filelock"
)

// checkpointSize is how much of a part may be lost in a crash.
const checkpointSize = 16 << 20

// Part is the beginning of a recording on disk. Whoever has its companion open owns it.
type Part struct {
	path      string // of the whole recording
	file      *os.File
	companion *os.File
	info      partInfo
	size      int64
	head      []byte // the first bytes that an earlier call left, up to headSize
}

// partInfo is what the companion says: what the part is a part of, and how much of it is surely on disk.
type partInfo struct {
	Service string `json:"service"`
	Note    int64  `json:"note"`
	ETag    string `json:"etag"`
	Total   int64  `json:"total"` // -1: not known
	Size    int64  `json:"size"`
}

// OpenPart opens the part of a recording that an earlier call left, or an empty one.
func OpenPart(path, service string, id int64) (*Part, error) {
	companion, err := filelock.Open(path + ".part.json")
	if err != nil {
		return nil, err
	}
	p := &Part{path: path, companion: companion, info: partInfo{Service: service, Note: id, Total: -1}}
	if err := p.open(); err != nil {
		p.Leave()
		return nil, err
	}
	return p, nil
}

var errNotRegular = safeError("the .part beside it is another thing than a file")

func (p *Part) open() error {
	name := p.path + ".part"
	info, err := os.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		return errNotRegular
	}
	if p.file, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if err := p.file.Chmod(0o600); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if info, err = p.file.Stat(); err != nil {
		return err
	}
	if left, ok := p.readInfo(); ok && left.Size <= info.Size() {
		p.info, p.size = left, left.Size
		if p.size == left.Total {
			p.size-- // so that storage is asked once more whether this is still the recording
		}
	}
	if err := p.file.Truncate(p.size); err != nil {
		return err
	}
	p.head = make([]byte, min(p.size, headSize))
	if _, err := p.file.ReadAt(p.head, 0); err != nil {
		return err
	}
	_, err = p.file.Seek(p.size, io.SeekStart)
	return err
}

const maxCompanion = 4 << 10

// readInfo reads what an earlier call says it left, if that is a part of the same note's recording.
func (p *Part) readInfo() (partInfo, bool) {
	var info partInfo
	text, err := io.ReadAll(io.NewSectionReader(p.companion, 0, maxCompanion))
	if err != nil || json.Unmarshal(text, &info) != nil {
		return info, false
	}
	same := info.Service == p.info.Service && info.Note == p.info.Note
	sane := isStrongTag(info.ETag) && info.Size > 0 && (info.Total == -1 || info.Total >= info.Size)
	return info, same && sane
}

func (p *Part) left() (recording, int64, []byte) {
	return recording{p.info.ETag, p.info.Total}, p.size, p.head
}

func (p *Part) Write(b []byte) (int, error) {
	n, err := p.file.Write(b)
	p.size += int64(n)
	if err == nil && p.size-p.info.Size >= checkpointSize {
		err = p.checkpoint()
	}
	return n, err
}

func (p *Part) begin(r recording) error {
	p.info.ETag, p.info.Total = r.etag, r.total
	return p.checkpoint()
}

// rewind forgets the part before it empties it, so that no crash leaves an old description with new bytes.
func (p *Part) rewind() error {
	p.size, p.info.ETag, p.info.Total = 0, "", -1
	if err := p.describe(); err != nil {
		return err
	}
	if err := p.file.Truncate(0); err != nil {
		return err
	}
	_, err := p.file.Seek(0, io.SeekStart)
	return err
}

// checkpoint brings the part to disk, then says so.
func (p *Part) checkpoint() error {
	if err := p.file.Sync(); err != nil {
		return err
	}
	return p.describe()
}

func (p *Part) describe() error {
	p.info.Size = p.size
	text, err := json.Marshal(p.info)
	if err != nil {
		return err
	}
	if err := p.companion.Truncate(0); err != nil {
		return err
	}
	_, err = p.companion.WriteAt(text, 0)
	return err
}

// Leave keeps the part for the next call, or nothing if there is no part. Failures of that cost only a repetition.
func (p *Part) Leave() {
	if p.file != nil {
		if p.size > 0 && p.info.ETag != "" && p.checkpoint() == nil {
			_ = p.file.Close()
			_ = p.companion.Close()
			return
		}
		_ = p.file.Close()
		_ = os.Remove(p.path + ".part")
	}
	_ = filelock.Remove(p.companion)
}

// Finish gives the complete recording its name.
func (p *Part) Finish() error {
	err := p.checkpoint()
	if closed := p.file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(p.path+".part", p.path)
	}
	if err != nil {
		_ = p.companion.Close()
		return err
	}
	syncDirectory(filepath.Dir(p.path))
	if err := filelock.Remove(p.companion); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// syncDirectory brings a new name to disk where the system can do that.
func syncDirectory(path string) {
	if directory, err := os.Open(path); err == nil {
		_ = directory.Sync()
		_ = directory.Close()
	}
}
