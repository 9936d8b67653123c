package devproxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

// seed is what the stand-in starts with.
type seed struct {
	Users    []seedUser    `json:"users"`
	Patients []seedPatient `json:"patients"`
	Notes    []seedNote    `json:"notes"`

	made int // notes to make up
}

type seedUser struct {
	ID     int64  `json:"id"`
	Name   string `json:"name"`
	Email  string `json:"email"`
	TeamID int64  `json:"team_id"`
	Token  string `json:"token"`
}

type seedPatient struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
}

type seedNote struct {
	ID            int64                 `json:"id"`
	UserID        int64                 `json:"user_id"`
	PatientID     int64                 `json:"patient_id"`
	PromptID      int64                 `json:"prompt_id"`
	Name          string                `json:"name"`
	Stage         clinicaldoctest.Stage `json:"stage"`
	Stuck         bool                  `json:"stuck"`
	Transcription string                `json:"transcription"`
	Analysis      string                `json:"analysis"`
	ErrorState    string                `json:"error_state"`
	CreatedAt     time.Time             `json:"created_at"`
}

// maxSeed bounds the size of a seed's file.
const maxSeed = 64 << 20

// readSeed takes the number of notes to make up, or the name of a file.
func readSeed(text string) (seed, error) {
	if n, err := strconv.Atoi(text); err == nil {
		if n < 0 {
			return seed{}, fmt.Errorf("cannot make %d notes", n)
		}
		return seed{made: n}, nil
	}
	info, err := os.Stat(text)
	if err != nil {
		return seed{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSeed {
		return seed{}, fmt.Errorf("%s is not a regular file, or is larger than %d MiB", text, maxSeed>>20)
	}
	content, err := os.ReadFile(text)
	if err != nil {
		return seed{}, err
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	var read seed
	if err := decoder.Decode(&read); err != nil {
		return seed{}, fmt.Errorf("%s: %w", text, err)
	}
	return read, nil
}

// plant puts the seed into a server. The server panics on impossible seeds,
// which come from a user here and so become an error.
func (s seed) plant(srv *clinicaldoctest.Server) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("seed: %v", problem)
		}
	}()
	for _, u := range s.Users {
		srv.AddUser(clinicaldoctest.User(u))
	}
	for _, p := range s.Patients {
		srv.AddPatient(clinicaldoctest.Patient(p))
	}
	boxlink.Plant(srv, s.made)
	for _, n := range s.Notes {
		srv.AddNote(n.note())
	}
	return nil
}

// note returns the note to add. It has no recording, so the server makes one.
func (n seedNote) note() clinicaldoctest.Note {
	return clinicaldoctest.Note{
		ID: n.ID, UserID: n.UserID, PatientID: n.PatientID, PromptID: n.PromptID,
		Name: n.Name, Stage: n.Stage, Stuck: n.Stuck,
		Transcription: n.Transcription, Analysis: n.Analysis, ErrorState: n.ErrorState, CreatedAt: n.CreatedAt,
	}
}
