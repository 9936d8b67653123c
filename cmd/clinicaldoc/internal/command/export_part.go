package command

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/account"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/fileheader"
)

// exportPart is what an export has read so far: a file for this user alone, which the next run goes on with.
type exportPart struct {
	target string // "-": standard output
	file   *os.File

	mu   sync.Mutex
	size int64
	held map[int64]heldNote
}

// heldNote is where a note stands in the part.
type heldNote struct {
	at, length int64
	updatedAt  time.Time
	readAt     time.Time
}

// partKind begins a part, with the service and the user: what one user may read is not for another.
const partKind = "clinicaldoc-export"

// partLine is a line of the part after its header.
type partLine struct {
	ReadAt    time.Time       `json:"read_at,omitzero"`
	UpdatedAt time.Time       `json:"updated_at,omitzero"`
	ID        int64           `json:"id,omitempty"`
	Note      json.RawMessage `json:"note,omitempty"`
}

// settled is the least time between the last change of a note and its reading after which an equal updated_at means
// an equal note. The time of the change may be a date alone, of any place, which is up to 36 hours before the change.
// It may also be in whole seconds, or by another clock.
const settled = 48 * time.Hour

// checkTarget refuses to put a file in the place of something else.
func (e *Env) checkTarget(target string) error {
	if target == "-" {
		return nil
	}
	if e.isAuditFile(target) {
		return refusedf("this is the audit file of --audit: name another one")
	}
	info, err := os.Lstat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("the file cannot be written: %w", err)
	case info.Mode()&fs.ModeSymlink != 0:
		return refusedf("this is a link: name its target")
	case !info.Mode().IsRegular():
		return refusedf("this is not a regular file: name one, or - for standard output")
	}
	return nil
}

// openPart opens the part that belongs to a target, or begins one.
func openPart(target string, own fileheader.Header) (*exportPart, error) {
	p := &exportPart{target: target, held: map[int64]heldNote{}}
	var err error
	if target == "-" {
		p.file, err = temporaryPart()
	} else {
		path := partPath(target)
		if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
			return nil, partRefused(disk.ErrNotPrivate)
		}
		p.file, err = disk.Take(path)
	}
	switch {
	case errors.Is(err, disk.ErrHeld):
		return nil, refusedf("another export to this file is in progress")
	case err != nil:
		return nil, fmt.Errorf("the export cannot be written: %w", err)
	}
	if err := p.begin(own); err != nil {
		p.close()
		return nil, partRefused(err)
	}
	return p, nil
}

// begin checks that the part is for this user alone, and loads what it holds. That of standard output is always new.
func (p *exportPart) begin(own fileheader.Header) error {
	if err := disk.CheckPrivate(p.file); err != nil {
		return err
	}
	if p.target != "-" {
		return p.load(own)
	}
	if runtime.GOOS == "windows" {
		return nil // an open file cannot be removed there; close removes it
	}
	return os.Remove(p.file.Name()) // nothing stays behind, however this ends
}

// temporaryPart makes the part of an export to standard output: in the state folder, or with other temporary files
// where there is none. Only this user can read it.
func temporaryPart() (*os.File, error) {
	folder, err := account.StateFolder("exports")
	if err == nil {
		file, err := os.CreateTemp(folder, "export-*")
		if err == nil {
			return file, nil
		}
	}
	return os.CreateTemp("", "clinicaldoc-export-*")
}

// maxPartName is how long a target's name may be so that its part, and what is made of the part, can have a longer
// one.
const maxPartName = 200

// partPath is the part's path beside the target, hidden.
func partPath(target string) string {
	folder, name := filepath.Split(target)
	if len(name) > maxPartName {
		sum := sha256.Sum256([]byte(name))
		name = hex.EncodeToString(sum[:16])
	}
	return filepath.Join(folder, "."+name+".clinicaldoc-part")
}

// partRefused says what is wrong with a part that is there, and what to do about it.
func partRefused(err error) error {
	const remove = "; remove it, or name another file"
	switch {
	case errors.Is(err, disk.ErrNotPrivate):
		return refusedf(
			"the hidden file of an earlier, incomplete export in the same folder can be read or written by others%s",
			remove,
		)
	case errors.Is(err, fileheader.ErrOtherUser):
		return refusedf("another user began this export; export as that user, or name another file")
	case errors.Is(err, fileheader.ErrOtherService), errors.Is(err, fileheader.ErrNoHeader),
		errors.Is(err, fileheader.ErrLaterVersion):
		return refusedf(
			"the hidden file of an earlier, incomplete export in the same folder belongs to another account or "+
				"version%s", remove,
		)
	}
	return err
}

