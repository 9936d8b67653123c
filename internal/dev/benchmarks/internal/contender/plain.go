package contender

import (
	"encoding/json"
	"time"
)

// plainNote is a note whose optional members are plain values: zero stands for absent. Only its two optional objects are
// pointers, as in the SDK's own types.
type plainNote struct {
	ID                       int64           `json:"id"`
	Name                     string          `json:"name"`
	Transcription            string          `json:"transcription"`
	Analysis                 string          `json:"analysis"`
	Template                 *plainTemplate  `json:"template"`
	Patient                  json.RawMessage `json:"patient"`
	Audio                    *plainAudio     `json:"audio"`
	Has                      plainHas        `json:"has"`
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

type plainTemplate struct {
	ID          int64  `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

type plainAudio struct {
	Duration   float64   `json:"duration"`
	Bitrate    int64     `json:"bitrate"`
	Size       int64     `json:"size"`
	UploadedAt time.Time `json:"uploaded_at"`
	ExpiresAt  time.Time `json:"expires_at"`
	FileURL    string    `json:"file_url"`
}

type plainHas struct {
	Content       bool `json:"content"`
	Transcription bool `json:"transcription"`
	Signed        bool `json:"signed"`
}

type plainPage struct {
	Data []plainNote `json:"data"`
	Meta struct {
		CurrentPage int `json:"current_page"`
		LastPage    int `json:"last_page"`
		PerPage     int `json:"per_page"`
		Total       int `json:"total"`
	} `json:"meta"`
}
