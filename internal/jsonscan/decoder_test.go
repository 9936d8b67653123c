package jsonscan_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
)

// readTree reads the next value as encoding/json reads into an any.
func readTree(d *jsonscan.Decoder) any {
	switch d.Kind() {
	case jsonscan.Bool:
		return d.Bool()
	case jsonscan.Number:
		return json.Number(d.Raw())
	case jsonscan.String:
		return d.Text()
	case jsonscan.Array:
		list := []any{}
		for range d.Elements() {
			list = append(list, readTree(d))
		}
		return list
	case jsonscan.Object:
		object := map[string]any{}
		for key := range d.Fields() {
			name := string(key)
			object[name] = readTree(d)
		}
		return object
	default:
		if !d.Null() {
			d.Skip()
		}
		return nil
	}
}

func TestDecoder_Values_AreRead(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]any{
		"null":                                 nil,
		" \t\r\ntrue \t\r\n":                   true,
		"false":                                false,
		"0":                                    json.Number("0"),
		"-0":                                   json.Number("-0"),
		"-12.50e+07":                           json.Number("-12.50e+07"),
		"1E-2":                                 json.Number("1E-2"),
		"7e3":                                  json.Number("7e3"),
		`""`:                                   "",
		`"plain"`:                              "plain",
		`"\"\\\/\b\f\n\r\t"`:                   "\"\\/\b\f\n\r\t",
		`"caf\u00e9, r\u00E9sumé"`:             "café, résumé",
		`"\u0000"`:                             "\x00",
		`"\ud83d\ude00"`:                       "😀",
		`"\ud83d"`:                             "\uFFFD",
		`"\ude00\ud83d"`:                       "\uFFFD\uFFFD",
		`"\ud83d\u0041"`:                       "\uFFFDA",
		`"\ud83d\ud83d\ude00"`:                 "\uFFFD😀",
		`"\ud83dxude00"`:                       "\uFFFDxude00",
		`"\ud83d\n"`:                           "\uFFFD\n",
		"\"a\xffb\"":                           "a\uFFFDb",
		"\"\xe2\x82\"":                         "\uFFFD\uFFFD",
		"\"\\n\xc3\\n\xed\xa0\x80\"":           "\n\uFFFD\n\uFFFD\uFFFD\uFFFD",
		"\"\x7f\"":                             "\x7f",
		"[]":                                   []any{},
		" [ ] ":                                []any{},
		"[1,[2],{}]":                           []any{json.Number("1"), []any{json.Number("2")}, map[string]any{}},
		"{}":                                   map[string]any{},
		` { "a" : 1 , "b\u0041" : [ null ] } `: map[string]any{"a": json.Number("1"), "bA": []any{nil}},
		"{\"\xff\":1}":                         map[string]any{"\uFFFD": json.Number("1")},
		`{"a":1,"a":2}`:                        map[string]any{"a": json.Number("2")},
	} {
		t.Run(strconv.Quote(document), func(t *testing.T) {
			t.Parallel()
			d := jsonscan.New([]byte(document))
			assert.Equal(t, want, readTree(d))
			require.NoError(t, d.End())
		})
	}
}

// Strings are scanned eight bytes at a time, so each special byte is tested at each offset in such a block and after
// it. The white space after the document makes the block complete in which the string ends.
func TestText_SpecialByteAtEveryAlignment_IsFound(t *testing.T) {
	t.Parallel()
	for special, want := range map[string]string{
		`\n`: "\n", `\u00e9`: "é", "é": "é", "\xff": "\uFFFD", "!": "!", "#": "#", " ": " ", "]": "]", "[": "[",
		"\x7f": "\x7f",
	} {
		for before := range 20 {
			for after := range 20 {
				head, tail := strings.Repeat("a", before), strings.Repeat("z", after)
				for _, space := range []string{"", "        "} {
					d := jsonscan.New([]byte(`"` + head + special + tail + `"` + space))
					require.Equal(t, head+want+tail, d.Text())
					require.NoError(t, d.End())
				}
			}
		}
	}
	for control := range byte(0x20) {
		for before := range 20 {
			document := `"` + strings.Repeat("a", before) + string(rune(control)) + strings.Repeat("z", 20) + `"`
			d := jsonscan.New([]byte(document))
			require.Empty(t, d.Text())
			require.ErrorContains(t, d.End(), fmt.Sprintf("invalid JSON at byte %d:", before+1))
		}
	}
}

