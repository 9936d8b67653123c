package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// honest is a ledger and a service that agree: a note with two updates, signed and downloaded, one that was deleted, one
// that was never sent, one that was found and one that was not.
func honest() ([]*record, []clinicaldoctest.Note, *history) {
	records := []*record{
		{
			name: "Synthetic 1-1", title: "Synthetic 1-1", patientID: 1, sum: "aa", size: 10, outcome: created, id: 1, signed: done, downloads: []string{"aa", "aa"},
			texts: []text{{value: updateText + "1", done: true, requestID: "req-1"}, {value: updateText + "2", done: true, requestID: "req-2"}},
		},
		{name: "Synthetic 1-2", title: "Synthetic 1-2", patientID: 1, sum: "bb", size: 20, outcome: created, id: 2, deleted: done},
		{name: "Synthetic 1-3", title: "Synthetic 1-3", patientID: 1, sum: "cc", size: 30, outcome: notSent},
		{name: "Synthetic 1-4", title: "Synthetic 1-4", patientID: 1, sum: "dd", size: 40, outcome: found, id: 4},
		{name: "Synthetic 1-5", title: "Synthetic 1-5", patientID: 1, sum: "ee", size: 50, outcome: notCreated},
	}
	notes := []clinicaldoctest.Note{
		{ID: 1, Name: "Synthetic 1-1", PatientID: 1, AudioSHA256: "aa", AudioSize: 10, Stage: clinicaldoctest.StageSigned, Analysis: updateText + "2"},
		{ID: 4, Name: "Synthetic 1-4", PatientID: 1, AudioSHA256: "dd", AudioSize: 40, Stage: clinicaldoctest.StageComplete, Analysis: "Synthetic analysis"},
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return records, notes, &history{created: 3, updates: map[int64][]served{1: {
		{requestID: "req-1", began: at, end: at.Add(time.Millisecond)}, {requestID: "req-2", began: at.Add(time.Second), end: at.Add(time.Second + time.Millisecond)},
	}}}
}

func TestVerifyAcceptsTheTruth(t *testing.T) {
	t.Parallel()
	records, notes, did := honest()
	f := verify(records, notes, did, nil)
	require.NoError(t, f.failure())
	assert.Zero(t, f.lateCopies)
}

// TestVerifyCatchesLies falsifies the ledger or the service in one place each: the comparison must see it.
func TestVerifyCatchesLies(t *testing.T) {
	t.Parallel()
	type world struct {
		records []*record
		notes   []clinicaldoctest.Note
		did     *history
	}
	copyOf := func(n clinicaldoctest.Note, id int64) clinicaldoctest.Note {
		n.ID = id
		return n
	}
	for name, tc := range map[string]struct {
		falsify                   func(*world)
		duplicates, losses, wrong int
	}{
		"a create carried out twice": {func(w *world) { w.notes = append(w.notes, copyOf(w.notes[0], 9)) }, 1, 0, 0},
		"a duplicate in place of a deletion": {func(w *world) {
			w.notes = append(w.notes, clinicaldoctest.Note{ID: 9, Name: "Synthetic 1-2", AudioSHA256: "bb"})
		}, 1, 0, 0},
		"a duplicate that was deleted since": {func(w *world) { w.did.created++ }, 1, 0, 0},
		"a create that vanished":             {func(w *world) { w.notes = w.notes[:1] }, 0, 1, 0},
		"a create that never happened":       {func(w *world) { w.did.created-- }, 0, 1, 0},
		"a lost update":                      {func(w *world) { w.notes[0].Analysis = updateText + "1" }, 0, 1, 0},
		"an update undone":                   {func(w *world) { w.notes[0].Analysis = "Synthetic analysis" }, 0, 1, 0},
		"a lost signature":                   {func(w *world) { w.notes[0].Stage = clinicaldoctest.StageComplete }, 0, 1, 0},
		"a lost deletion": {func(w *world) {
			w.notes = append(w.notes, clinicaldoctest.Note{ID: 2, Name: "Synthetic 1-2", PatientID: 1, AudioSHA256: "bb", AudioSize: 20})
		}, 0, 1, 0},
		"a wrong download":        {func(w *world) { w.records[0].downloads[1] = "ab" }, 0, 0, 1},
		"another recording":       {func(w *world) { w.notes[0].AudioSHA256 = "ab" }, 0, 1, 1},
		"another patient":         {func(w *world) { w.notes[1].PatientID = 2 }, 0, 0, 1},
		"a signature nobody gave": {func(w *world) { w.notes[1].Stage = clinicaldoctest.StageSigned }, 0, 0, 1},
		"a text nobody wrote":     {func(w *world) { w.notes[1].Analysis = updateText + "9" }, 0, 0, 1},
		"a note nobody created":   {func(w *world) { w.notes = append(w.notes, clinicaldoctest.Note{ID: 9, Name: "Synthetic 9-9"}) }, 0, 0, 1},
		"there although never sent": {func(w *world) {
			w.notes = append(w.notes, clinicaldoctest.Note{ID: 9, Name: "Synthetic 1-3", AudioSHA256: "cc"})
		}, 0, 0, 1},
		"there although looked up in vain": {func(w *world) {
			w.notes = append(w.notes, clinicaldoctest.Note{ID: 9, Name: "Synthetic 1-5", AudioSHA256: "ee"})
		}, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w world
			w.records, w.notes, w.did = honest()
			tc.falsify(&w)
			f := verify(w.records, w.notes, w.did, nil)
			require.Error(t, f.failure())
			assert.Len(t, f.duplicates, tc.duplicates)
			assert.Len(t, f.losses, tc.losses)
			assert.Len(t, f.wrong, tc.wrong)
		})
	}
}

// TestVerifyExcusesOnlyProvenLateCopies: an older text in place of the last is excused only if the service served an update
// whose answer reached nobody, at the time of the last one or after it.
func TestVerifyExcusesOnlyProvenLateCopies(t *testing.T) {
	t.Parallel()
	records, notes, did := honest()
	notes[0].Analysis = updateText + "1"
	records[0].texts[0].strayed = true
	f := verify(records, notes, did, nil)
	assert.Len(t, f.losses, 1, "the service served no such copy")

	last := did.updates[1][1]
	did.updates[1] = append(did.updates[1], served{requestID: "req-3", began: last.end.Add(time.Second), end: last.end.Add(2 * time.Second)})
	f = verify(records, notes, did, nil)
	require.NoError(t, f.failure())
	assert.Equal(t, 1, f.lateCopies)

	records[0].texts[0].strayed = false
	f = verify(records, notes, did, nil)
	assert.Len(t, f.losses, 1, "every attempt of the older update was answered")
}

// TestAnUnsureClaimMayGoEitherWay: what a caller was told nothing about is no finding.
func TestAnUnsureClaimMayGoEitherWay(t *testing.T) {
	t.Parallel()
	for _, there := range []bool{true, false} {
		records, notes, did := honest()
		records[0].deleted, records[0].signed = unsure, unsure
		records[0].texts = append(records[0].texts, text{value: updateText + "3", strayed: true})
		if there {
			notes[0].Analysis, notes[0].Stage = updateText+"3", clinicaldoctest.StageComplete
		} else {
			notes = notes[1:]
		}
		f := verify(records, notes, did, nil)
		require.NoError(t, f.failure())
	}
}
