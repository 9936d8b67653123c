package recipes

import (
	"context"
	"io"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// noteRow is what an analysis of waiting times needs of a note: no text, and no patient.
type noteRow struct {
	ID       int64     `parquet:"id"`
	Stage    string    `parquet:"stage,dict"`
	Template string    `parquet:"template,dict"`
	Created  time.Time `parquet:"created_at,timestamp"`
	Updated  time.Time `parquet:"updated_at,timestamp"`
	Seconds  float64   `parquet:"audio_seconds"`
}

// writeParquet writes a row for every note, or fails.
func writeParquet(ctx context.Context, client *clinicaldoc.Client, w io.Writer) error {
	table := parquet.NewGenericWriter[noteRow](w)
	complete := clinicaldoc.ListNotesParams{PerPage: 100, Verify: true}
	for note, err := range client.Notes.All(ctx, complete) {
		if err != nil {
			return err // only Close makes the file readable
		}
		row := noteRow{
			ID: note.ID, Stage: note.Stage().String(),
			Created: note.CreatedAt, Updated: note.UpdatedAt,
		}
		if note.Template != nil {
			row.Template = note.Template.Name
		}
		if note.Audio != nil {
			row.Seconds = note.Audio.Duration
		}
		if _, err := table.Write([]noteRow{row}); err != nil {
			return err
		}
	}
	return table.Close()
}
