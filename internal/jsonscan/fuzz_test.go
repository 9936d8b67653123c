package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
)

// FuzzAgainstEncodingJSON wants the documents encoding/json accepts accepted,
// with the same values, and all others refused.
func FuzzAgainstEncodingJSON(f *testing.F) {
	for _, seed := range []string{
		"", " null ", "true", "false", "-0.5e-10", "01", "1 2", `"a\/b\u00e9\n\ud83d\ude00"`, `"\ud83d\ud83d\ude00\ude00"`,
		`"\ud83d\ude.."`, `"\ud83d\ude0"`, `"\ud83d\u\""`, `["\ud83d\ude0",1]`,
		"\"raw é 漢 \xff\xc3\xed\xa0\x80 tail of the text\"", "\"\xe2\x82\\n\"", "\"tab\tinside\"", `"\q"`, `"\u12"`,
		`"unterminated`,
		"[]", "[1,2,[3,[]],]", `[1, "two", null, {"three": [3]}]`, "{}", `{"a":1,"a":{"b":2},"a":{"c":3}}`,
		`{"\u0061":1,"a\n":2}`,
		"{\"\xff\":1,\"\xfe\":2}", `{"a" : [ true , false ] , "b" : "" }`, `{"a":1,}`, `{"a"}`, "\ufeff[]", "[1]\x00",
		`{"data":[{"id":"note-1","text":"Synthetic text with \"quotes\" and caf\u00e9, long enough for words.","n":1.5e3}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		if bytes.Count(document, []byte("["))+bytes.Count(document, []byte("{")) > 1000 {
			t.Skip("may exceed the depth limit, which encoding/json does not share")
		}
		valid := json.Valid(document)
		for name, read := range readers {
			d := jsonscan.New(document)
			read(d)
			require.Equal(t, valid, d.End() == nil, "%s accepts or refuses unlike json.Valid", name)
		}
		if !valid {
			return
		}

		var want any
		reference := json.NewDecoder(bytes.NewReader(document))
		reference.UseNumber()
		require.NoError(t, reference.Decode(&want))
		require.Equal(t, want, readTree(jsonscan.New(document)))
		if text, ok := want.(string); ok {
			var kept string
			d := jsonscan.New(document)
			d.Intern(&kept, d.TextBytes())
			require.NoError(t, d.End())
			require.Equal(t, text, kept)
		}
		require.Equal(t, string(bytes.Trim(document, " \t\r\n")), string(jsonscan.New(document).Raw()))
	})
}
