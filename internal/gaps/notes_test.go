package gaps

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// A recording that is padded stays a valid WAV file. Nothing is written into a recording of another format.
func TestPadded_Recording_StaysValid(t *testing.T) {
	t.Parallel()
	wav := []byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00" + strings.Repeat("f", 16) + "data\x00\x00\x00\x00")
	require.Len(t, wav, 44)
	long := padded(wav, 300)
	assert.Equal(t, "RIFF\x24\x01\x00\x00WAVE", string(long[:12]), "292 bytes follow the first 8")
	assert.Equal(t, "data\x00\x01\x00\x00", string(long[36:44]), "256 bytes follow the header")
	assert.Equal(t, make([]byte, 256), long[44:])
	assert.Equal(t, "RIFF\x00\x00\x00\x00", string(wav[:8]), "the caller's recording stays as it is")
	for _, other := range []string{
		"RIFF" + strings.Repeat("x", 60), strings.Repeat("x", 36) + "data" + strings.Repeat("x", 20),
		strings.Repeat("x", 60), string(wav[:43]), "",
	} {
		assert.Equal(t, other+strings.Repeat("\x00", 300-len(other)), string(padded([]byte(other), 300)))
	}
	assert.Equal(t, strings.Repeat("x", 60), string(padded([]byte(strings.Repeat("x", 60)), 50)), "it is not cut")
}

func TestKilobytes_Size_IsRoundedDown(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1 kB", 256_999: "256 kB"} {
		assert.Equal(t, want, kilobytes(size))
	}
}

func TestWording_Message_IsNotRepeated(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"": "no message", "Unauthorized": "message as described", "Unauthorized.": "message as described",
		"Secret words": "another message",
	} {
		assert.Equal(t, want, wording(&clinicaldoc.Error{Message: message}, "Unauthorized"))
	}
}

// A recording that is longer than the first size is not made shorter. The second size is tried anyway.
func TestAskUploadLimit_LongRecording_SkipsTheFirstSize(t *testing.T) {
	t.Parallel()
	box, options := startBox(t, clinicaldoctest.Variant{})
	options.Audio = make([]byte, 10_000)
	p := blank(options)
	p.askUploadLimit(t.Context())
	assert.Equal(t, "none up to 256 kB", p.report.Item("limits.upload").Seen)
	var sizes []int64
	for _, created := range box.Created() {
		sizes = append(sizes, created.AudioSize)
	}
	assert.Equal(t, []int64{256_000}, sizes)
	assert.Empty(t, box.Notes(), "they are deleted")
}

// A part is required if the service refuses a create without it. A failure of the service proves nothing about the
// part.
func TestAskRequiredParts_EachAnswer_IsTold(t *testing.T) {
	t.Parallel()
	refusal := clinicaldoctest.Answer(http.StatusUnprocessableEntity,
		`{"message":"The given data was invalid.","errors":{"file":["Secret"]}}`)
	for name, tc := range map[string]struct {
		faults         []clinicaldoctest.Fault
		optional       []string
		required, seen string
	}{
		"the refusal is incomplete": {
			[]clinicaldoctest.Fault{refusal}, []string{"patient_id"},
			"name, file, prompt_id", "422, message as described, fields: file",
		},
		"the service fails without the name": {
			[]clinicaldoctest.Fault{refusal, clinicaldoctest.Answer(http.StatusGatewayTimeout, "")}, nil,
			"patient_id, file, prompt_id; the service failed without: name", "422, message as described, fields: file",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box, options := startBox(t, clinicaldoctest.Variant{OptionalParts: tc.optional})
			for _, fault := range tc.faults {
				box.Inject(clinicaldoctest.RouteCreateNote, fault)
			}
			p := blank(options)
			p.askRequiredParts(t.Context())
			assert.Equal(t, tc.required, p.report.Item("create.required").Seen)
			assert.Equal(t, tc.seen, p.report.Item("error.422").Seen)
			assert.Empty(t, box.Notes(), "they are deleted")
		})
	}
	t.Run("no answer", func(t *testing.T) {
		t.Parallel()
		box, options := startBox(t, clinicaldoctest.Variant{})
		box.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		p := blank(options)
		p.askRequiredParts(t.Context())
		assert.Equal(t, "not seen: no answer", p.report.Item("create.required").Seen)
	})
}

// What an update does to a text is read from the response.
func TestAskUpdate_Responses_AreTold(t *testing.T) {
	t.Parallel()
	note := func(transcription string) clinicaldoctest.Fault {
		const response = `{"id":1,"name":"Synthetic","transcription":%q}`
		return clinicaldoctest.Answer(http.StatusOK, fmt.Sprintf(response, transcription))
	}
	failure := clinicaldoctest.Answer(http.StatusConflict, "")
	cut := clinicaldoctest.Answer(http.StatusOK, "<html>")
	for name, tc := range map[string]struct {
		first, second   clinicaldoctest.Fault
		trims, empties  string
		isEmptiesAnswer bool
	}{
		"kept and cleared": {note("  Synthetic text. "), note(""), "kept", "clears it", true},
		"trimmed and left": {note("Synthetic text."), note("Synthetic text."), "trimmed", "leaves it as it was", true},
		"changed and refused": {
			note("synthetic"), failure, "the text came back changed otherwise", "refused with 409", true,
		},
		"refused and cut": {failure, cut, "not seen: update refused with 409", "not seen", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box, options := startBox(t, clinicaldoctest.Variant{})
			options.Client = box.Client(clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{}))
			box.AddNote(clinicaldoctest.Note{PatientID: options.PatientID})
			box.Inject(clinicaldoctest.RouteUpdateNote, tc.first)
			box.Inject(clinicaldoctest.RouteUpdateNote, tc.second)
			p := blank(options)
			p.askUpdate(t.Context(), 1)
			assert.Equal(t, tc.trims, p.report.Item("update.trims").Seen)
			assert.Equal(t, tc.empties, p.report.Item("update.empties").Seen)
			assert.Equal(t, tc.isEmptiesAnswer, p.report.Item("update.empties").Known)
		})
	}
}