func TestDecoder_InvalidDocuments_AreRejected(t *testing.T) {
	t.Parallel()
	for _, document := range []string{
		"", " ", "nul", "nulL", "True", "truefalse", "fals", "x", "\x00", "\ufeff1", "\v1",
		"+1", "-", "--1", "01", "-01", "1.", ".5", "1.e2", "1e", "1e+", "1e1.5", "0x1", "1_0", "NaN", "1 2",
		`"`, `"a`, `"\"`, `"\`, `"\x"`, `"\'"`, `"\u"`, `"\u12"`, `"\u123g"`, `"\u+123"`, `"\ud83d\u"`, `"\U0041"`,
		`"\ud83d\ude"`, `"\ud83d\ude."`, `"\ud83d\ude.."`, `"\ud83d\ude0"`, `"\ud83d\ude0","`,
		"\"a\nb\"", "\"\x00\"", "'a'", `"a""b"`,
		"[", "]", "[1", "[1,", "[1,]", "[,1]", "[,]", "[1 2]", "[1,,2]", "[1}", "[1]]", `["a""b"]`,
		"{", "}", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{"a"}`, `{"a":}`, `{"a" 1}`, `{"a"11}`, `{"a",1}`,
		`{a:1}`, `{1:1}`,
		`{"a":1 "b":2}`, `{"a":1]`, `{"a"::1}`, `{"a\q":1}`, `{null:1}`, `{"a":1}{}`, `// no`, `[1/**/]`,
	} {
		t.Run(strconv.Quote(document), func(t *testing.T) {
			t.Parallel()
			require.False(t, json.Valid([]byte(document)))
			for name, read := range readers {
				d := jsonscan.New([]byte(document))
				read(d)
				require.ErrorContains(t, d.End(), "invalid JSON at byte ", name)
			}
		})
	}
}

// readers consume a whole document in all the ways there are.
var readers = map[string]func(*jsonscan.Decoder){
	"tree": func(d *jsonscan.Decoder) { readTree(d) },
	"skip": (*jsonscan.Decoder).Skip,
	"raw":  func(d *jsonscan.Decoder) { d.Raw() },
	"loop": func(d *jsonscan.Decoder) { leaveLoops(d, false) },
	"break": func(d *jsonscan.Decoder) {
		leaveLoops(d, true)
	},
}

// leaveLoops enters the document's container and leaves its members unread.
func leaveLoops(d *jsonscan.Decoder, early bool) {
	switch d.Kind() {
	case jsonscan.Array:
		for range d.Elements() {
			if early {
				break
			}
		}
	case jsonscan.Object:
		for range d.Fields() {
			if early {
				break
			}
		}
	default:
		d.Skip()
	}
}

func TestKind_FirstByte_Decides(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]string{
		"null": "null", "true": "boolean", "false": "boolean", "-1": "number", "0": "number", "9": "number",
		`""`: "string", "[]": "array", "{}": "object", "": "invalid", "?": "invalid",
	} {
		d := jsonscan.New([]byte(document))
		assert.Equal(t, want, d.Kind().String(), document)
		assert.Equal(t, want, d.Kind().String(), "asking consumes nothing: %s", document)
		require.NoError(t, d.Err(), document)
	}
}

func TestFields_UnreadValues_AreSkipped(t *testing.T) {
	t.Parallel()
	d := jsonscan.New([]byte(`{"a":{"b":[1,{"c":"]}"}]},"list":[[1],"x",{"y":2},3],"a":"last"}`))
	var keys []string
	var indexes []int
	for key := range d.Fields() {
		keys = append(keys, string(key))
		if string(key) == "list" {
			for index := range d.Elements() {
				indexes = append(indexes, index)
			}
		}
	}
	require.NoError(t, d.End())
	assert.Equal(t, []string{"a", "list", "a"}, keys)
	assert.Equal(t, []int{0, 1, 2, 3}, indexes)
}

func TestFields_MissingValue_IsNotYielded(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]int{"[1,]": 1, "[?]": 0, `{"a":}`: 0, `{"a":1,"b":`: 1} {
		d := jsonscan.New([]byte(document))
		var rounds int
		if d.Kind() == jsonscan.Array {
			for range d.Elements() {
				rounds++
			}
		} else {
			for range d.Fields() {
				rounds++
			}
		}
		assert.Equal(t, want, rounds, document)
		require.Error(t, d.End(), document)
	}
}

func TestFields_LeftEarly_SkipsTheRest(t *testing.T) {
	t.Parallel()
	d := jsonscan.New([]byte(`[{"a":[1,2,{"b":3}],"c":4},"next"]`))
	var texts []string
outer:
	for index := range d.Elements() {
		if index == 1 {
			texts = append(texts, d.Text())
			continue
		}
		for range d.Fields() {
			for index := range d.Elements() {
				assert.Equal(t, 0, index)
				assert.Equal(t, "1", string(d.Raw()))
				continue outer
			}
		}
	}
	require.NoError(t, d.End())
	assert.Equal(t, []string{"next"}, texts)
}

