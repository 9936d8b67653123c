package download

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Part is the beginning of a recording, in a file next to the final one. A companion with a fixed name describes
// it, and its lock protects both. The part has a random name, which is written in the companion. So only files that
// an earlier call created are opened, truncated or removed.
type Part struct {
	fs        disk.FS
	path      string // of the whole recording
	file      disk.File
	companion disk.Record
	info      partInfo
	size      int64
	finished  bool // Finish was called

	checkpointEvery int64 // so many bytes; at most these are lost in a crash
}

// partInfo is the content of the companion. Its first two members never change, so they can be read even if a crash
// left the others half written.
type partInfo struct {
	Format    string `json:"format"`
	Part      string `json:"part"` // the end of the part's name
	Of        string `json:"of"`   // the recording
	Location  string `json:"location"`
	ETag      string `json:"etag"`
	Total     int64  `json:"total"` // or unknown
	Size      int64  `json:"size"`  // how much of it is certainly on disk
	SizeAgain int64  `json:"again"` // a crash can leave the beginning of one number and the end of another
}

// canContinue reports whether the part can be continued. It cannot if storage might not recognize the recording, if the
// part is too short to check, or if a crash left the description half written.
func (i partInfo) canContinue() bool {
	switch {
	case strongTag(i.ETag) == "", i.Location == "":
		return false
	case i.Size < headSize, i.SizeAgain != i.Size:
		return false
	}
	return i.Total == unknown || i.Total >= i.Size
}

const (
	partFormat     = "clinicaldoc-part"
	partPrefix     = `{"format":"` + partFormat + `","part":"`
	partDigits     = 16
	maxCompanion   = 4 << 10
	checkpointSize = 16 << 20
)

var errNotOurs = redact.Fail("the download keeps its progress in a second file, but another program's file has that "+
	"name; move that file, or use another path", fs.ErrExist)

// OpenPart opens the part that an earlier call left of the recording named by of, or creates an empty one. The error
// matches [disk.ErrHeld] if another download to the path is running, and [fs.ErrExist] if another program's file has
// the name of the companion.
func OpenPart(ctx context.Context, path, of string) (*Part, error) {
	fsys := disk.From(ctx)
	companion, err := fsys.Take(partFile(path, ".json"))
	if err != nil {
		return nil, failed("the file could not be opened", err)
	}
	info := partInfo{Format: partFormat, Of: of, Total: unknown}
	p := &Part{fs: fsys, path: path, companion: companion, checkpointEvery: checkpointSize, info: info}
	if err := p.open(); err != nil {
		if p.file != nil {
			_ = p.file.Close()
		}
		_ = companion.Close()
		return nil, failed("the file could not be opened", err)
	}
	return p, nil
}

// partFile returns the name of a file that belongs to a download to path. A long base name is shortened and hashed.
func partFile(path, suffix string) string {
	const maxBase = 180 // bytes; file systems allow names of 255 bytes or UTF-16 units
	dir, base := filepath.Split(path)
	if len(base) > maxBase {
		sum := sha256.Sum256([]byte(base))
		base = strings.ToValidUTF8(base[:maxBase], "") + "-" + hex.EncodeToString(sum[:8])
	}
	return dir + "." + base + ".clinicaldoc-part" + suffix
}

func (p *Part) partPath() string { return partFile(p.path, "-"+p.info.Part) }

// open opens the part that the companion names, and keeps of it what certainly belongs to the recording. It creates an
// empty part if the companion does not name one, or if the part is gone. It returns errNotOurs if another program wrote
// the companion.
func (p *Part) open() error {
	text, err := io.ReadAll(io.NewSectionReader(p.companion, 0, maxCompanion))
	if err != nil {
		return err
	}
	isUnused := namesNoPart(bytes.TrimRight(text, "\x00")) // a crash can leave zeros at the end
	name := partName.FindSubmatch(text)
	if name == nil && !isUnused {
		return errNotOurs
	}
	if err := p.companion.CheckPrivate(); err != nil {
		return err
	}
	if isUnused {
		return p.create()
	}
	p.info.Part = string(name[1])
	p.file, err = p.fs.Open(p.partPath(), true)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return p.create()
	case err != nil:
		return err
	}
	return p.resume(text)
}

// namesNoPart reports whether a companion is new, or a crash left only its beginning: a part of partPrefix, or all of
// it and some digits. Then no part was created.
func namesNoPart(text []byte) bool {
	n := min(len(text), len(partPrefix))
	prefix := string(text[:n])
	digits := text[n:]
	if prefix != partPrefix[:n] || len(digits) > partDigits {
		return false
	}
	return len(bytes.Trim(digits, "0123456789abcdef")) == 0
}

