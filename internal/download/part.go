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

// Part is the beginning of a recording in a file beside the one that it will become. A companion of a fixed name says
// what it is a part of, and whoever has that locked owns both. The part's own name is random and stands in the companion:
// no file is opened, emptied or removed but one that an earlier call made.
type Part struct {
	fs        disk.FS
	path      string // of the whole recording
	file      disk.File
	companion disk.Record
	info      partInfo
	size      int64
	every     int64 // how much of it may be lost in a crash
	finished  bool
}

// partInfo is what the companion says. Its first two members are written once and never change: they are readable even
// if a crash tears the others.
type partInfo struct {
	Format string `json:"format"`
	Part   string `json:"part"` // what the part's name ends with
	Of     string `json:"of"`   // the recording
	ETag   string `json:"etag"`
	Total  int64  `json:"total"` // -1: not known
	Size   int64  `json:"size"`  // how much of it is surely on disk
	Again  int64  `json:"again"` // the same: a crash can leave the beginning of one number and the end of another
}

const (
	partFormat     = "clinicaldoc-part"
	partPrefix     = `{"format":"` + partFormat + `","part":"`
	partDigits     = 16
	maxCompanion   = 4 << 10
	checkpointSize = 16 << 20
)

var errNotOurs = redact.Fail("a file that no download made bears the name of the part's companion; it is not touched", fs.ErrExist)

// OpenPart opens the part that an earlier call left of the recording named by of, or an empty one. The error is
// [disk.ErrHeld] while another download to the path is under way, and [fs.ErrExist] when a file of somebody else's is
// in the way.
func OpenPart(ctx context.Context, path, of string) (*Part, error) {
	fsys := disk.From(ctx)
	companion, err := fsys.Take(beside(path, ".json"))
	if err != nil {
		return nil, failed("the file could not be opened", err)
	}
	p := &Part{fs: fsys, path: path, companion: companion, every: checkpointSize, info: partInfo{Format: partFormat, Of: of, Total: -1}}
	if err := p.open(); err != nil {
		if p.file != nil {
			_ = p.file.Close()
		}
		_ = companion.Close()
		return nil, failed("the file could not be opened", err)
	}
	return p, nil
}

// beside is the name of a file that belongs to a download to path. Of a long base name it has the beginning and a hash.
func beside(path, suffix string) string {
	const maxBase = 180 // bytes; file systems take names of 255, some of as many UTF-16 units
	dir, base := filepath.Split(path)
	if len(base) > maxBase {
		sum := sha256.Sum256([]byte(base))
		base = strings.ToValidUTF8(base[:maxBase], "") + "-" + hex.EncodeToString(sum[:8])
	}
	return dir + "." + base + ".clinicaldoc-part" + suffix
}

func (p *Part) partPath() string { return beside(p.path, "-"+p.info.Part) }

func (p *Part) open() error {
	text, err := io.ReadAll(io.NewSectionReader(p.companion, 0, maxCompanion))
	if err != nil {
		return err
	}
	fresh, named := namesNothing(bytes.TrimRight(text, "\x00")), partName.FindSubmatch(text)
	if named == nil && !fresh {
		return errNotOurs
	}
	if err := p.companion.CheckPrivate(); err != nil {
		return err
	}
	if fresh {
		return p.create()
	}
	p.info.Part = string(named[1])
	p.file, err = p.fs.Open(p.partPath(), true)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return p.create()
	case err != nil:
		return err
	}
	return p.resume(text)
}

// namesNothing reports whether a companion is new, or a crash left no more than its beginning: no part was made then.
func namesNothing(text []byte) bool {
	n := min(len(text), len(partPrefix))
	return string(text[:n]) == partPrefix[:n] && len(text)-n <= partDigits && len(bytes.Trim(text[n:], "0123456789abcdef")) == 0
}

// partName is, in a companion that a download wrote, what the name of its part ends with.
var partName = regexp.MustCompile(`^` + regexp.QuoteMeta(partPrefix) + `([0-9a-f]{16})"`)

// create makes an empty part. The companion names it first, so that no crash leaves a part that nobody knows.
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

// resume goes on with the part as far as it surely is of the same recording, or empties it.
func (p *Part) resume(text []byte) error {
	var left partInfo
	err := json.NewDecoder(bytes.NewReader(text)).Decode(&left) // what follows is the end of an older, longer text
	sane := strongTag(left.ETag) != "" && left.Size >= headSize && left.Again == left.Size && (left.Total == -1 || left.Total >= left.Size)
	if err != nil || left.Of != p.info.Of || !sane {
		return p.rewind(0)
	}
	if n, _ := p.file.ReadAt(make([]byte, 1), left.Size-1); n == 0 {
		return p.rewind(0) // there is not so much of it
	}
	p.info, p.size = left, left.Size
	if p.size == left.Total {
		p.size-- // so that storage is asked once more whether this is still the recording
	}
	return p.file.Truncate(p.size)
}

func (p *Part) left() (recording, int64) { return recording{p.info.ETag, p.info.Total}, p.size }

func (p *Part) Write(b []byte) (int, error) {
	n, err := p.file.Write(b)
	p.size += int64(n)
	if err == nil && p.size-p.info.Size >= p.every {
		err = p.checkpoint()
	}
	return n, err
}

func (p *Part) begin(r recording) { p.info.ETag, p.info.Total = r.etag, r.total }

// rewind forgets the part before it empties it, and that on the disk too: no crash leaves an old description with new bytes, which
// may be another patient's.
func (p *Part) rewind(int64) error {
	p.size, p.info.ETag, p.info.Total = 0, "", -1
	if err := p.describe(); err != nil {
		return err
	}
	if err := p.companion.Sync(); err != nil {
		return err
	}
	return p.file.Truncate(0)
}

// checkpoint brings the part to disk, then says so.
func (p *Part) checkpoint() error {
	if err := p.file.Sync(); err != nil {
		return err
	}
	return p.describe()
}

// describe replaces what the companion says without emptying it in between.
func (p *Part) describe() error {
	p.info.Size, p.info.Again = p.size, p.size
	text, _ := json.Marshal(p.info) // texts and numbers: never fails
	if _, err := p.companion.WriteAt(text, 0); err != nil {
		return err
	}
	return p.companion.Truncate(int64(len(text)))
}

// Leave keeps the part for the next call, or nothing if it cannot be gone on with. Failures of that cost only time. After
// Finish it does nothing.
func (p *Part) Leave() {
	if p.finished {
		return
	}
	kept := p.size > 0 && p.info.ETag != "" && p.checkpoint() == nil
	_ = p.file.Close()
	if kept {
		_ = p.companion.Close()
		return
	}
	_ = p.fs.Remove(p.partPath())
	_ = p.companion.Remove()
}

// Finish gives the complete recording its name.
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
	_ = p.fs.SyncDir(filepath.Dir(p.path)) // where that cannot be done, the name is as durable as it gets
	_ = p.companion.Remove()               // one that stays names no part: the next download begins anew
	return nil
}
