package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// note is a note as a careful program declares it: zero stands for absent, and what is not described is raw.
type note struct {
	ID                       int64           `json:"id"`
	Name                     string          `json:"name"`
	Transcription            string          `json:"transcription"`
	Analysis                 string          `json:"analysis"`
	Template                 *noteTemplate   `json:"template"`
	Patient                  json.RawMessage `json:"patient"`
	Audio                    *noteAudio      `json:"audio"`
	Has                      noteHas         `json:"has"`
	TeamID                   int64           `json:"team_id"`
	UserID                   int64           `json:"user_id"`
	User                     json.RawMessage `json:"user"`
	TranscriptionStartedAt   time.Time       `json:"transcription_started_at"`
	TranscriptionCompletedAt time.Time       `json:"transcription_completed_at"`
	AnalysisStartedAt        time.Time       `json:"analysis_started_at"`
	AnalysisCompletedAt      time.Time       `json:"analysis_completed_at"`
	ErrorState               *string         `json:"error_state"`
	CreatedAt                time.Time       `json:"created_at"`
	UpdatedAt                time.Time       `json:"updated_at"`
}

type noteTemplate struct {
	ID          int64  `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

type noteAudio struct {
	Duration   float64   `json:"duration"`
	Bitrate    int64     `json:"bitrate"`
	Size       int64     `json:"size"`
	UploadedAt time.Time `json:"uploaded_at"`
	ExpiresAt  time.Time `json:"expires_at"`
	FileURL    string    `json:"file_url"`
}

type noteHas struct {
	Content       bool `json:"content"`
	Transcription bool `json:"transcription"`
	Signed        bool `json:"signed"`
}

type notePage struct {
	Data []note `json:"data"`
	Meta struct {
		CurrentPage int `json:"current_page"`
		LastPage    int `json:"last_page"`
		PerPage     int `json:"per_page"`
		Total       int `json:"total"`
	} `json:"meta"`
}

// noteUpdate is what a PUT sends: a new title and a new analysis of 2 KB.
type noteUpdate struct {
	Name     string `json:"name"`
	Analysis string `json:"analysis"`
}

var edit = noteUpdate{Name: "Edited synthetic note", Analysis: text("Edited", 2000)}

const (
	// The members of these two are not described; these are invented.
	patient = `{"id":7,"team_id":11,"reference":"synthetic-7","first_name":"Example","last_name":"Patient",` +
		`"birth_date":"1970-01-01","labels":["example","invented"],` +
		`"consent":{"recording":true,"given_at":"2024-05-01T09:00:00.000000Z"},"archived":false}`
	user = `{"id":12,"team_id":11,"name":"Example user","email":"user@example.invalid","role":"clinician","locale":"en",` +
		`"created_at":"2024-01-01T08:00:00.000000Z","updated_at":"2024-01-01T08:00:00.000000Z"}`
)

// newNote returns the note with the given id.
func newNote(id int64) note {
	at := time.Date(2024, 5, 1, 10, 11, 12, 123456000, time.UTC) // services write microseconds
	return note{
		ID:            id,
		Name:          "Synthetic note, as long as titles are",
		Transcription: text("Transcribed", 3000),
		Analysis:      text("Analysed", 2000),
		Template:      &noteTemplate{3, "Example template", "History / findings / plan, invented for measuring"},
		Patient:       json.RawMessage(patient),
		Audio: &noteAudio{
			Duration: 612.5, Bitrate: 128000, Size: 9800000, UploadedAt: at, ExpiresAt: at.AddDate(0, 1, 0),
			FileURL: "https://storage.example.invalid/audio/7/synthetic.wav?signature=0123456789abcdef",
		},
		Has:                      noteHas{Content: true, Transcription: true},
		TeamID:                   11,
		UserID:                   12,
		User:                     json.RawMessage(user),
		TranscriptionStartedAt:   at.Add(1 * time.Second),
		TranscriptionCompletedAt: at.Add(8 * time.Second),
		AnalysisStartedAt:        at.Add(9 * time.Second),
		AnalysisCompletedAt:      at.Add(18 * time.Second),
		CreatedAt:                at,
		UpdatedAt:                at.Add(18 * time.Second),
	}
}

// text returns about size characters of prose with slashes, quotes, accents and line breaks, as dictated notes have.
func text(kind string, size int) string {
	paragraph := kind + " text about nobody in particular, written to give a note its usual length and nothing else. " +
		"It follows no encounter and names no one. The café was closed on 1/2, the naïve reader went on. " +
		"Temperature 37 °C – as invented as everything here. \"Quoted\" words appear, too, and the lines are broken.\n"
	return strings.ToValidUTF8(strings.Repeat(paragraph, size/len(paragraph)+1)[:size], "")
}

// json is the note as PHP's json_encode writes it, with a member that clients must skip. What is not Latin-1 stays raw:
// real services mix both.
func (n note) json() []byte {
	encoded, err := json.Marshal(n)
	if err != nil {
		panic(err) // all its members can be encoded
	}
	var b []byte
	for _, r := range string(encoded[:len(encoded)-1]) {
		switch {
		case r == '/':
			b = append(b, '\\', '/')
		case r > 0x7f && r <= 0xff:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, `,"undescribed":{"tags":["skipped",1.5,false]}}`...)
}
