package ingest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/fileheader"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// SalvageJournal makes a damaged journal usable again. It keeps every complete line, and the journal remembers that it
// has gaps. [Uploader] then searches the patient's notes for recordings that the journal does not know, even if
// Uploader.AllNew is set. The damaged file is kept next to the journal; its name ends with .damaged and the time.
// SalvageJournal returns the number of lost lines. It does not change a journal without damage.
//
// A journal of another owner is rejected. If the first line is lost, the journal becomes the owner's.
func SalvageJournal(ctx context.Context, path string, owner Owner, opts ...JournalOption) (lost int, err error) {
	if owner.Service == "" {
		return 0, errNoService
	}
	j := newJournal(ctx, opts)
	if j.path, err = j.fs.Resolve(path); err == nil {
		j.file, err = j.fs.Open(j.path, j.withoutLock)
	}
	if err != nil {
		return 0, cannotOpen(err)
	}
	defer func() { err = errors.Join(err, j.closeFiles()) }()
	if _, err := j.readAll(ctx, j.file); !errors.Is(err, ErrJournalDamaged) {
		return 0, err // nil: there is nothing to salvage
	}
	texts, lost, err := wholeLines(j.file, owner)
	if err != nil {
		return 0, err
	}
	if err := j.keepCopy(); err != nil {
		return 0, cannot("salvaged", err)
	}
	if err := j.rewrite(append(texts, appendNotice(nil, notice{at: time.Now(), isGap: true}))); err != nil {
		return 0, cannot("salvaged", err)
	}
	return lost, nil
}

// wholeLines returns the texts of all lines that are as they were written, and the number of the other lines. It
// returns an error if the journal has another owner.
func wholeLines(file io.ReaderAt, owner Owner) (texts [][]byte, lost int, err error) {
	const toTheEnd = 1 << 62
	lines := bufio.NewReader(io.NewSectionReader(file, 0, toTheEnd))
	s := salvage{header: headerOf(owner), isSumKnown: true} // until the file's own header is read
	s.texts = [][]byte{[]byte(s.header.String())}
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, 0, cannot("read", err)
		}
		if len(line) == 0 {
			break
		}
		s.takeLine(bytes.TrimSuffix(line, []byte{'\n'}))
	}
	if err := s.header.Check(headerOf(owner)); err != nil {
		return nil, 0, fail("the journal: "+redact.Opaque(err).Error(), err)
	}
	return s.texts, s.lost, nil
}

// salvage collects the lines of a damaged journal. Each line continues the checksum that stands in the line before it,
// so damage costs only the damaged line and the one after it.
type salvage struct {
	header     fileheader.Header // whose journal it is, as far as is known
	texts      [][]byte          // of complete lines; the first one is a header
	lines      int
	lost       int
	sum        uint32 // in the line before
	isSumKnown bool
}

// takeLine keeps the text of a line, or counts the line as lost.
func (s *salvage) takeLine(line []byte) {
	s.lines++
	text, _, isRight := readLine(line, s.sum)
	isWhole := isRight && s.isSumKnown
	s.sum, s.isSumKnown = parseHex32(line[:min(len(line), sumDigits)]) // which the next line continues
	isKept := false
	if isWhole {
		isKept = s.keep(text)
	}
	if !isKept {
		s.lost++
	}
}

// keep keeps a text, and reports whether it is that of a journal's line. Only the first line may be a header; if that
// is lost, it is an ordinary line.
func (s *salvage) keep(text []byte) bool {
	if s.lines == 1 {
		return s.keepHeader(text) || s.keepText(text)
	}
	return s.keepText(text)
}

// keepHeader replaces the header and reports whether the text is one. A header without a service does not show whose
// journal it is.
func (s *salvage) keepHeader(text []byte) bool {
	h, err := fileheader.Parse(journalKind, string(text))
	if err != nil || h.Service == "" {
		return false
	}
	h.Version = fileVersion
	s.header = h
	s.texts[0] = []byte(h.String())
	return true
}

// keepText keeps the text of a notice or an entry, and reports whether it is one.
func (s *salvage) keepText(text []byte) bool {
	n, isNotice := parseNotice(text)
	_, isEntry := parseEntry(text)
	if !isNotice && !isEntry {
		return false
	}
	if n.owner.Service != "" { // the journal was renamed, or its user became known
		s.header = headerOf(n.owner)
	}
	s.texts = append(s.texts, text)
	return true
}

// keepCopy copies the damaged file to one beside it.
func (j *FileJournal) keepCopy() error {
	const withoutLock = true // nobody else knows the copy
	now := time.Now().UTC().Format("20060102T150405Z-")
	to, err := j.fs.Create(j.path+".damaged-"+now+rand.Text()[:8], withoutLock)
	if err != nil {
		return err
	}
	const toTheEnd = 1 << 62
	_, err = io.Copy(to, io.NewSectionReader(j.file, 0, toTheEnd))
	return errors.Join(err, to.Sync(), to.Close())
}

