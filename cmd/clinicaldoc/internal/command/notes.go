package command

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

func newNotes(e *Env) *cobra.Command {
	c := group("notes", "List, read, edit, sign and delete notes", "List, read, edit, sign and delete notes.")
	c.AddCommand(newNotesList(e), newNotesShow(e), newNotesWait(e), newNotesEdit(e), newNotesSign(e), newNotesDelete(e))
	return c
}

// plainNote is what is printed of a note unasked: nothing that names or describes a patient.
type plainNote struct {
	ID        int64                  `json:"id"`
	Stage     clinicaldoc.Stage      `json:"stage"`
	Has       clinicaldoc.Completion `json:"has"`
	Audio     *plainAudio            `json:"audio,omitempty"`
	CreatedAt time.Time              `json:"created_at,omitzero"`
	UpdatedAt time.Time              `json:"updated_at,omitzero"`
}

// plainMembers are the names of its members.
var plainMembers = []string{"id", "stage", "has", "audio", "created_at", "updated_at"}

type plainAudio struct {
	Duration  float64   `json:"duration,omitempty"`
	Size      int64     `json:"size,omitempty"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// noteValue is a note as JSON shows it: all of it but signed URLs, or without what is a patient's.
func noteValue(note *clinicaldoc.ProgressNote, reveal bool) (any, error) {
	if reveal {
		return wholeNote(note)
	}
	p := plainNote{
		ID: note.ID, Stage: note.Stage(), Has: note.Has, CreatedAt: note.CreatedAt, UpdatedAt: note.UpdatedAt,
	}
	if a := note.Audio; a != nil {
		p.Audio = &plainAudio{Duration: a.Duration, Size: a.Size, ExpiresAt: a.ExpiresAt}
	}
	return p, nil
}

// wholeNote is a note's JSON with its stage and without URLs that let whoever has them listen.
func wholeNote(note *clinicaldoc.ProgressNote) (any, error) {
	text, err := json.Marshal(note)
	if err != nil {
		return nil, err
	}
	value, err := output.Decode(text)
	if members, ok := value.(map[string]any); ok {
		for name, member := range members {
			if name != "name" && name != "transcription" && name != "analysis" {
				members[name] = withoutURLs(member)
			}
		}
		if _, taken := members["stage"]; !taken {
			members["stage"] = note.Stage().String()
		}
	}
	return value, err
}

// withoutURLs leaves out URLs with a query: that is where signatures stand, under names that nobody can list.
func withoutURLs(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if member = withoutURLs(member); member == nil && v[name] != nil {
				delete(v, name)
				continue
			}
			v[name] = member
		}
	case []any:
		for i := range v {
			v[i] = withoutURLs(v[i])
		}
	case string:
		u, err := url.Parse(strings.TrimSpace(v))
		if err == nil && u.Host != "" && (u.RawQuery != "" || u.User != nil) {
			return nil
		}
	}
	return value
}

func stageNames() []string {
	var names []string
	for _, s := range []clinicaldoc.Stage{
		clinicaldoc.StageUploaded, clinicaldoc.StageTranscribing, clinicaldoc.StageTranscribed,
		clinicaldoc.StageAnalysing, clinicaldoc.StageComplete, clinicaldoc.StageSigned,
	} {
		names = append(names, s.String())
	}
	return names
}

func parseStage(text string) (clinicaldoc.Stage, error) {
	var stage clinicaldoc.Stage
	if err := stage.UnmarshalText([]byte(text)); err != nil {
		return 0, usagef("%s is not a stage; the stages are %s", quote(text), strings.Join(stageNames(), ", "))
	}
	return stage, nil
}
