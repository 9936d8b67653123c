package download

import (
	"io"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Writer is a caller's writer as a target.
type Writer struct {
	io.Writer
	rewinder rewinder // nil when the writer cannot be rewound
	base     int64    // where the recording begins
}

type rewinder interface {
	io.Seeker
	Truncate(size int64) error
}

// NewWriter makes a target of w. It can be rewound if w has Seek and Truncate, and ends with the recording.
func NewWriter(w io.Writer) *Writer {
	t := &Writer{Writer: w}
	if r, ok := w.(rewinder); ok {
		if base, err := r.Seek(0, io.SeekCurrent); err == nil { // a pipe is an *os.File too
			t.rewinder, t.base = r, base
		}
	}
	return t
}

func (t *Writer) left() (recording, int64) { return recording{total: -1}, 0 }

func (t *Writer) begin(recording) {}

// rewind drops the recording's bytes if they are the last ones: what the file holds besides is not ours to drop. In a file
// opened to append they are elsewhere than its offset says.
func (t *Writer) rewind(written int64) error {
	if t.rewinder == nil {
		return redact.Text("it has no Seek and Truncate")
	}
	end, err := t.rewinder.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if end != t.base+written {
		return redact.Text("it holds more than the recording where that was written")
	}
	if err := t.rewinder.Truncate(t.base); err != nil {
		return err
	}
	_, err = t.rewinder.Seek(t.base, io.SeekStart)
	return err
}
