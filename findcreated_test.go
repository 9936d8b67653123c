package clinicaldoc_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

const newestNotes = notesPath + "?patient_id=4711&per_page=100&sort=latest"

// lostCreate returns the error of a Create whose answer was lost. It wants a bubble, so that no time passes meanwhile.
func lostCreate(t *testing.T) *clinicaldoc.OutcomeUnknownError {
	t.Helper()
	client := serve(t, call{method: "POST", url: notesPath, checkBody: func(*testing.T, string, []byte) {}, fail: errors.New("reset")})
	_, err := client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: "Visit", PatientID: 4711, Audio: clinicaldoc.AudioBytes("a.wav", []byte("sound"))})
	var lost *clinicaldoc.OutcomeUnknownError
	require.ErrorAs(t, err, &lost)
	return lost
}

// madeAt is a note of the patient as the list shows it.
func madeAt(id int, name string, size int, at time.Time) string {
	return fmt.Sprintf(`{"id":%d,"name":%q,"patient":{"id":4711},"audio":{"size":%d},"created_at":%q}`, id, name, size, at.UTC().Format(time.RFC3339Nano))
}

func listed(notes ...string) string {
	return `{"data":[` + strings.Join(notes, ",") + `],"meta":{"current_page":1,"last_page":1}}`
}

func TestFindCreatedFindsTheNote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost := lostCreate(t)
		now := time.Now()
		client := serve(t, call{url: newestNotes, answer: listed(
			madeAt(9, "Visit", 6, now),                     // another recording
			madeAt(8, "Other", 5, now),                     // another name
			madeAt(7, " Visit ", 5, now.Add(-time.Second)), // the service may trim, and clocks differ a little
			madeAt(6, "Visit", 5, now.Add(-time.Hour)),     // an older one of the same name
		)})
		note, err := client.Notes.FindCreated(t.Context(), lost)
		require.NoError(t, err)
		assert.EqualValues(t, 7, note.ID)
	})
}

func TestFindCreatedWaitsForANoteInTheMaking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost := lostCreate(t)
		begin := time.Now()
		client := serve(t,
			call{url: newestNotes, answer: listed()},
			call{url: newestNotes, answer: listed()},
			call{url: newestNotes, answer: listed(madeAt(7, "Visit", 5, begin))},
		)
		note, err := client.Notes.FindCreated(t.Context(), lost)
		require.NoError(t, err)
		assert.EqualValues(t, 7, note.ID)
		assert.Less(t, time.Since(begin), 30*time.Second)
	})
}

func TestFindCreatedSaysNotCreatedOnlyAfterAWhile(t *testing.T) {
	t.Parallel()
	// Both the error as it came and one that was stored and put together again.
	for _, restored := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			lost := lostCreate(t)
			if restored {
				// Its upload may have taken these minutes and be at its end only now.
				lost = &clinicaldoc.OutcomeUnknownError{Params: lost.Params, SentAt: lost.SentAt.Add(-10 * time.Minute)}
			}
			begin := time.Now()
			client, requests := endless(t, func(int, *http.Request) string { return listed(madeAt(6, "Visit", 5, begin.Add(-time.Hour))) })
			note, err := client.Notes.FindCreated(t.Context(), lost)
			require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
			require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
			assert.Nil(t, note)
			assert.Equal(t, 30*time.Second, time.Since(begin))
			assert.Greater(t, requests(), 2)
		})
	}
}

func TestFindCreatedUsesTheServicesClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost := lostCreate(t)
		behind := time.Now().Add(-time.Hour)
		client := serve(t, call{
			url: newestNotes, answer: listed(madeAt(7, "Visit", 5, behind)),
			answerHeader: map[string]string{"Date": behind.UTC().Format(http.TimeFormat)},
		})
		note, err := client.Notes.FindCreated(t.Context(), lost)
		require.NoError(t, err)
		assert.EqualValues(t, 7, note.ID)
	})
}

func TestFindCreatedCannotTell(t *testing.T) {
	t.Parallel()
	now := func(id int) string { return madeAt(id, "Visit", 5, time.Now()) }
	tests := map[string]struct {
		answer func() call
		also   error
	}{
		"several fit":     {func() call { return call{answer: listed(now(8), now(7))} }, nil},
		"no times":        {func() call { return call{answer: listed(`{"id":7,"name":"Visit","patient":{"id":4711}}`)} }, nil},
		"another patient": {func() call { return call{answer: listed(`{"id":7,"patient":{"id":5}}`)} }, clinicaldoc.ErrPatientMismatch},
		"no list":         {func() call { return call{status: http.StatusForbidden} }, clinicaldoc.ErrForbidden},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				lost := lostCreate(t)
				answer := tt.answer()
				answer.url = newestNotes
				note, err := serve(t, answer).Notes.FindCreated(t.Context(), lost)
				require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
				require.NotErrorIs(t, err, clinicaldoc.ErrNotCreated)
				if tt.also != nil {
					require.ErrorIs(t, err, tt.also)
				}
				require.ErrorContains(t, err, "Notes.FindCreated")
				assert.Nil(t, note)
			})
		})
	}
}

func TestFindCreatedGivesUpOnALongListInNoOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost := lostCreate(t)
		old := time.Now().Add(-time.Hour)
		// Oldest first, so that no page shows that the rest is older.
		client := clientOn(t, endlessPages(t, 60, func(id int) string { return madeAt(id, "Other", 1, old.Add(time.Duration(id)*time.Millisecond)) }))
		_, err := client.Notes.FindCreated(t.Context(), lost)
		require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		require.ErrorContains(t, err, "too many")
	})
}

func TestFindCreatedStopsWhereTheRestIsOlder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost := lostCreate(t)
		now := time.Now()
		page := []string{madeAt(5000, "Visit", 5, now)}
		for id := 4999; len(page) < 100; id-- {
			page = append(page, madeAt(id, "Other", 1, now.Add(-time.Duration(5000-id)*time.Hour)))
		}
		client := serve(t, call{url: newestNotes, answer: `{"data":[` + strings.Join(page, ",") + `],"meta":{"current_page":1,"last_page":50}}`})
		note, err := client.Notes.FindCreated(t.Context(), lost)
		require.NoError(t, err)
		assert.EqualValues(t, 5000, note.ID)
	})
}

func TestFindCreatedReadsOnWhereTheOrderIsNotKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost := lostCreate(t)
		now := time.Now()
		var page []string
		for id := range 150 {
			page = append(page, madeAt(id+1, "Other", 1, now.Add(-time.Duration(id+1)*time.Hour)))
		}
		page[50] = madeAt(51, "Other", 1, now.Add(-time.Minute*90)) // out of order
		page = append(page, madeAt(200, "Visit", 5, now))
		client := serve(t, call{url: newestNotes, answer: listed(page...)})
		note, err := client.Notes.FindCreated(t.Context(), lost)
		require.NoError(t, err)
		assert.EqualValues(t, 200, note.ID)
	})
}

func TestFindCreatedEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost := lostCreate(t)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		client, _ := endless(t, func(int, *http.Request) string { return listed() })
		_, err := client.Notes.FindCreated(ctx, lost)
		require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestFindCreatedRefusesWhatItCannotUse(t *testing.T) {
	t.Parallel()
	client := serve(t)
	for _, lost := range []*clinicaldoc.OutcomeUnknownError{nil, {}, {Params: clinicaldoc.CreateNoteParams{Name: "Visit"}}} {
		_, err := client.Notes.FindCreated(t.Context(), lost)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	}
	_, err := client.Notes.FindCreated(t.Context(), &clinicaldoc.OutcomeUnknownError{SentAt: time.Now()})
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
}
