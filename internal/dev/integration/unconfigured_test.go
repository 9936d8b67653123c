package integration

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// The tests of this file use a client without WithQueryNames on services that name their parameters otherwise. It may
// fail and it may say that something was ignored, but it must never pass off wrong rows for right ones.

// unconfigured starts a box with more than two default pages of notes, half of them another patient's.
func unconfigured(t *testing.T, variant clinicaldoctest.Variant) (client *clinicaldoc.Client, patientID int64, notes int) {
	t.Helper()
	tg := newBox(t, variant)
	other := tg.box.AddPatient(clinicaldoctest.Patient{})
	for i := range 40 {
		patient := []int64{tg.patientID, other.ID}[i%2]
		tg.box.AddNote(clinicaldoctest.Note{PatientID: patient, CreatedAt: tg.box.Now().Add(time.Duration(i-60) * time.Minute)})
	}
	return tg.newClient(t, tg.box.Token), tg.patientID, 40
}

// renamed are the variants in which one parameter has another name, on each form of pages that uses it.
func renamed(names clinicaldoctest.QueryNames, forms ...clinicaldoctest.Pagination) []clinicaldoctest.Variant {
	var variants []clinicaldoctest.Variant
	for _, form := range forms {
		variants = append(variants, clinicaldoctest.Variant{Name: formNames[form], Pagination: form, Query: names})
	}
	for _, variant := range clinicaldoctest.Variants() {
		differs := names.PatientID != "" && variant.Query.PatientID != "patient_id" ||
			names.PerPage != "" && variant.Query.PerPage != "per_page" ||
			names.Page != "" && variant.Query.Page != "page" ||
			names.Cursor != "" && variant.Query.Cursor != "cursor"
		if differs {
			variants = append(variants, variant)
		}
	}
	return variants
}

var formNames = map[clinicaldoctest.Pagination]string{
	clinicaldoctest.PaginationLengthAware: "length-aware", clinicaldoctest.PaginationSimple: "only-simple",
	clinicaldoctest.PaginationCursor: "only-cursor", clinicaldoctest.PaginationCursorInLinks: "only-cursor-in-links",
	clinicaldoctest.PaginationFlat: "only-flat", clinicaldoctest.PaginationBare: "only-bare", clinicaldoctest.PaginationNone: "all-at-once",
}

var everyForm = []clinicaldoctest.Pagination{
	clinicaldoctest.PaginationLengthAware, clinicaldoctest.PaginationSimple, clinicaldoctest.PaginationCursor,
	clinicaldoctest.PaginationCursorInLinks, clinicaldoctest.PaginationFlat, clinicaldoctest.PaginationBare, clinicaldoctest.PaginationNone,
}

var numberedForms = []clinicaldoctest.Pagination{
	clinicaldoctest.PaginationLengthAware, clinicaldoctest.PaginationSimple, clinicaldoctest.PaginationFlat,
}

func TestUnknownPatientParameterFailsClosed(t *testing.T) {
	t.Parallel()
	for _, variant := range renamed(clinicaldoctest.QueryNames{PatientID: "filter[patient_id]"}, everyForm...) {
		t.Run(variant.Name, func(t *testing.T) {
			t.Parallel()
			client, patientID, _ := unconfigured(t, variant)
			for _, trust := range []bool{false, true} {
				params := clinicaldoc.ListNotesParams{PatientID: patientID, TrustPatientFilter: trust}
				_, err := client.Notes.List(t.Context(), params)
				assertFailsClosed(t, variant, err, clinicaldoc.ErrPatientMismatch)

				for note, err := range client.Notes.All(t.Context(), params) {
					if err != nil {
						assertFailsClosed(t, variant, err, clinicaldoc.ErrPatientMismatch)
						break
					}
					id, named := note.Patient.ID()
					require.True(t, named)
					require.Equal(t, patientID, id, "a row of another patient")
				}
			}
		})
	}
}

