package verdict_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/verdict"
)

func TestCompareNames(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		sent, got string
		want      verdict.Name
	}{
		{"Visit", "Visit", verdict.NameEqual},
		{" Visit\t", "Visit", verdict.NameEqual},
		{"Visit", "\u00a0Visit\n", verdict.NameEqual},
		{"", "Note 5", verdict.NameUnsent},
		{"  ", "", verdict.NameUnsent},
		{"Visit", "visit", verdict.NameSimilar},
		{"Visit of Monday morning", "Visit of Mon", verdict.NameSimilar},
		{"Visit of Monday morning", "Visit of Mon…", verdict.NameSimilar},
		{"Visit", "Visit (1)", verdict.NameSimilar},
		{"Visit  3", "Visit 3", verdict.NameSimilar},
		{"Visit", "", verdict.NameSimilar},
		{"A & B", "A &amp; B", verdict.NameSimilar},
		{"Größe é", "Gro\u0308ße e\u0301", verdict.NameSimilar},
		{"Gro\u0308ße e\u0301", "Größe é", verdict.NameSimilar},
		{"GRÖSSE 1", "gro\u0308sse 1", verdict.NameSimilar},
		{"Йод ёлка", "И\u0306од е\u0308лка", verdict.NameSimilar},
		{"한글 방문", "\u1112\u1161\u11ab\u1100\u1173\u11af \u1107\u1161\u11bc\u1106\u116e\u11ab", verdict.NameSimilar},
		{"10 \u212b", "10 \u00c5", verdict.NameSimilar},
		{"ΟΔΟΣ", "οδος", verdict.NameSimilar},
		{"Visit", "Another", verdict.NameOther},
		{"Visit A", "Visit B", verdict.NameOther},
		{"Größe", "Grüße", verdict.NameOther},
		{"診察 一", "診察 二", verdict.NameOther},
	} {
		assert.Equal(t, tc.want, verdict.CompareNames(tc.sent, tc.got), "%q %q", tc.sent, tc.got)
	}
}
