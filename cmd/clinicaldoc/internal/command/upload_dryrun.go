package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/progress"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// checkedRecording is what is printed of a recording that an upload would refuse.
type checkedRecording struct {
	Position int    `json:"position"`
	Key      string `json:"key"`
	Status   string `json:"status"`
	Size     int64  `json:"size,omitempty"`
	Error    string `json:"error"`
	File     string `json:"file,omitempty"`
}

// dryRun lists the recordings that an upload would refuse by their bytes. It asks the service nothing and keeps
// nothing.
func (o *uploadOptions) dryRun(ctx context.Context) error {
	recordings, err := o.recordings(ctx)
	if err != nil {
		return err
	}
	var worst error
	refused := 0
	for i := range recordings {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		size, why := checkFile(recordings[i].File)
		if why == nil {
			continue
		}
		refused++
		if worst == nil {
			worst = why
		}
		if err := o.printChecked(ctx, i+1, &recordings[i], size, why); err != nil {
			return err
		}
	}
	o.sumChecked(len(recordings), refused)
	return o.checkedOutcome(len(recordings), refused, worst)
}

// checkFile returns a file's size and why it would be refused; nil: it would not.
func checkFile(path string) (int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	_, err = ingest.CheckRecording(file, info.Size())
	return info.Size(), err
}

func (o *uploadOptions) printChecked(
	ctx context.Context, position int, recording *ingest.Recording, size int64, why error,
) error {
	line := checkedRecording{
		Position: position, Key: keyOf(&ingest.Result{Recording: *recording}), Size: size,
		Status: "cannot be read", Error: "it cannot be read: " + reason(why),
	}
	switch {
	case errors.Is(why, ingest.ErrCutShort):
		line.Status = "cut short"
		line.Error = errorText(why)
	case errors.Is(why, ingest.ErrNotARecording):
		line.Status = "not a recording"
		line.Error = errorText(why)
	}
	cells := []string{strconv.Itoa(position), line.Key, line.Status, progress.Bytes(size), line.Error}
	if o.reveal {
		line.File = recording.File
		cells = append(cells, output.Cell(line.File))
	}
	return o.print(ctx, &o.format, line, func() error {
		return o.outf("%s\n", o.IO.Text(strings.Join(cells, "\t")))
	})
}

func (o *uploadOptions) sumChecked(total, refused int) {
	text := fmt.Sprintf("%s: %d can be uploaded", output.Count(total, "recording", "recordings"), total-refused)
	if refused > 0 {
		text += fmt.Sprintf(", %d cannot", refused)
	}
	if len(o.left) > 0 {
		text += fmt.Sprintf("; %d left out", len(o.left))
	}
	o.IO.Note("%s; nothing was sent", text)
	o.sumLeftOut()
}

// checkedOutcome is how a dry run ends: with the exit code that the upload would have.
func (o *uploadOptions) checkedOutcome(total, refused int, worst error) error {
	text := fmt.Sprintf("%s would be refused", output.Count(refused, "recording", "recordings"))
	switch {
	case refused == total:
		return &runError{codeRefused, text, uploadKind(worst).do}
	case refused > 0:
		return &runError{codeSome, text, uploadKind(worst).do}
	}
	return o.leftOutError()
}