func TestUnknownPageSizeParameterIsTold(t *testing.T) {
	t.Parallel()
	for _, variant := range renamed(clinicaldoctest.QueryNames{PerPage: "limit"}, everyForm...) {
		t.Run(variant.Name, func(t *testing.T) {
			t.Parallel()
			client, _, notes := unconfigured(t, variant)
			page, err := client.Notes.List(t.Context(), clinicaldoc.ListNotesParams{PerPage: 7})
			if variant.RefuseUnknownQuery {
				assertRefused(t, err)
				return
			}
			require.NoError(t, err)
			assert.True(t, page.Meta.PerPageIgnored)

			if variant.Query.Cursor != "" && variant.Query.Cursor != "cursor" {
				return // the pages beyond the first are another test's
			}
			rows := 0
			for _, err := range client.Notes.All(t.Context(), clinicaldoc.ListNotesParams{PerPage: 7}) {
				require.NoError(t, err)
				rows++
			}
			assert.Equal(t, notes, rows, "pages of another size still add up")
		})
	}
}

func TestUnknownPageParameterFails(t *testing.T) {
	t.Parallel()
	for _, variant := range renamed(clinicaldoctest.QueryNames{Page: "page[number]"}, numberedForms...) {
		t.Run(variant.Name, func(t *testing.T) {
			t.Parallel()
			client, _, notes := unconfigured(t, variant)
			_, err := client.Notes.List(t.Context(), clinicaldoc.ListNotesParams{Page: 2})
			assertFailsClosed(t, variant, err, clinicaldoc.ErrUnexpectedResponse)
			assertNotCutShort(t, variant, client, notes)
		})
	}
}

// TestUnknownPageParameterWithoutMetadata: where a page tells nothing of itself, its size shows that it is not the last.
func TestUnknownPageParameterWithoutMetadata(t *testing.T) {
	t.Parallel()
	variant := clinicaldoctest.Variant{Pagination: clinicaldoctest.PaginationBare, Query: clinicaldoctest.QueryNames{Page: "page[number]"}}
	client, _, _ := unconfigured(t, variant)
	for _, prefetch := range []int{0, 2} {
		var failure error
		for _, err := range client.Notes.All(t.Context(), clinicaldoc.ListNotesParams{PerPage: 10, Prefetch: prefetch}) {
			failure = err
		}
		require.ErrorIs(t, failure, clinicaldoc.ErrUnexpectedResponse)
	}
}

func TestUnknownCursorParameterFails(t *testing.T) {
	t.Parallel()
	forms := []clinicaldoctest.Pagination{clinicaldoctest.PaginationCursor, clinicaldoctest.PaginationCursorInLinks}
	for _, variant := range renamed(clinicaldoctest.QueryNames{Cursor: "page[cursor]"}, forms...) {
		t.Run(variant.Name, func(t *testing.T) {
			t.Parallel()
			client, _, notes := unconfigured(t, variant)
			assertNotCutShort(t, variant, client, notes)
		})
	}
}

// assertNotCutShort ranges over all notes: either all come, or an error says that they do not.
func assertNotCutShort(t *testing.T, variant clinicaldoctest.Variant, client *clinicaldoc.Client, notes int) {
	t.Helper()
	for _, params := range []clinicaldoc.ListNotesParams{{}, {PerPage: 10}, {PerPage: 10, Prefetch: 2}} {
		if variant.Query.PerPage != "" && variant.Query.PerPage != "per_page" {
			params.PerPage = 0
		}
		rows := 0
		var failure error
		for _, err := range client.Notes.All(t.Context(), params) {
			if err != nil {
				failure = err
				break
			}
			rows++
		}
		if failure == nil {
			assert.Equal(t, notes, rows, "cut short without an error")
			continue
		}
		assertFailsClosed(t, variant, failure, clinicaldoc.ErrUnexpectedResponse)
	}
}

// assertFailsClosed accepts the SDK's own error, and the service's refusal where it refuses what it does not know.
func assertFailsClosed(t *testing.T, variant clinicaldoctest.Variant, err, want error) {
	t.Helper()
	if variant.RefuseUnknownQuery && !errors.Is(err, want) {
		assertRefused(t, err)
		return
	}
	require.ErrorIs(t, err, want)
}
