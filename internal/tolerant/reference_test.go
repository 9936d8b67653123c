package tolerant_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/tolerant"
)

// The record that a value names: its id, or one of these.
const (
	nothing   = 0
	cannotSay = -1 // a record is named, but not so that its id is known
)

func said(r tolerant.Reference) int64 {
	if id, ok := r.ID(); ok {
		return id
	}
	if r.IsZero() {
		return nothing
	}
	return cannotSay
}

func TestReferenceOf_EveryForm_NamesItsRecord(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]int64{
		``: nothing, `null`: nothing, `0`: nothing, `""`: nothing, `" "`: nothing, `false`: nothing, `[]`: nothing,
		`{}`: nothing, `[[],{}]`: nothing,
		`{"name":"x"}`: nothing, `{"id":null}`: nothing, `{"id":[]}`: nothing, `{"data":{"name":"x"}}`: nothing,
		`7`: 7, `"7"`: 7, `" 7 "`: 7, `"007"`: 7, `[7]`: 7, `{"id":7}`: 7, `{"ref":7}`: 7, `{"data":7}`: 7,
		`[{"data":[{"ref":"7"}]},7]`: 7,
		`{"id":{"id":7}}`:            7, `{"id":"x","ref":7}`: 7, `["x",7]`: 7, `{"id":7,"data":"x"}`: 7,
		`9223372036854775807`: 9223372036854775807,
		`true`:                cannotSay, `"x"`: cannotSay, `"NaN"`: cannotSay, `"0x7"`: cannotSay, `"2024-05-01"`: cannotSay,
		`{"id":{"name":"x"}}`: cannotSay, `{"id":[{"a":null}]}`: cannotSay,
		`-7`: cannotSay, `7.5`: cannotSay, `7.0`: cannotSay, `"+7"`: cannotSay, `"7e0"`: cannotSay, `1e300`: cannotSay,
		`"1e999"`: cannotSay, `9223372036854775808`: cannotSay, `[7,8]`: cannotSay, `{"id":7,"ref":8}`: cannotSay,
		`{"id":7,"data":{"id":8}}`: cannotSay, `[7,-7]`: cannotSay, `[7,8,7]`: cannotSay, `no JSON`: cannotSay,
		`{"id":7`: cannotSay,
	} {
		assert.Equal(t, want, said(tolerant.ReferenceOf(raw, "ref")), raw)
	}
	deep := strings.Repeat(`{"id":`, 900) + "7" + strings.Repeat("}", 900)
	assert.EqualValues(t, 7, said(tolerant.ReferenceOf(deep, "ref")))
}

func TestReferenceBy_Member_NamesItsRecord(t *testing.T) {
	t.Parallel()
	for object, want := range map[string]int64{
		``: nothing, `{}`: nothing, `{"id":7}`: nothing, `{"ref":null}`: nothing, `{"a":{"ref":8},"ref":7}`: 7,
		`{"ref":7,"ref":"7"}`: 7, `{"ref":{"id":7}}`: 7,
		`{"ref":7,"ref":8}`: cannotSay, `{"ref":"x"}`: cannotSay, `{"ref":{"a":1}}`: cannotSay, `[7]`: cannotSay,
		`{"ref":7`: cannotSay,
	} {
		assert.Equal(t, want, said(tolerant.ReferenceBy("ref", object)), object)
	}
}

// Two values refer to the same record, in either order. A text may be another sort of id, so it does not contradict a
// number. Another number does, and so does one that no id can be.
func TestReferenceAnd_TwoValues_OnlyNumbersContradict(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		one, other string
		want       int64
	}{
		"nothing and nothing":      {``, ``, nothing},
		"nothing and an id":        {``, `7`, 7},
		"the same id twice":        {`7`, `"7"`, 7},
		"a text and an id":         {`"x"`, `7`, 7},
		"a text and nothing":       {`"x"`, ``, cannotSay},
		"two texts":                {`"x"`, `"y"`, cannotSay},
		"two ids":                  {`7`, `8`, cannotSay},
		"an impossible id alone":   {`-1`, ``, cannotSay},
		"an impossible id, an id":  {`-1`, `7`, cannotSay},
		"an impossible id, a text": {`-1`, `"x"`, cannotSay},
		"a fraction and an id":     {`7.5`, `7`, cannotSay},
		"too large, and an id":     {`1e999`, `7`, cannotSay},
		"not a number, and an id":  {`"NaN"`, `7`, 7},
	} {
		one, other := tolerant.ReferenceOf(test.one, ""), tolerant.ReferenceOf(test.other, "")
		assert.Equal(t, test.want, said(one.And(other)), name)
		assert.Equal(t, test.want, said(other.And(one)), "%s, the other way round", name)
	}
}

func TestTextOf_Member_IsReturnedAsText(t *testing.T) {
	t.Parallel()
	for object, want := range map[string]string{
		``:                                   ``,
		`{}`:                                 ``,
		`{"other":{"patient_id":7}}`:         ``,
		`{"patient_id":"synthetic-a","b":1}`: `"synthetic-a"`,
		`{"b":1,"patient_id": {"a": 1} }`:    `{"a": 1}`,
		`{"patient_id":7,"patient_id":"x"}`:  `7 "x"`,
	} {
		assert.Equal(t, want, tolerant.TextOf("patient_id", object), object)
	}
}