// rewrite replaces the journal by a file with these texts as its lines. The name of the new file may not survive a
// crash on file systems that cannot sync a folder.
func (j *FileJournal) rewrite(texts [][]byte) error {
	_ = j.fs.Remove(j.compactedPath())
	to, err := j.fs.Create(j.compactedPath(), j.withoutLock)
	if err != nil {
		return err
	}
	c := compaction{journal: j, to: bufio.NewWriterSize(to, 64<<10)}
	for _, text := range texts {
		err = errors.Join(err, c.writeLine(text))
	}
	if err := errors.Join(err, c.to.Flush(), to.Sync()); err != nil {
		return errors.Join(err, to.Close(), j.fs.Remove(j.compactedPath()))
	}
	if j.file, err = j.fs.Replace(to, j.compactedPath(), j.file, j.path); err != nil {
		_ = j.fs.Remove(j.compactedPath())
		return err
	}
	_ = j.fs.SyncDir(filepath.Dir(j.path))
	return nil
}

const renameChecks = 20

// Rename moves the journal to another address of its service, or to other headers of the client. It reads up to twenty
// of the newest notes that the journal knows. If it knows any, at least one of them must exist, and those that exist
// must belong to the patients that the journal has. Otherwise Rename changes nothing and returns an error matching
// [ErrOtherService]. For another user than the journal's the error matches [ErrOtherUser].
func (j *FileJournal) Rename(ctx context.Context, client *clinicaldoc.Client) error {
	owner, err := OwnerOf(ctx, client)
	if err != nil {
		return err
	}
	if err := j.checkNotesAt(ctx, client); err != nil {
		return err
	}
	return j.exclusive(func() error {
		if err := j.checkOwner(Owner{Service: j.owner.Service, UserID: owner.UserID}); err != nil {
			return err
		}
		owner.UserID = cmp.Or(owner.UserID, j.owner.UserID)
		return j.putNotice(notice{at: time.Now(), owner: owner})
	})
}

// checkNotesAt compares the journal's newest notes with those of the client's service. It returns an error if none of
// them exists there, if one belongs to another patient, or if one cannot be read. A journal without notes is accepted.
func (j *FileJournal) checkNotesAt(ctx context.Context, client *clinicaldoc.Client) error {
	newest, origin := j.newestNotes()
	existingCount := 0
	for _, r := range newest {
		note, err := client.Notes.Get(ctx, r.noteID)
		switch {
		case errors.Is(err, clinicaldoc.ErrNotFound):
			continue
		case err != nil:
			return fail("the journal's notes cannot be read there: "+redact.Opaque(err).Error(), err)
		}
		if patient, _ := note.PatientID(); patientHash(origin, patient) != r.patient {
			return fail("a note of the journal belongs to another patient there", ErrOtherService)
		}
		existingCount++
	}
	if len(newest) > 0 && existingCount == 0 {
		return fail("none of the journal's notes exists there", ErrOtherService)
	}
	return nil
}

// newestNotes returns up to renameChecks records that have notes, the newest first, and the service that patients are
// hashed with.
func (j *FileJournal) newestNotes() (newest []record, origin string) {
	j.mu.Lock()
	origin = j.origin
	for _, r := range j.index.records {
		if r.state == StateCreated {
			newest = append(newest, r)
		}
	}
	j.mu.Unlock()
	slices.SortFunc(newest, func(a, b record) int { return cmp.Compare(b.lineStart, a.lineStart) })
	return newest[:min(len(newest), renameChecks)], origin
}

// Forget drops the entries of notes that were created before that time, and returns their number. Use it only for
// recordings that cannot come back: call it after a Run over everything that still exists, in the same process. Entries
// that this run saw stay. If a forgotten recording comes back anyway, Uploader searches the patient's notes for it,
// even if Uploader.AllNew is set.
func (j *FileJournal) Forget(_ context.Context, before time.Time) (count int, err error) {
	forgotten := map[uint32]bool{}
	isKept := false                  // the file could not be shortened, so the journal keeps the entries
	err = j.exclusive(func() error { //nolint:contextcheck // a file is written whole or not at all
		j.mu.Lock()
		for n := range j.index.records {
			r := &j.index.records[n]
			isOld := r.latestUpToHere < before.UnixNano() // it and all earlier records of the patient
			if r.state == StateCreated && isOld && !r.usedSinceOpen {
				forgotten[uint32(n)] = true
			}
		}
		j.mu.Unlock()
		if len(forgotten) == 0 {
			return nil
		}
		// The notice comes first: a crash after the compaction must not hide that entries are gone.
		if !j.gaps {
			if err := j.putNotice(notice{at: time.Now(), isGap: true}); err != nil {
				return err
			}
		}
		err := j.compact(forgotten)
		if err != nil && j.file != nil {
			isKept = true
			j.mu.Lock()
			j.warning = cannot("shortened", err)
			j.mu.Unlock()
			return nil
		}
		return err
	})
	if isKept {
		return 0, j.Warning()
	}
	return len(forgotten), err
}
