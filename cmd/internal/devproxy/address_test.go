package devproxy

import (
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

func TestStorageAddress_AddressOfAPI_FollowsIt(t *testing.T) {
	t.Parallel()
	for api, storage := range map[string]string{
		"127.0.0.1:8790": "127.0.0.1:0", "localhost:8790": "127.0.0.1:0", "[::1]:8790": "127.0.0.1:0", "nonsense": "127.0.0.1:0",
		":8790": ":8791", "0.0.0.0:8790": "0.0.0.0:8791", "[::]:8790": "[::]:8791", "192.0.2.7:80": "192.0.2.7:81",
		":0": ":0", ":65535": ":0", ":http": ":0",
	} {
		assert.Equal(t, storage, storageAddress(api), api)
	}
}

func TestAddr_InUse_SaysWhatToDo(t *testing.T) {
	t.Parallel()
	address := strings.TrimPrefix(launch(t).url, "http://")
	for _, args := range [][]string{nil, {"-upstream", "http://127.0.0.1:1"}} {
		err := Run(t.Context(), "clinicaldoc-devproxy", append([]string{"-addr", address}, args...), io.Discard, io.Discard)
		taken, ok := errors.AsType[*AddressError](err)
		require.True(t, ok, err)
		assert.True(t, strings.HasPrefix(taken.Text, "cannot listen on "+address+": "), taken.Text)
		assert.Equal(t, "end the program that uses this address, or pass another one with -addr", taken.Do)
		assert.Equal(t, taken.Text+"; "+taken.Do, err.Error())
	}
}

// A container listens at every address.
func TestAddr_AllInterfaces_PrintsUsableURL(t *testing.T) {
	t.Parallel()
	c := launch(t, "-addr", ":0", "-seed", "1")
	assert.True(t, strings.HasPrefix(c.url, "http://127.0.0.1:"), c.url)
	n, err := c.sdk().Notes.DownloadAudio(t.Context(), 1, io.Discard, clinicaldoc.DownloadParams{})
	require.NoError(t, err)
	assert.Positive(t, n)

	behind := launch(t, "-addr", ":0", "-upstream", c.url)
	assert.True(t, strings.HasPrefix(behind.url, "http://127.0.0.1:"), behind.url)
	behind.token = c.token
	assert.Equal(t, http.StatusOK, behind.get("/user").status)
}

func TestHost_Name_IsPrintedAndUsed(t *testing.T) {
	t.Parallel()
	c := launch(t, "-addr", ":0", "-seed", "1", "-host", "localhost")
	assert.True(t, strings.HasPrefix(c.url, "http://localhost:"), c.url)
	address := c.get("/v1/progress-notes/1/audio-url").text
	assert.Contains(t, address, `"url":"http://localhost:`)

	c.url = regexp.MustCompile(`http://localhost:\d+`).FindString(address)
	assert.Equal(t, http.StatusForbidden, c.get("/_/state").status, "storage has no inspector")
}

// The inspector accepts only this machine's own names.
func TestInspector_AnyHostName_PrintsUsableURL(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-host", "box.test"}, {"-host", "box.test", "-upstream", "http://127.0.0.1:1"}, nil} {
		c := launch(t, args...)
		printed := regexp.MustCompile(`inspector (http://\S+)`).FindStringSubmatch(c.stdout.String())
		require.NotNil(t, printed)
		resp, err := c.client.Get(printed[1]) //nolint:noctx // it is there at once
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, http.StatusOK, resp.StatusCode, printed[1])
	}
}
