package tolerant_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/tolerant"
)

func TestKeepMembers_HasTheFormOfMarshal(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]string{
		`{}`:                               ``,
		`{"known":1}`:                      ``,
		`{"a":[1,{}]}`:                     `{"a":[1,{}]}`,
		`{"a":1,"known":{"x":0},"b":null}`: `{"a":1,"b":null}`,
		"{ \"a\" :\n[ 1 ] , \"b\":\"<\"}":  `{"a":[1],"b":"\u003c"}`,
		`{"\u0061":"\/"}`:                  `{"\u0061":"\/"}`,
		"{\"a\":\"\u2028\"}":               `{"a":"\u2028"}`,
		`{"a":0,"b":1,"c":2,"d":3,"e":4,"f":5,"g":6,"h":7,"i":8}`: `{"a":0,"b":1,"c":2,"d":3,"e":4,"f":5,"g":6,"h":7,"i":8}`,
	} {
		d := jsonscan.New([]byte(document))
		var members []byte
		for key := range d.Fields() {
			if string(key) != "known" {
				members = append(append(members, ','), d.RawMember()...)
			}
		}
		var object string
		tolerant.KeepMembers(d, &object, members)
		require.NoError(t, d.End())
		assert.Equal(t, want, object, document)
	}
}

func TestMarshal_JoinsObjects(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		value  any
		others string
		want   string
	}{
		{struct{}{}, ``, `{}`},
		{struct{}{}, `{}`, `{}`},
		{struct{}{}, `{"a":1}`, `{"a":1}`},
		{struct{ B string }{"<"}, ``, `{"B":"<"}`},
		{struct{ B string }{"<"}, `{}`, `{"B":"<"}`},
		{struct{ B string }{"<"}, `{"a":1}`, `{"B":"<","a":1}`},
	} {
		got, err := tolerant.Marshal(test.value, test.others)
		require.NoError(t, err)
		assert.Equal(t, test.want, string(got))
	}
	_, err := tolerant.Marshal(func() {}, "")
	require.Error(t, err)
}
