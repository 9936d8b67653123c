package clinicaldoctest

import (
	"fmt"
	"slices"
	"time"
)

// planting is many synthetic notes that were added at once. Each is computed from its number whenever it is read, until
// it has a second version.
type planting struct {
	before  int64 // the id before its first
	at      time.Time
	silence *audio
}

// synthetic is the note with a number, from 0 on: three to a patient, most of
// them complete; the others show what else can be.
func synthetic(i int64) Note {
	stage := StageComplete
	switch i % 10 {
	case 4:
		stage = StageFailed
	case 7:
		stage = StageSigned
	case 9:
		stage = StageTranscribing
	}
	patient := i/3 + 1
	return Note{PatientID: patient, Stage: stage, Name: fmt.Sprintf("Visit %d of patient %d", i%3+1, patient)}
}

// note returns the first version of a planted note.
func (p *planting) note(e *entry) *note {
	n, _ := synthetic(e.id-p.before-1).firstVersion(e, p.silence, p.at) // of a stage that there is
	return n
}

// plant adds synthetic notes, an hour apart, and their patients.
func (s *state) plant(count int) {
	now := s.now()
	silence, err := s.seededAudio(Note{}, now)
	if err != nil {
		panic("clinicaldoctest: " + err.Error()) // silence can always be
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &planting{before: s.notes.next() - 1, at: now, silence: silence}
	entries := make([]entry, count)
	key := listKey{defaultTeamID, 0}
	list := slices.Grow(s.notes.lists[key], count)
	s.notes.all = slices.Grow(s.notes.all, count)
	for i := range entries {
		e := &entries[i]
		*e = entry{
			id: p.before + int64(i) + 1, teamID: defaultTeamID, patientID: int64(i/3 + 1),
			createdAt: now.Add(-time.Duration(count-i) * time.Hour), planted: p,
		}
		s.notes.all = append(s.notes.all, e)
		list = append(list, e)
		s.notes.updatePatient(e)
	}
	slices.SortFunc(list, compareCreated)
	s.notes.lists[key] = list
	s.planted = max(s.planted, int64(count+2)/3)
	s.lastID.patient = max(s.lastID.patient, s.planted)
}