// load takes in whole lines; what a crash cut off is dropped.
func (p *exportPart) load(own fileheader.Header) error {
	lines := bufio.NewReader(p.file)
	first, err := lines.ReadString('\n')
	if errors.Is(err, io.EOF) { // new, or cut within the header
		if err := p.file.Truncate(0); err != nil {
			return err
		}
		return p.append([]byte(own.String() + "\n"))
	}
	if err != nil {
		return err
	}
	found, err := fileheader.Parse(partKind, strings.TrimSuffix(first, "\n"))
	if err == nil {
		err = found.Check(own)
	}
	if err != nil {
		return err
	}
	p.size = int64(len(first))
	for {
		text, err := lines.ReadBytes('\n')
		var line partLine
		if err != nil || json.Unmarshal(text, &line) != nil || line.ID < 1 {
			break
		}
		p.held[line.ID] = heldNote{p.size, int64(len(text)), line.UpdatedAt, line.ReadAt}
		p.size += int64(len(text))
	}
	return p.file.Truncate(p.size)
}

// write appends a line; the caller is alone.
func (p *exportPart) write(line partLine) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(line); err != nil {
		return err
	}
	at := p.size
	if err := p.append(text.Bytes()); err != nil {
		return err
	}
	p.held[line.ID] = heldNote{at, int64(text.Len()), line.UpdatedAt, line.ReadAt}
	return nil
}

func (p *exportPart) append(text []byte) error {
	if _, err := p.file.WriteAt(text, p.size); err != nil {
		return fmt.Errorf("the export cannot be written: %w", err)
	}
	p.size += int64(len(text))
	return nil
}

// has reports whether the part surely holds the note as it is.
func (p *exportPart) has(row exportRow) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, ok := p.held[row.id]
	if ok && !row.updatedAt.IsZero() && h.updatedAt.Equal(row.updatedAt) && h.readAt.Sub(h.updatedAt) > settled {
		return true
	}
	delete(p.held, row.id)
	return false
}

// behind returns the rows whose notes the part does not hold, or holds in an older version than the row's.
func (p *exportPart) behind(rows []exportRow) (behind []exportRow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, row := range rows {
		h, ok := p.held[row.id]
		listed := row.updatedAt.Truncate(time.Second) // that of the note may be in whole seconds
		if !ok || h.updatedAt.Before(listed) {
			behind = append(behind, row)
		}
	}
	return behind
}

func (p *exportPart) add(note *clinicaldoc.ProgressNote, readAt time.Time) error {
	value, err := wholeNote(note)
	if err != nil {
		return err
	}
	text, err := output.HarmlessJSON(value)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.write(partLine{ReadAt: readAt.UTC(), UpdatedAt: note.UpdatedAt, ID: note.ID, Note: text})
}

// finish writes the notes in the list's order, whole or not at all, and removes the part.
func (p *exportPart) finish(rows []exportRow, stdout io.Writer) (written int, err error) {
	if p.target == "-" {
		return p.copyTo(rows, stdout)
	}
	// Always of the same name, which is ours while the part is: what a killed export was writing does not stay.
	path := p.file.Name() + "-new"
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("the export cannot be written: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, fmt.Errorf("the export cannot be written: %w", err)
	}
	written, err = p.copyTo(rows, file)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), p.target)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return written, fmt.Errorf("the export cannot be written: %w", err)
	}
	return written, disk.Remove(p.file)
}

func (p *exportPart) copyTo(rows []exportRow, to io.Writer) (written int, err error) {
	out := bufio.NewWriter(to)
	for _, row := range rows {
		h, ok := p.held[row.id]
		if !ok {
			continue
		}
		text := make([]byte, h.length)
		if _, err := p.file.ReadAt(text, h.at); err != nil {
			return written, err
		}
		var line partLine
		if err := json.Unmarshal(text, &line); err != nil {
			return written, err
		}
		if _, err := out.Write(append(line.Note, '\n')); err != nil {
			return written, fmt.Errorf("only a part was written: %w", err)
		}
		written++
	}
	if err := out.Flush(); err != nil {
		return written, fmt.Errorf("only a part was written: %w", err)
	}
	return written, nil
}

// close lets go of the part; that of standard output is of no use to anybody.
func (p *exportPart) close() {
	_ = disk.Close(p.file)
	if p.target == "-" && runtime.GOOS == "windows" {
		_ = os.Remove(p.file.Name())
	}
}

func exportText(done, all int) string { return fmt.Sprintf("%d/%d notes", done, all) }
