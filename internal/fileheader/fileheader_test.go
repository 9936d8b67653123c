package fileheader_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/fileheader"
)

func TestParse_WrittenHeader_IsEqual(t *testing.T) {
	t.Parallel()
	for _, h := range []fileheader.Header{
		{Kind: "clinicaldoc-ingest", Version: 2, Service: "https://api.example.test/a", UserID: 17},
		{Kind: "clinicaldoc-ingest", Version: 1, Service: "https://api.example.test"},
		{Kind: "clinicaldoc-ingest", Version: 2, Service: "https://api.example.test", UserID: 17, Headers: "0a1b"},
	} {
		got, err := fileheader.Parse("clinicaldoc-ingest", h.String())
		require.NoError(t, err)
		assert.Equal(t, h, got)
	}
	assert.Equal(t,
		"clinicaldoc-ingest 2 https://api.example.test user=17",
		fileheader.Header{Kind: "clinicaldoc-ingest", Version: 2, Service: "https://api.example.test", UserID: 17}.String(),
	)
	for _, line := range []string{
		"", "clinicaldoc-ingest", "clinicaldoc-ingest x https://a", "clinicaldoc-export 1 https://a",
		"clinicaldoc-ingest 0 https://a", "clinicaldoc-ingest -1 https://a",
	} {
		_, err := fileheader.Parse("clinicaldoc-ingest", line)
		require.ErrorIs(t, err, fileheader.ErrNoHeader, line)
	}
	short, err := fileheader.Parse("clinicaldoc-ingest", "clinicaldoc-ingest 9")
	require.NoError(t, err)
	assert.Equal(t, fileheader.Header{Kind: "clinicaldoc-ingest", Version: 9}, short)
	later, err := fileheader.Parse("clinicaldoc-ingest", "clinicaldoc-ingest 9 anything=else at all")
	require.NoError(t, err)
	assert.Equal(t, 9, later.Version)
}

func TestCheck_OtherServiceUserOrVersion_IsRejected(t *testing.T) {
	t.Parallel()
	own := fileheader.Header{Kind: "k", Version: 2, Service: "http://localhost:8790", UserID: 17, Headers: "0a1b"}
	for name, c := range map[string]struct {
		change func(*fileheader.Header)
		want   error
	}{
		"the same":           {func(*fileheader.Header) {}, nil},
		"another spelling":   {func(h *fileheader.Header) { h.Service = "HTTP://127.0.0.1:8790/" }, nil},
		"the version before": {func(h *fileheader.Header) { h.Version = 1 }, nil},
		"no user known":      {func(h *fileheader.Header) { h.UserID = 0 }, nil},
		"headers not known":  {func(h *fileheader.Header) { h.Headers = "" }, nil},
		"other headers":      {func(h *fileheader.Header) { h.Headers = "2c3d" }, fileheader.ErrOtherService},
		"no headers":         {func(h *fileheader.Header) { h.Headers = fileheader.NoHeaders }, fileheader.ErrOtherService},
		"another user":       {func(h *fileheader.Header) { h.UserID = 18 }, fileheader.ErrOtherUser},
		"another service": {
			func(h *fileheader.Header) { h.Service = "http://localhost:8791" }, fileheader.ErrOtherService,
		},
		"another scheme": {
			func(h *fileheader.Header) { h.Service = "https://localhost:8790" }, fileheader.ErrOtherService,
		},
		"a later version": {
			func(h *fileheader.Header) { h.Version, h.Service = 3, "what it means then" }, fileheader.ErrLaterVersion,
		},
		"a later one's line": {func(h *fileheader.Header) { h.Version, h.Service = 3, "" }, fileheader.ErrLaterVersion},
		"another kind":       {func(h *fileheader.Header) { h.Kind = "x" }, fileheader.ErrNoHeader},
		"no version":         {func(h *fileheader.Header) { h.Version = 0 }, fileheader.ErrNoHeader},
		"no service":         {func(h *fileheader.Header) { h.Service = "" }, fileheader.ErrNoHeader},
	} {
		stored := own
		c.change(&stored)
		err := stored.Check(own)
		if c.want == nil {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, c.want, name)
	}
	stored := own
	stored.UserID = 18
	require.EqualError(t, stored.Check(own), "it belongs to user 18, and this is user 17")
	stored.Service = "http://localhost:8791"
	require.EqualError(t, stored.Check(own), "it belongs to http://localhost:8791, and this is http://localhost:8790")
	unknown := own
	unknown.UserID = 0
	unknown.Headers = ""
	assert.NoError(t, own.Check(unknown))
}

func TestHeader_Completes(t *testing.T) {
	t.Parallel()
	earlier := fileheader.Header{UserID: 17}
	assert.True(t, fileheader.Header{UserID: 17}.Completes(fileheader.Header{}))
	assert.True(t, fileheader.Header{Headers: "0a1b"}.Completes(earlier))
	assert.False(t, fileheader.Header{UserID: 17, Headers: fileheader.NoHeaders}.Completes(earlier))
	assert.False(t, fileheader.Header{UserID: 17}.Completes(earlier))
	assert.False(t,
		fileheader.Header{UserID: 17, Headers: "0a1b"}.Completes(fileheader.Header{UserID: 17, Headers: "0a1b"}),
	)
}
