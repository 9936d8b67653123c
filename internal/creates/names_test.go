package creates_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
)

func TestCompareNames(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		sent, got string
		want      creates.Name
	}{
		{"Visit", "Visit", creates.NameEqual},
		{" Visit\t", "Visit", creates.NameEqual},
		{"Visit", "\u00a0Visit\n", creates.NameEqual},
		{"", "Note 5", creates.NameUnsent},
		{"  ", "", creates.NameUnsent},
		{"Visit", "visit", creates.NameSimilar},
		{"Visit of Monday morning", "Visit of Mon", creates.NameSimilar},
		{"Visit of Monday morning", "Visit of Mon…", creates.NameSimilar},
		{"Visit", "Visit (1)", creates.NameSimilar},
		{"Visit  3", "Visit 3", creates.NameSimilar},
		{"Visit", "", creates.NameSimilar},
		{"A & B", "A &amp; B", creates.NameSimilar},
		{"Größe é", "Gro\u0308ße e\u0301", creates.NameEqual},
		{"Gro\u0308ße e\u0301", "Größe é", creates.NameEqual},
		{"Größe", "Gra\u0308ße", creates.NameOther},
		{"Encounter 1", "Encounter 10", creates.NameSimilar},
		{"Encounter 10", "Encounter 1", creates.NameSimilar},
		{"Encounter of Monday 10", "Encounter of Mond", creates.NameCut},
		{"Encounter of Monday 10", "Encounter of Monday…", creates.NameCut},
		{"GRÖSSE 1", "gro\u0308sse 1", creates.NameSimilar},
		{"Йод ёлка", "И\u0306од е\u0308лка", creates.NameCut},
		{"한글 방문", "\u1112\u1161\u11ab\u1100\u1173\u11af \u1107\u1161\u11bc\u1106\u116e\u11ab", creates.NameCut},
		{"10 \u212b", "10 \u00c5", creates.NameCut},
		{"ΟΔΟΣ", "οδος", creates.NameSimilar},
		{"Visit", "Another", creates.NameOther},
		{"Visit A", "Visit B", creates.NameOther},
		{"Größe", "Grüße", creates.NameOther},
		{"診察 一", "診察 二", creates.NameOther},
	} {
		assert.Equal(t, tc.want, creates.CompareNames(tc.sent, tc.got, 0), "%q %q", tc.sent, tc.got)
	}
}
