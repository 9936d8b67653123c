package outside_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/outside"
)

func TestGo_Failure_ReturnsTheCommandsText(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	const test = "package user\n\nimport \"testing\"\n\nfunc TestIt(t *testing.T) { "
	require.NoError(t, outside.Go(t.Context(), root, map[string]string{"user.go": "package user"}, "build", "./..."))
	for want, source := range map[string]string{
		"use of internal package": `package user; import _ "github.com/clinicaldoc/clinicaldoc-go/internal/poll"`,
		"undefined: unknown":      test + "unknown() }\n",
		"as it must":              test + "t.Fatal(\"as it must\") }\n",
		"wrong type":              test + "t.Logf(\"%d\", \"text\") }\n",
	} {
		require.ErrorContains(t, outside.Go(t.Context(), root, map[string]string{"user_test.go": source}, "test", "./..."), want)
	}
	require.ErrorContains(t, outside.Go(t.Context(), t.TempDir(), nil, "build", "./..."), "go.mod")
}

func TestPrograms_BlocksOfAPage_BecomeFiles(t *testing.T) {
	t.Parallel()
	page := "```go\nfmt.Println(ids)\n```\r\ntext\n```sh\nls\n```\n\n```go\npackage whole\n```\n```go\ntype T struct{ At time.Time }\n```\n" +
		"```go\npackage whole_test\n\nfunc TestIt() {}\n```\n"
	assert.Equal(t, map[string]string{
		"block1/block1.go": "package block\n\nimport clinicaldoc \"github.com/clinicaldoc/clinicaldoc-go\"\nimport context \"context\"\nimport fmt \"fmt\"\n" +
			"func _(ctx context.Context, client *clinicaldoc.Client, params clinicaldoc.CreateNoteParams, ids []int64) error {\n{\nfmt.Println(ids)\n}\nreturn nil\n}\n",
		"whole/block2.go":      "package whole\n",
		"block3/block3.go":     "package block\n\nimport time \"time\"\ntype T struct{ At time.Time }\n",
		"whole/block4_test.go": "package whole_test\n\nfunc TestIt() {}\n",
	}, outside.Programs(page))
	assert.NotContains(t, outside.Programs("```go\nreturn nil\n```")["block1/block1.go"], "nil\n}\nreturn", "vet would complain")
	assert.Empty(t, outside.Programs("no code"))
}
