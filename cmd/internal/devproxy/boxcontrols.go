package devproxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

// boxState is what can be seen of the box and changed.
type boxState struct {
	Mode     string              `json:"mode"`
	BaseURL  string              `json:"base_url"`
	Bodies   bool                `json:"bodies"`
	Now      time.Time           `json:"now"`
	Frozen   bool                `json:"frozen"`
	Routes   []string            `json:"routes"`
	Kinds    []boxlink.FaultKind `json:"fault_kinds"`
	Faults   []shownFault        `json:"faults"`
	Notes    []boxlink.Note      `json:"notes"`
	Variant  variant             `json:"variant"`
	Variants []string            `json:"variants"`
	Switches []switchable        `json:"switches"`
}

func (b *box) state() any {
	state := boxState{
		Mode: "box", BaseURL: b.URL, Bodies: true, Now: b.Now(), Frozen: b.frozen.Load(),
		Routes: clinicaldoctest.Routes(), Kinds: offeredKinds(nil),
		Faults: shownFaults(b.Server), Notes: boxlink.Newest(b.Server, shownNotes), Variant: variant(b.Variant()),
	}
	for _, v := range clinicaldoctest.Variants() {
		state.Variants = append(state.Variants, v.Name)
	}
	for _, s := range switches() {
		if s.Name != "name" && s.Name != "base_path" { // which stay
			state.Switches = append(state.Switches, s)
		}
	}
	return state
}

// look publishes the notes that moved on by themselves.
func (b *box) look() { b.notes.look(b.Server, b.events) }

func (b *box) routes() map[string]control {
	routes := faultControls(b.Server, func(fault) error { return nil })
	routes["POST clock"] = b.setClock
	routes["POST variant"] = b.setVariant
	routes["POST seed"] = b.addSeed
	routes["POST users"] = b.addUser
	routes["POST tokens"] = b.addToken
	routes["POST next"] = b.scriptNext
	routes["POST reset"] = b.reset
	return routes
}

func (b *box) setClock(body []byte) (any, error) {
	wanted, err := decode[struct {
		Advance duration  `json:"advance"`
		Set     time.Time `json:"set"`
		Frozen  *bool     `json:"frozen"`
	}](body)
	if err != nil {
		return nil, err
	}
	if wanted.Frozen != nil {
		b.frozen.Store(*wanted.Frozen)
		if *wanted.Frozen {
			b.Freeze()
		} else {
			b.Unfreeze()
		}
	}
	if !wanted.Set.IsZero() {
		b.SetTime(wanted.Set)
	}
	b.Advance(time.Duration(wanted.Advance))
	return map[string]any{"now": b.Now(), "frozen": b.frozen.Load()}, nil
}

// setVariant takes the name of a variant, switches that differ from what is in force, or both.
func (b *box) setVariant(body []byte) (any, error) {
	wanted, err := decode[struct {
		Name     string          `json:"name"`
		Switches json.RawMessage `json:"switches"`
	}](body)
	if err != nil {
		return nil, err
	}
	changed := b.Variant()
	if wanted.Name != "" {
		if changed, err = variantNamed(wanted.Name); err != nil {
			return nil, err
		}
	}
	if len(wanted.Switches) > 0 {
		if err := (*variant)(&changed).UnmarshalJSON(wanted.Switches); err != nil {
			return nil, err
		}
	}
	b.SetVariant(changed)
	return variant(b.Variant()), nil
}

// reset brings the box back to what the command line made of it.
func (b *box) reset([]byte) (any, error) {
	b.frozen.Store(false)
	b.Reset()
	if err := b.fill(); err != nil {
		return nil, err
	}
	b.traffic.forget()
	b.events.publish("reset", struct{}{})
	return struct{}{}, nil
}

// addSeed takes a number of notes to make up, or what a seed file holds.
func (b *box) addSeed(body []byte) (any, error) {
	var added seed
	if n, err := decode[int](body); err == nil {
		if n < 1 || n > 10_000 {
			return nil, errors.New("want 1 to 10000 notes")
		}
		added = seed{made: n}
	} else if added, err = decode[seed](body); err != nil {
		return nil, err
	}
	if err := added.plant(b.Server); err != nil {
		return nil, err
	}
	return map[string]int{
		"users": len(added.Users), "patients": len(added.Patients), "notes": len(added.Notes) + added.made,
	}, nil
}

func (b *box) addUser(body []byte) (made any, err error) {
	wanted, err := decode[seedUser](body)
	if err != nil {
		return nil, err
	}
	if wanted.Token != "" {
		if err := checkToken(wanted.Token); err != nil {
			return nil, err
		}
	}
	defer func() { // of an id or a token that is used
		if problem := recover(); problem != nil {
			made, err = nil, fmt.Errorf("%v", problem)
		}
	}()
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
