package command

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/account"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// journalStatus is what a journal knows.
type journalStatus struct {
	Journal  string         `json:"journal"`
	Service  string         `json:"service"`
	Created  int            `json:"created"`
	Refused  int            `json:"refused"`
	InDoubt  int            `json:"in_doubt"`
	Underway int            `json:"under_way"` // or cut off
	Doubts   []journalDoubt `json:"doubts,omitempty"`
}

type journalDoubt struct {
	Key    string    `json:"key"`
	State  string    `json:"state"`
	SentAt time.Time `json:"sent_at,omitzero"`
	Until  time.Time `json:"until,omitzero"`
}

// runStatus tells what the journals know; they can be in use meanwhile.
func (o *uploadOptions) runStatus(ctx context.Context) error {
	if len(o.paths) > 0 {
		return usagef("--status takes no files: a journal holds no names")
	}
	paths := []string{o.journal}
	if o.journal == "" {
		folder, err := account.StateFolder("journals")
		if err != nil {
			return err
		}
		if paths, err = filepath.Glob(filepath.Join(folder, "*.journal")); err != nil {
			return err
		}
	}
	list := []journalStatus{}
	for _, path := range paths {
		s, err := readStatus(ctx, path)
		if errors.Is(err, fs.ErrNotExist) {
			return refusedf("there is no such journal")
		}
		if err != nil {
			return err
		}
		list = append(list, s)
	}
	return o.print(ctx, &o.format, list, func() error {
		var rows [][]string
		for _, s := range list {
			rows = append(rows, []string{s.Service, strconv.Itoa(s.Created), strconv.Itoa(s.Refused), strconv.Itoa(s.InDoubt), strconv.Itoa(s.Underway), s.Journal})
		}
		return o.IO.Table([]string{"SERVICE", "CREATED", "REFUSED", "IN DOUBT", "UNDER WAY", "JOURNAL"}, rows)
	})
}

func readStatus(ctx context.Context, path string) (journalStatus, error) {
	owner, entries, err := ingest.ReadJournal(ctx, path)
	s := journalStatus{Journal: path, Service: owner.Service}
	for _, e := range entries {
		switch e.State {
		case ingest.StateCreated:
			s.Created++
		case ingest.StateRefused:
			s.Refused++
		case ingest.StateClaimed:
			s.Underway++
		case ingest.StateCommitting, ingest.StateInDoubt:
			if e.State == ingest.StateInDoubt {
				s.InDoubt++
			} else {
				s.Underway++
			}
			s.Doubts = append(s.Doubts, journalDoubt{e.Key.String(), e.State.String(), e.SentAt.UTC(), e.Until})
		}
	}
	slices.SortFunc(s.Doubts, func(a, b journalDoubt) int { return cmp.Or(a.SentAt.Compare(b.SentAt), cmp.Compare(a.Key, b.Key)) })
	return s, err
}