func TestNull_ConsumesOnlyNull(t *testing.T) {
	t.Parallel()
	d := jsonscan.New([]byte(`[null,1]`))
	var nulls []bool
	for range d.Elements() {
		nulls = append(nulls, d.Null())
	}
	require.NoError(t, d.End())
	assert.Equal(t, []bool{true, false}, nulls)
}

func TestRaw_ReturnsTheLiteral(t *testing.T) {
	t.Parallel()
	d := jsonscan.New([]byte(` { "a" : [ 1 , "\n" ] , "b" : -1.5 , "c" : "x\/y" } `))
	raw := map[string]string{}
	for key := range d.Fields() {
		raw[string(key)] = string(d.Raw())
	}
	require.NoError(t, d.End())
	assert.Equal(t, map[string]string{"a": `[ 1 , "\n" ]`, "b": "-1.5", "c": `"x\/y"`}, raw)
}

// An append to a view must not write into the document.
func TestRaw_View_HasNoSpareCapacity(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(*jsonscan.Decoder) []byte{
		`["text"]`: (*jsonscan.Decoder).TextBytes,
		`[12]`:     (*jsonscan.Decoder).Raw,
		`[[]]`:     (*jsonscan.Decoder).Raw,
	} {
		d := jsonscan.New([]byte(name))
		for range d.Elements() {
			view := read(d)
			assert.Equal(t, len(view), cap(view), name)
		}
		require.NoError(t, d.End())
	}
}

// A loop body that reads two values must not swallow the next member.
func TestDecoder_ValueReadTwice_IsAnError(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(*jsonscan.Decoder){
		"Text":     func(d *jsonscan.Decoder) { d.Text() },
		"Skip":     (*jsonscan.Decoder).Skip,
		"Fields":   func(d *jsonscan.Decoder) { leaveLoops(d, false) },
		"Elements": func(d *jsonscan.Decoder) { readTree(d) },
	} {
		d := jsonscan.New([]byte(`["a""b"]`))
		for range d.Elements() {
			assert.Equal(t, "a", d.Text())
			assert.Equal(t, jsonscan.Invalid, d.Kind())
			assert.False(t, d.Null())
			again(d)
		}
		require.Error(t, d.Err(), name)
	}
	d := jsonscan.New([]byte(`1`))
	d.Skip()
	d.Skip()
	require.Error(t, d.End())
}

func TestEnd_UnreadValue_IsAnError(t *testing.T) {
	t.Parallel()
	require.Error(t, jsonscan.New([]byte(` 1`)).End())
	require.Error(t, jsonscan.New(nil).End())
}

func TestDecoder_TooDeep_IsAnError(t *testing.T) {
	t.Parallel()
	nested := func(depth int, opener, closer string) []byte {
		return []byte(strings.Repeat(opener, depth) + "1" + strings.Repeat(closer, depth))
	}
	for _, pair := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
		for name, read := range readers {
			d := jsonscan.New(nested(1000, pair[0], pair[1]))
			read(d)
			require.NoError(t, d.End(), name)

			d = jsonscan.New(nested(1001, pair[0], pair[1]))
			read(d)
			require.EqualError(t, d.End(), fmt.Sprintf("invalid JSON at byte %d: nested too deeply", 1000*len(pair[0])), name)
		}
	}
	// Depth counts open levels, not containers seen.
	d := jsonscan.New([]byte("[" + strings.Repeat("[],{},", 2000) + "[]]"))
	d.Skip()
	require.NoError(t, d.End())
	// No stack overflows, however deep the document claims to be.
	d = jsonscan.New([]byte(strings.Repeat(`[{"a":`, 1<<20)))
	d.Skip()
	require.Error(t, d.End())
}

func TestRawMember_IncludesTheKey(t *testing.T) {
	t.Parallel()
	d := jsonscan.New([]byte(`{ "a" : [1, {"x":2}] , "b":{"c": "d" ,"e":null},"f":3}`))
	var got []string
	for key := range d.Fields() {
		if string(key) != "b" {
			got = append(got, string(d.RawMember()))
			continue
		}
		for range d.Fields() {
			got = append(got, string(d.RawMember()))
		}
	}
	require.NoError(t, d.End())
	assert.Equal(t, []string{`"a" : [1, {"x":2}]`, `"c": "d"`, `"e":null`, `"f":3`}, got)
	d = jsonscan.New([]byte(`{"a":[1,}`))
	for range d.Fields() {
		assert.Empty(t, d.RawMember())
	}
	require.Error(t, d.End())
}
