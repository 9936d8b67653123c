package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

func newNotesShow(e *Env) *cobra.Command {
	var f format
	c := &cobra.Command{
		Use: "show ID", Aliases: []string{"get", "view"}, Short: "Show a note with its texts",
		Args: exactly(1, "a note's id"),
		Long: "Show a note with its name, patient and texts. The recording's signed URL is not shown; " +
			"use \"clinicaldoc audio download\". " +
			"--json without fields also prints members that the service's description does not show.",
		Example:           "  clinicaldoc notes show 42\n  clinicaldoc notes show 42 -q .version",
		ValidArgsFunction: e.completeNotes,
		RunE: func(c *cobra.Command, args []string) error {
			id, err := parseID(args[0], "note")
			if err != nil {
				return err
			}
			return e.showNote(c.Context(), id, &f)
		},
	}
	f.flags(c, clinicaldoc.ProgressNote{}, shownNote{})
	return c
}

// shownNote is what "notes show" adds to a note of the service.
type shownNote struct {
	Stage   string `json:"stage"`
	Version string `json:"version"`
}

func (e *Env) showNote(ctx context.Context, id int64, f *format) error {
	client, err := e.client()
	if err != nil {
		return err
	}
	note, err := client.Notes.Get(ctx, id)
	if err != nil {
		return err
	}
	value, err := wholeNote(note)
	if err != nil {
		return err
	}
	if members, ok := value.(map[string]any); ok {
		members["version"] = note.Version() // for --yes of "notes sign"
	}
	return e.paged(ctx, func() error {
		return e.print(ctx, f, value, func() error {
			_, err := io.WriteString(e.IO.Out, e.IO.Text(noteText(note)))
			return err
		})
	})
}

// noteText is a note for people. Its texts are marked line by line, so that none can pose as another part of the note.
func noteText(note *clinicaldoc.ProgressNote) string {
	var text strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&text, "%-9s %s\n", name, output.Cell(value))
		}
	}
	line("note", strconv.FormatInt(note.ID, 10))
	line("name", note.Name)
	line("patient", patientOf(note))
	line("stage", note.Stage().String())
	if note.ErrorState != nil {
		line("error", *note.ErrorState)
	}
	line("created", exactTime(note.CreatedAt))
	line("updated", exactTime(note.UpdatedAt))
	line("version", note.Version())
	for _, part := range slices.Backward(noteTexts) {
		content := part.of(note)
		if content != "" && part.name != "name" { // which stands above
			fmt.Fprintf(&text, "\n%s:\n%s", part.name, output.Marked(content))
		}
	}
	return text.String()
}

func exactTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
