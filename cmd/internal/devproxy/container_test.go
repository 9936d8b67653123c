package devproxy

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// commandIn returns the arguments that an instruction of the Dockerfile holds.
func commandIn(t *testing.T, instruction string) (args []string) {
	t.Helper()
	dockerfile, err := os.ReadFile("../../clinicaldoc-devproxy/Dockerfile")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^` + instruction + ` (\[.*\])$`).FindSubmatch(dockerfile)
	require.NotNil(t, line, instruction)
	require.NoError(t, json.Unmarshal(line[1], &args))
	return args
}

func TestDockerfile_Command_StartsServer(t *testing.T) {
	t.Parallel()
	entry := commandIn(t, "ENTRYPOINT")
	require.Equal(t, []string{"/clinicaldoc-devproxy", "-addr", ":8790"}, entry)
	assert.Equal(t, ":8791", storageAddress(entry[2]), "the other port that is exposed")
	c := launch(t, append(commandIn(t, "CMD"), "-addr", ":0")...)
	assert.Equal(t, "synthetic-token", c.token)
	assert.Equal(t, http.StatusOK, c.get("/user").status)
}

// docs/devproxy.md names every control and these flags, and its container command starts the server.
func TestDevproxyPage_EveryControl_IsNamed(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../../docs/devproxy.md")
	require.NoError(t, err)
	text := string(document)
	for route := range (&box{}).routes() {
		method, path, _ := strings.Cut(route, " ")
		assert.Contains(t, text, "`"+method+" /_/"+path+"`")
	}
	for _, flag := range []string{"-control=false", "-host", "-upstream", "-variants", "-seed"} {
		assert.Contains(t, text, flag)
	}
	command := regexp.MustCompile(`command: (\[.*\])`).FindStringSubmatch(text)
	require.NotNil(t, command)
	var args []string
	require.NoError(t, json.Unmarshal([]byte(command[1]), &args))
	c := launch(t, append(args, "-addr", ":0")...)
	assert.True(t, strings.HasPrefix(c.url, "http://box:"), c.url)
}
