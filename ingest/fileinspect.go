package ingest

import (
	"context"
	"os"
)

// ReadJournal reads what a [FileJournal]'s file knows, without opening it for use: also while another process has it open.
// It returns whose the journal is and an entry for each key, in no certain order. A file that is not there matches
// [os.ErrNotExist]; the other errors are those of [OpenJournal].
func ReadJournal(ctx context.Context, path string) (Owner, []Entry, error) {
	file, err := os.Open(path)
	if err != nil {
		return Owner{}, nil, cannot("opened", err)
	}
	defer func() { _ = file.Close() }()
	j := &FileJournal{index: newFileIndex(), all: map[Key]Entry{}}
	if _, err := j.readAll(ctx, file); err != nil {
		return Owner{}, nil, err
	}
	entries := make([]Entry, 0, len(j.all))
	for _, e := range j.all {
		entries = append(entries, e)
	}
	return j.owner, entries, nil
}
