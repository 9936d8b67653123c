package download

import (
	"io"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Writer makes a [Target] of a caller's writer.
type Writer struct {
	io.Writer
	rewinder rewinder // nil if the writer cannot be rewound
	base     int64    // where the recording begins
}

type rewinder interface {
	io.Seeker
	Truncate(size int64) error
}

// NewWriter returns a target that writes to w. It can be rewound if w has Seek and Truncate.
func NewWriter(w io.Writer) *Writer {
	t := &Writer{Writer: w}
	r, ok := w.(rewinder)
	if !ok {
		return t
	}
	base, err := r.Seek(0, io.SeekCurrent)
	if err == nil { // it fails for a pipe, which is an *os.File too
		t.rewinder = r
		t.base = base
	}
	return t
}

// alreadyHas implements [Target]: a writer has nothing of an earlier call.
func (t *Writer) alreadyHas() (r recording, location string, size int64) {
	return recording{total: unknown}, "", 0
}

// begin implements [Target].
func (t *Writer) begin(recording, string) {}

// rewind implements [Target]. It truncates the file to where the recording began, if nothing follows the recording. If
// the file was opened with O_APPEND, the recording need not begin at base.
func (t *Writer) rewind(written int64) error {
	if t.rewinder == nil {
		return redact.Text("it has no Seek and Truncate")
	}
	end, err := t.rewinder.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if end != t.base+written {
		return redact.Text("it does not end where the recording ends")
	}
	if err := t.rewinder.Truncate(t.base); err != nil {
		return err
	}
	_, err = t.rewinder.Seek(t.base, io.SeekStart)
	return err
}
