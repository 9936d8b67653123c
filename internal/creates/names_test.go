package creates_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
)

func TestCompareNames_EqualOtherOrUnclear(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		sent, got string
		want      creates.Name
	}{
		{"Visit", "Visit", creates.NameEqual},
		{" Visit\t", "Visit", creates.NameEqual},
		{"Visit", "\u00a0Visit\n", creates.NameEqual},
		{"Größe é", "Gro\u0308ße e\u0301", creates.NameEqual},
		{"Gro\u0308ße e\u0301", "Größe é", creates.NameEqual},
		{"Йод ёлка", "И\u0306од е\u0308лка", creates.NameEqual},
		{"한글 방문", "\u1112\u1161\u11ab\u1100\u1173\u11af \u1107\u1161\u11bc\u1106\u116e\u11ab", creates.NameEqual},
		{"カルテ ガ", "カルテ カ\u3099", creates.NameEqual},
		{"Nguyễn", "Nguye\u0302\u0303n", creates.NameEqual},
		{"10 \u212b", "10 \u00c5", creates.NameEqual},
		{"नोट \u0958", "नोट \u0915\u093c", creates.NameEqual},

		// No name was sent, so the service may have chosen one.
		{"", "Note 5", creates.NameUnclear},
		{"  ", "", creates.NameUnclear},
		// The note came without a name.
		{"Visit", "", creates.NameUnclear},
		{"Visit", " ", creates.NameUnclear},

		{"Visit", "visit", creates.NameOther},
		{"Visit", "Visit (1)", creates.NameOther},
		{"Visit  3", "Visit 3", creates.NameOther},
		{"Visit of Monday morning", "Visit of Mon", creates.NameOther},
		{"Visit of Monday morning", "Visit of Mon…", creates.NameOther},
		{"A & B", "A &amp; B", creates.NameOther},
		{"Encounter 1", "Encounter 10", creates.NameOther},
		{"Encounter 10", "Encounter 1", creates.NameOther},
		{"Größe", "Gra\u0308ße", creates.NameOther},
		{"Größe", "Grüße", creates.NameOther},
		{"10 \u212b", "11 \u00c5", creates.NameOther},
		{"नोट अ", "नोट आ", creates.NameOther},
		{"한글", "한국", creates.NameOther},
		{"И\u0306од", "Иод", creates.NameOther},
		{"診察 一", "診察 二", creates.NameOther},
		{"ΟΔΟΣ", "οδος", creates.NameOther},
		{"Visit A", "Visit B", creates.NameOther},
	} {
		assert.Equal(t, tc.want, creates.CompareNames(tc.sent, tc.got), "%q %q", tc.sent, tc.got)
	}
}
