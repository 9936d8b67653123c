package outside_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/outside"
)

func TestBuild_WrongProgram_ReturnsTheCompilersText(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	program := `package user; import _ "github.com/clinicaldoc/clinicaldoc-go/internal/poll"`
	require.NoError(t, outside.Build(t.Context(), root, map[string]string{"user.go": "package user", "deep/er.go": "package er"}))
	require.ErrorContains(t, outside.Build(t.Context(), root, map[string]string{"user.go": program}), "use of internal package")
	require.ErrorContains(t, outside.Build(t.Context(), t.TempDir(), nil), "go.mod")
}

func TestTest_FailingTest_IsAnError(t *testing.T) {
	t.Parallel()
	failing := map[string]string{"user_test.go": "package user\n\nimport \"testing\"\n\nfunc TestIt(t *testing.T) { t.Fatal(\"as it must\") }\n"}
	require.NoError(t, outside.Compile(t.Context(), "../../..", failing))
	require.ErrorContains(t, outside.Test(t.Context(), "../../..", failing), "as it must")
}

// Tests are compiled too. Of mistakes that compile, go test notices some.
func TestCompile_Tests_AreCompiledToo(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	const opening = "package user\n\nimport \"testing\"\n\n"
	unknown := map[string]string{"user_test.go": opening + "func TestIt(t *testing.T) { unknown() }\n"}
	require.ErrorContains(t, outside.Compile(t.Context(), root, unknown), "undefined: unknown")
	misprint := map[string]string{"user_test.go": opening + "func TestIt(t *testing.T) { t.Logf(\"%d\", \"text\") }\n"}
	require.NoError(t, outside.Compile(t.Context(), root, misprint))
	require.ErrorContains(t, outside.Test(t.Context(), root, misprint), "wrong type")
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
