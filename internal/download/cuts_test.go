package download

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk/disktest"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // thousands of small disks come and go: the collector would take half of the time
	goleak.VerifyTestMain(m)
}

const cutPath = "/visits/visit.wav"

// stored is a recording in storage.
type stored struct {
	note    int
	etag    string
	content []byte
}

// visit is a call for a recording, which is cut after some bytes.
type visit struct {
	stored
	bytes int
}

// fetch is what a call to download to the path does with the disk. It reports whether that was successful.
func (v visit) fetch(t *testing.T, m disktest.Machine) bool {
	t.Helper()
	part, err := OpenPart(disk.With(t.Context(), m), cutPath, fmt.Sprintf("note %d", v.note))
	if err != nil {
		return false
	}
	defer part.Leave()
	part.checkpointEvery = pieceSize
	d := newTest(nil)
	d = New(d.source, part)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://storage.clinic.test/7", nil)
	require.NoError(t, err)
	if d.Prepare(req) != nil {
		return false
	}
	from, status, header := 0, http.StatusOK, []string{"ETag", v.etag}
	if req.Header.Get("If-Range") == v.etag {
		_, err := fmt.Sscanf(req.Header.Get("Range"), "bytes=%d-", &from)
		require.NoError(t, err)
		status = http.StatusPartialContent
		span := fmt.Sprintf("bytes %d-%d/%d", from, len(v.content)-1, len(v.content))
		header = append(header, "Content-Range", span)
	}
	var body io.Reader = bytes.NewReader(v.content[from:max(from, v.bytes)])
	if v.bytes < len(v.content) {
		body = io.MultiReader(body, iotest.ErrReader(io.ErrUnexpectedEOF))
	}
	_, err = take(t, d, respond(status, slow{body}, int64(len(v.content)-from), header...))
	return err == nil && part.Finish() == nil && m.Alive()
}

// slow reads a piece at a time.
type slow struct{ io.Reader }

func (s slow) Read(p []byte) (int, error) { return s.Reader.Read(p[:min(len(p), pieceSize)]) }

// pieceSize is enough to judge a recording by: of less, nothing is kept.
const pieceSize = headSize + 1

// The power is cut at every write, sync and rename of some calls. Afterwards the file with the recording's name is
// one complete recording, and everything that was reported as written exists. The next call, for any recording,
// fetches that one and leaves nothing behind.
func TestPart_PowerCut_MixesNoRecordings(t *testing.T) {
	t.Parallel()
	const size = 4*pieceSize + 5
	mine := stored{7, `"a"`, audio(size)}
	replaced := stored{7, `"b"`, bytes.Repeat([]byte{1}, size)}
	others := stored{8, `"a"`, bytes.Repeat([]byte{2}, size)}
	for name, visits := range map[string][]visit{
		"one":                  {{mine, size}},
		"in two":               {{mine, 2 * pieceSize}, {mine, size}},
		"over another":         {{others, size}, {mine, size}},
		"after another's part": {{mine, 2*pieceSize + 5}, {others, 3*pieceSize + 5}},
		"replaced":             {{mine, 2*pieceSize + 5}, {replaced, 3*pieceSize + 5}, {mine, pieceSize + 7}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// What may be there after each call: first what was said to be there last.
			run := func(m disktest.Machine) (may [][]byte) {
				may = [][]byte{nil}
				for _, v := range visits {
					if may = append(may, v.content); v.fetch(t, m) {
						may = [][]byte{v.content}
					}
				}
				return may
			}
			count := disktest.Cuts(disktest.New(), run, func(d *disktest.Disk, may [][]byte, place string) {
				content, there := d.Content(cutPath)
				is := func(other []byte) bool { return there == (other != nil) && bytes.Equal(content, other) }
				require.True(t, slices.ContainsFunc(may, is), "%s: %v is there", place, content)
				for _, next := range []stored{mine, replaced, others} {
					d := d.Clone()
					require.True(t,
						visit{next, size}.fetch(t, disktest.Machine{FS: d.Mount(nil), Alive: func() bool { return true }}), place,
					)
					content, _ := d.Content(cutPath)
					require.Equal(t, next.content, content, "%s, then %d %s", place, next.note, next.etag)
					assert.Equal(t, []string{cutPath}, d.Names(), place)
				}
			})
			assert.Greater(t, count, 50)
			t.Log(count)
		})
	}
}
