package guards_test

import (
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// workflows returns the texts of the workflows by their names.
func workflows(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, name := range files(t) {
		if strings.HasPrefix(name, ".github/workflows/") {
			texts[path.Base(name)] = read(t, name)
		}
	}
	require.NotEmpty(t, texts)
	return texts
}

// What runs with the repository's rights is one certain commit, not what somebody's tag names today; and it may do no more
// than its job needs.
func TestWorkflowsArePinnedAndMayDoLittle(t *testing.T) {
	t.Parallel()
	for name, text := range workflows(t) {
		uses := regexp.MustCompile(`(?m)^\s*-? ?uses: (.*)$`).FindAllStringSubmatch(text, -1)
		require.NotEmpty(t, uses, name)
		for _, use := range uses {
			assert.Regexp(t, `^(actions|github)/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`, use[1], name)
		}
		assert.Contains(t, text, "\npermissions: {}\n", name)
		jobs := strings.Count(text, "\n    runs-on: ")
		assert.Equal(t, jobs, strings.Count(text, "\n    permissions:"), "%s: each job says what it may", name)
		assert.Equal(t, jobs, strings.Count(text, "\n    timeout-minutes: "), "%s: each job ends", name)
		assert.Equal(t, strings.Count(text, "uses: actions/checkout@"), strings.Count(text, "persist-credentials: false"), name)
	}
}

// The bot that updates what is required looks at every module.
func TestDependabotKnowsEveryModule(t *testing.T) {
	t.Parallel()
	listed := regexp.MustCompile(`(?m)^      - (/\S*)$`).FindAllStringSubmatch(read(t, ".github/dependabot.yml"), -1)
	var got, want []string
	for _, found := range listed {
		got = append(got, found[1])
	}
	for _, folder := range folders(t, "go.mod") {
		want = append(want, path.Join("/", folder))
	}
	assert.ElementsMatch(t, want, got)
}

// What a night is for, each job of the nightly workflow does: nothing is left to one of them alone.
func TestNightlyRunsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	nightly := regexp.MustCompile(`(?m)^nightly: ([a-z ]+) ##.*\n((?:\t.*\n)+)`).FindStringSubmatch(read(t, "Makefile"))
	require.NotNil(t, nightly)
	workflow := workflows(t)["nightly.yml"]
	for target := range strings.FieldsSeq(nightly[1]) {
		assert.Regexp(t, `(?m)- run: make `+target+`\b`, workflow)
	}
	for command := range strings.Lines(nightly[2]) {
		assert.Contains(t, workflow, "- run: "+strings.TrimSpace(command)+"\n")
	}
}
