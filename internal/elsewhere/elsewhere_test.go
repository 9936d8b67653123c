package elsewhere_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/elsewhere"
)

func TestBuildTellsWhatDoesNotCompile(t *testing.T) {
	t.Parallel()
	const root = "../.."
	program := `package user; import _ "github.com/clinicaldoc/clinicaldoc-go/internal/elsewhere"`
	require.NoError(t, elsewhere.Build(t.Context(), root, t.TempDir(), map[string]string{"user.go": "package user", "deep/er.go": "package er"}))
	require.ErrorContains(t, elsewhere.Build(t.Context(), root, t.TempDir(), map[string]string{"user.go": program}), "use of internal package")
	require.ErrorContains(t, elsewhere.Build(t.Context(), t.TempDir(), t.TempDir(), nil), "go.mod")
}
