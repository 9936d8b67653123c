package recipes

import (
	"context"
	"iter"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// lister is what overdue needs. *clinicaldoc.NotesService implements it.
type lister interface {
	All(context.Context, clinicaldoc.ListNotesParams, ...clinicaldoc.CallOption) notes
}

type notes = iter.Seq2[*clinicaldoc.ProgressNote, error]

// overdue returns the notes that were completed before a time and are not signed.
func overdue(ctx context.Context, service lister, before time.Time) (ids []int64, err error) {
	for note, err := range service.All(ctx, clinicaldoc.ListNotesParams{}) {
		if err != nil {
			return nil, err // a partial list would look complete
		}
		waits := note.Stage() == clinicaldoc.StageComplete
		if waits && note.AnalysisCompletedAt.Before(before) {
			ids = append(ids, note.ID)
		}
	}
	return ids, nil
}

// listed implements lister for tests. It yields its notes.
type listed []*clinicaldoc.ProgressNote

func (l listed) All(
	context.Context, clinicaldoc.ListNotesParams, ...clinicaldoc.CallOption,
) notes {
	return func(yield func(*clinicaldoc.ProgressNote, error) bool) {
		for _, note := range l {
			if !yield(note, nil) {
				return
			}
		}
	}
}
