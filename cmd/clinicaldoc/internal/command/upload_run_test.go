package command

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/report"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// What was sent whole before Ctrl-C is waited for, and its note is printed in every form.
func TestAResultAfterCtrlCIsPrinted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for flag, want := range map[string]string{"jq": "5\n", "template": "5", "json": `{"note_id":5}` + "\n"} {
		var out bytes.Buffer
		o := &uploadOptions{Env: &Env{IO: &output.IO{Out: &out, Err: io.Discard}}, record: report.Begin(t.TempDir(), "devel")}
		switch flag {
		case "jq":
			require.NoError(t, o.jq.Set(".note_id"))
		case "template":
			require.NoError(t, o.template.Set("{{.note_id}}"))
		default:
			o.json = "note_id"
		}
		r := newUploadRun(o, nil)
		r.result(ctx, &ingest.Result{Recording: ingest.Recording{File: "/nowhere/visit.wav"}, Status: ingest.Created, NoteID: 5})
		require.NoError(t, r.broken, flag)
		assert.Equal(t, want, out.String(), flag)
		require.NoError(t, o.record.Close())
	}
}
