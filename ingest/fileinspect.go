package ingest

import (
	"context"
	"os"
)

// ReadJournal reads what a [FileJournal]'s file knows, without opening it for use: also while another process has it open.
// It returns the service that the journal is bound to and an entry for each key, in no certain order. A file that is not
// there matches [os.ErrNotExist]; the other errors are those of [OpenJournal].
func ReadJournal(ctx context.Context, path string) (service string, entries []Entry, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", nil, cannot("opened", err)
	}
	defer func() { _ = file.Close() }()
	j := &FileJournal{entries: map[Key]record{}, file: file}
	if _, err := j.read(ctx); err != nil {
		return "", nil, err
	}
	for key, r := range j.entries {
		entries = append(entries, r.entry(key))
	}
	return j.service, entries, nil
}
