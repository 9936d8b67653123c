package download

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWriterRewind_DropsOnlyTheRecording(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before string
		flag   int
		offset int64
		also   string // written to the file by somebody else meanwhile
		want   string // after the rewind
		refuse bool
	}{
		"an empty file":                     {},
		"the end of a file":                 {before: "before", offset: 6, want: "before"},
		"an empty file to append to":        {flag: os.O_APPEND},
		"the end of a file to append to":    {before: "before", flag: os.O_APPEND, offset: 6, want: "before"},
		"the beginning of one to append to": {before: "before", flag: os.O_APPEND, want: "beforeaudio", refuse: true},
		"the middle of one to append to": {
			before: "before", flag: os.O_APPEND, offset: 3, want: "beforeaudio", refuse: true,
		},
		"the beginning of a longer file":     {before: "before and after", want: "audioe and after", refuse: true},
		"the middle of a longer file":        {before: "before and after", offset: 7, want: "before audiofter", refuse: true},
		"the middle of a file, over its end": {before: "before", offset: 2, want: "be"},
		"a file that others append to":       {flag: os.O_APPEND, also: "other", want: "audioother", refuse: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "file")
			require.NoError(t, os.WriteFile(path, []byte(tt.before), 0o600))
			file, err := os.OpenFile(path, os.O_RDWR|tt.flag, 0)
			require.NoError(t, err)
			t.Cleanup(func() { _ = file.Close() })
			_, err = file.Seek(tt.offset, io.SeekStart)
			require.NoError(t, err)

			w := NewWriter(file)
			_, err = w.Write([]byte("audio"))
			require.NoError(t, err)
			if tt.also != "" {
				other, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
				require.NoError(t, err)
				_, err = other.WriteString(tt.also)
				require.NoError(t, err)
				require.NoError(t, other.Close())
			}
			err = w.rewind(int64(len("audio")))
			assert.Equal(t, tt.refuse, err != nil)
			got, readErr := os.ReadFile(path)
			require.NoError(t, readErr)
			assert.Equal(t, tt.want, string(got))
			if tt.refuse {
				return
			}
			_, err = w.Write([]byte("another"))
			require.NoError(t, err)
			got, err = os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, tt.want+"another", string(got))
			require.NoError(t, w.rewind(int64(len("another"))), "it can be rewound any number of times")
		})
	}
}

func TestWriterRewind_UnknownEnd_IsRefused(t *testing.T) {
	t.Parallel()
	from, to, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = from.Close(), to.Close() })
	for _, w := range []io.Writer{new(bytes.Buffer), to} {
		target := NewWriter(w)
		_, err := target.Write([]byte("audio"))
		require.NoError(t, err)
		require.Error(t, target.rewind(int64(len("audio"))))
	}
}