// partName matches the beginning of a companion, up to and including the complete name of its part.
var partName = regexp.MustCompile(`^` + regexp.QuoteMeta(partPrefix) + `([0-9a-f]{16})"`)

// create creates an empty part. The companion names it first, so that no crash leaves a part that nobody knows.
func (p *Part) create() error {
	random := make([]byte, partDigits/2)
	_, _ = rand.Read(random) // never fails
	p.info.Part = hex.EncodeToString(random)
	err := p.describe()
	if err == nil {
		err = p.companion.Sync()
	}
	if err == nil {
		p.file, err = p.fs.Create(p.partPath(), true)
	}
	if err != nil {
		_ = p.companion.Remove() // it names nothing
	}
	return err
}

// resume continues the part as far as it certainly belongs to the same recording. If that is not certain, it discards
// all of it.
func (p *Part) resume(text []byte) error {
	var left partInfo
	err := json.NewDecoder(bytes.NewReader(text)).Decode(&left) // what follows is the end of an older, longer text
	isSame := left.Of == p.info.Of
	if err != nil || !isSame {
		return p.rewind(0)
	}
	if !left.canContinue() {
		return p.rewind(0)
	}
	if n, _ := p.file.ReadAt(make([]byte, 1), left.Size-1); n == 0 {
		return p.rewind(0) // the file is shorter
	}
	p.info = left
	p.size = left.Size
	if p.size == left.Total {
		p.size-- // so that storage has to confirm that this is still the recording
	}
	return p.file.Truncate(p.size)
}

// alreadyHas implements [Target].
func (p *Part) alreadyHas() (r recording, location string, size int64) {
	return recording{p.info.ETag, p.info.Total}, p.info.Location, p.size
}

// Write implements [io.Writer]. It writes a checkpoint now and then.
func (p *Part) Write(b []byte) (int, error) {
	n, err := p.file.Write(b)
	p.size += int64(n)
	if err == nil && p.size-p.info.Size >= p.checkpointEvery {
		err = p.checkpoint()
	}
	return n, err
}

// begin implements [Target].
func (p *Part) begin(r recording, location string) {
	p.info.Location = location
	p.info.ETag = r.etag
	p.info.Total = r.total
}

// rewind implements [Target]. It resets the description on disk before it truncates the part. So no crash leaves an old
// description with new bytes, which may be another patient's.
func (p *Part) rewind(int64) error {
	p.size = 0
	p.begin(recording{total: unknown}, "")
	if err := p.describe(); err != nil {
		return err
	}
	if err := p.companion.Sync(); err != nil {
		return err
	}
	return p.file.Truncate(0)
}

// checkpoint writes the part to disk, and then its size to the companion.
func (p *Part) checkpoint() error {
	if err := p.file.Sync(); err != nil {
		return err
	}
	return p.describe()
}

// describe writes the description of the part over the old one in the companion, and then cuts off the rest of that.
// So the first members, which name the part, survive a crash.
func (p *Part) describe() error {
	p.info.Size = p.size
	p.info.SizeAgain = p.size
	text, _ := json.Marshal(p.info) // texts and numbers: never fails
	if _, err := p.companion.WriteAt(text, 0); err != nil {
		return err
	}
	return p.companion.Truncate(int64(len(text)))
}

// Leave closes the part and keeps it for the next call, or removes it if it cannot be continued. If that fails, the
// next call starts again. After Finish it does nothing.
func (p *Part) Leave() {
	if p.finished {
		return
	}
	canContinue := p.size > 0 && p.info.ETag != ""
	isKept := canContinue && p.checkpoint() == nil
	_ = p.file.Close()
	if isKept {
		_ = p.companion.Close()
		return
	}
	_ = p.fs.Remove(p.partPath())
	_ = p.companion.Remove()
}

// Finish writes the complete recording to disk and gives it its name. After an error, the part stays for the next
// download. The part is closed in any case.
func (p *Part) Finish() error {
	p.finished = true
	err := errors.Join(p.checkpoint(), p.file.Close())
	if err == nil {
		err = p.fs.Rename(p.partPath(), p.path)
	}
	if err != nil {
		_ = p.companion.Close()
		return failed("the file could not be completed", err)
	}
	_ = p.fs.SyncDir(filepath.Dir(p.path)) // not all file systems can do that
	_ = p.companion.Remove()               // if it stays, it names no part that exists; the next download starts anew
	return nil
}
