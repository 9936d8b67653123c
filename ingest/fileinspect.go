package ingest

import (
	"context"
	"maps"
	"os"
	"slices"
	"time"
)

// ReadJournal reads what a [FileJournal]'s file knows, without opening it for use. Another process may have it open. It
// returns the owner of the journal, and an entry for each key in any order. If the file does not exist, the error
// matches [os.ErrNotExist]. The other errors are those of [OpenJournal].
func ReadJournal(ctx context.Context, path string) (Owner, []Entry, error) {
	j, err := inspect(ctx, path)
	if err != nil {
		return Owner{}, nil, err
	}
	return j.owner, slices.Collect(maps.Values(j.allEntries)), nil
}

// inspect reads a journal's file, without locking it, into a FileJournal that holds only what was read. It has no open
// file, so nothing can be saved to it.
func inspect(ctx context.Context, path string) (*FileJournal, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, cannot("opened", err)
	}
	defer func() { _ = file.Close() }()
	j := &FileJournal{index: newFileIndex(), allEntries: map[Key]Entry{}}
	if _, err := j.readAll(ctx, file); err != nil {
		return nil, err
	}
	return j, nil
}

// ReadOnlyJournal is what the file of a [FileJournal] knew when it was read, for [Retention]. It is safe for
// concurrent use.
type ReadOnlyJournal struct {
	journal *FileJournal
}

// OpenReadOnlyJournal reads the journal in a file, also while another process has it open. It locks and changes
// nothing, and does not need to be closed. The errors are those of [ReadJournal].
func OpenReadOnlyJournal(ctx context.Context, path string) (*ReadOnlyJournal, error) {
	j, err := inspect(ctx, path)
	if err != nil {
		return nil, err
	}
	return &ReadOnlyJournal{j}, nil
}

// Bind implements [JournalReader]. It rejects an owner as [FileJournal.Bind] does, and saves nothing.
func (r *ReadOnlyJournal) Bind(_ context.Context, owner Owner) (Binding, error) {
	if err := r.journal.checkOwner(owner); err != nil {
		return Binding{}, err
	}
	return Binding{Origin: r.journal.origin, Gaps: r.journal.gaps}, nil
}

// EntriesForPatient implements [JournalReader].
func (r *ReadOnlyJournal) EntriesForPatient(_ context.Context, patient uint32, since time.Time) ([]Entry, error) {
	return r.journal.index.ofPatient(patient, since), nil
}

// entries implements entryLister.
func (r *ReadOnlyJournal) entries(context.Context) ([]Entry, error) { //nolint:unparam // entryLister returns one
	return slices.Collect(maps.Values(r.journal.allEntries)), nil
}

// entries implements entryLister. Details that the index does not keep are in the file.
func (j *FileJournal) entries(ctx context.Context) ([]Entry, error) {
	if err := j.makeBusy(); err != nil {
		return nil, err
	}
	defer func() { go j.flush() }()
	read := &FileJournal{index: newFileIndex(), allEntries: map[Key]Entry{}}
	if _, err := read.readAll(ctx, j.file); err != nil {
		return nil, err
	}
	return slices.Collect(maps.Values(read.allEntries)), nil
}
