package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// boxState is what can be seen of the box and changed.
type boxState struct {
	Mode    string        `json:"mode"`
	BaseURL string        `json:"base_url"`
	Now     time.Time     `json:"now"`
	Routes  []string      `json:"routes"`
	Faults  []bookedFault `json:"faults"`
	Notes   []watchedNote `json:"notes"`
}

func (b *box) state() any {
	return boxState{
		Mode: "box", BaseURL: b.URL, Now: b.Now(), Routes: clinicaldoctest.Routes(),
		Faults: b.faults.list(), Notes: b.notes.snapshot(b.Server),
	}
}

// look publishes the notes that moved on by themselves.
func (b *box) look() { b.notes.look(b.Server, b.events) }

func (b *box) routes() map[string]control {
	routes := b.faults.routes()
	routes["POST clock"] = b.setClock
	routes["POST seed"] = b.addSeed
	routes["POST users"] = b.addUser
	routes["POST tokens"] = b.addToken
	routes["POST next"] = b.scriptNext
	return routes
}

func (b *box) setClock(body []byte) (any, error) {
	wanted, err := decode[struct {
		Advance duration `json:"advance"`
	}](body)
	if err != nil {
		return nil, err
	}
	if wanted.Advance < 0 {
		return nil, errors.New("the clock goes forward only")
	}
	b.Advance(time.Duration(wanted.Advance))
	return map[string]time.Time{"now": b.Now()}, nil
}

// addSeed takes a number of notes to make up, or what a seed file holds.
func (b *box) addSeed(body []byte) (any, error) {
	var added seed
	if n, err := decode[int](body); err == nil {
		if n < 1 || n > 10_000 {
			return nil, errors.New("want 1 to 10000 notes")
		}
		added = syntheticSeed(n)
	} else if added, err = decode[seed](body); err != nil {
		return nil, err
	}
	if err := added.plant(b.Server); err != nil {
		return nil, err
	}
	return map[string]int{"users": len(added.Users), "patients": len(added.Patients), "notes": len(added.Notes)}, nil
}

func (b *box) addUser(body []byte) (any, error) {
	wanted, err := decode[seedUser](body)
	if err != nil {
		return nil, err
	}
	if wanted.Token != "" {
		if err := checkToken(wanted.Token); err != nil {
			return nil, err
		}
	}
	return seedUser(b.AddUser(clinicaldoctest.User(wanted))), nil
}

func (b *box) addToken(body []byte) (made any, err error) {
	wanted, err := decode[struct {
		UserID int64  `json:"user_id"`
		Name   string `json:"name"`
	}](body)
	if err != nil {
		return nil, err
	}
	defer func() { // of a user that there is not
		if problem := recover(); problem != nil {
			made, err = nil, fmt.Errorf("%v", problem)
		}
	}()
	token := b.AddToken(max(wanted.UserID, 1), wanted.Name)
	return map[string]any{"id": token.ID, "name": token.Name, "token": token.Secret}, nil
}

// scriptNext sets the fate of the next note's processing.
func (b *box) scriptNext(body []byte) (any, error) {
	wanted, err := decode[struct {
		Transcription      string `json:"transcription"`
		Analysis           string `json:"analysis"`
		TranscriptionError string `json:"transcription_error"`
		AnalysisError      string `json:"analysis_error"`
	}](body)
	if err != nil {
		return nil, err
	}
	b.ScriptNext(clinicaldoctest.Script(wanted))
	return struct{}{}, nil
}

// duration is written as "1h30m".
type duration time.Duration

// UnmarshalText reads a duration as Go writes it.
func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return errors.New("want a duration such as 90s or 1h")
	}
	*d = duration(parsed)
	return nil
}
