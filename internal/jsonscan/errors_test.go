package jsonscan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
)

// readNumbers wants each value that is not a container to be a number.
func readNumbers(d *jsonscan.Decoder) {
	switch d.Kind() {
	case jsonscan.Array:
		for range d.Elements() {
			readNumbers(d)
		}
	case jsonscan.Object:
		for range d.Fields() {
			readNumbers(d)
		}
	case jsonscan.Number:
		d.Skip()
	default:
		d.FailExpecting("number")
	}
}

func TestFail_Path_NamesNoData(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 40)
	for _, test := range []struct {
		name, document, path string
		got                  jsonscan.Kind
	}{
		{"root", ` "secret"`, "", jsonscan.String},
		{"nested", `{"data":[1,{},2,{"audio":{"name":1,"size":"secret"}}]}`, "data[3].audio.size", jsonscan.String},
		{"second list", `[[0],[1,[2,true]]]`, "[1][1][1]", jsonscan.Bool},
		{"after a skipped container", `{"a":{"b":{}},"c_d-e.F9":null}`, "c_d-e.F9", jsonscan.Null},
		{"longest key", `{"` + long + `":null}`, long, jsonscan.Null},
		{"too long a key", `{"` + long + `k":{"x":null}}`, "?.x", jsonscan.Null},
		{"empty key", `{"":null}`, "?", jsonscan.Null},
		{"key with a space", `{"secret person":null}`, "?", jsonscan.Null},
		{"key with an escape", `{"secret\u0041":null}`, "?", jsonscan.Null},
		{"key beyond ASCII", `{"sécret":[null]}`, "?[0]", jsonscan.Null},
		{
			"as deep as is shown", strings.Repeat("[", 8) + "null" + strings.Repeat("]", 8), strings.Repeat("[0]", 8),
			jsonscan.Null,
		},
		{"deep", strings.Repeat("[", 33) + "null" + strings.Repeat("]", 33), strings.Repeat("[0]", 8) + "...", jsonscan.Null},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := jsonscan.New([]byte(test.document))
			readNumbers(d)
			want := strings.TrimPrefix(test.path+": want number, got "+test.got.String(), ": ")
			require.EqualError(t, d.Err(), want)
			require.EqualError(t, d.End(), want)
			assert.NotContains(t, d.Err().Error(), "secret")
		})
	}
}

func TestDecoder_OtherKind_NamesTheWantedOne(t *testing.T) {
	t.Parallel()
	for want, read := range map[string]func(*jsonscan.Decoder){
		"string":  func(d *jsonscan.Decoder) { assert.Empty(t, d.Text()) },
		"boolean": func(d *jsonscan.Decoder) { assert.False(t, d.Bool()) },
		"array": func(d *jsonscan.Decoder) {
			for range d.Elements() {
				assert.Fail(t, "not an array")
			}
		},
		"object": func(d *jsonscan.Decoder) {
			for range d.Fields() {
				assert.Fail(t, "not an object")
			}
		},
	} {
		d := jsonscan.New([]byte(`[null]`))
		for range d.Elements() {
			read(d)
		}
		require.EqualError(t, d.End(), "[0]: want "+want+", got null")
	}
}

func TestFail_CurrentValue_IsNamed(t *testing.T) {
	t.Parallel()
	const document = `{"seen":{"at":"secret"},"by":[1]}`
	for name, test := range map[string]struct {
		read func(d *jsonscan.Decoder)
		want string
	}{
		"before reading": {func(d *jsonscan.Decoder) {
			for range d.Fields() {
				d.FailExpecting("a date-time")
			}
		}, "seen: want a date-time, got object"},
		"after reading": {func(d *jsonscan.Decoder) {
			for range d.Fields() {
				for range d.Fields() {
					_ = d.Text()
					d.FailExpecting("a date-time")
				}
			}
		}, "seen.at: want a date-time, got string"},
		"after a loop": {func(d *jsonscan.Decoder) {
			for range d.Fields() {
				for range d.Fields() {
					d.Skip()
				}
				d.FailExpecting("a date-time")
			}
		}, "seen: want a date-time, got object"},
		"after a loop left early": {func(d *jsonscan.Decoder) {
			for key := range d.Fields() {
				if string(key) == "by" {
					d.FailExpecting("a person")
				}
				for range d.Fields() {
					break
				}
			}
		}, "by: want a person, got array"},
		"at the root": {func(d *jsonscan.Decoder) {
			d.Skip()
			d.FailExpecting("a list")
		}, "want a list, got object"},
		"only the first counts": {func(d *jsonscan.Decoder) {
			d.FailExpecting("a list")
			d.FailExpecting("a date-time")
			_ = d.Text()
		}, "want a list, got object"},
	} {
		d := jsonscan.New([]byte(document))
		test.read(d)
		require.EqualError(t, d.Err(), test.want, name)
		require.EqualError(t, d.End(), test.want, name)
	}

	d := jsonscan.New([]byte("secret"))
	d.FailExpecting("a list")
	require.EqualError(t, d.Err(), "invalid JSON at byte 0: unexpected character or end")
}

func TestDecoder_FirstError_IsKept(t *testing.T) {
	t.Parallel()
	d := jsonscan.New([]byte(`[{"a":"secret"},1,"b",[2],{"c":3},null,true]`))
	var rounds int
	for range d.Elements() {
		rounds++
		d.FailExpecting("nothing")
		first := d.Err()
		assert.Equal(t, jsonscan.Invalid, d.Kind())
		assert.Empty(t, d.Text())
		assert.Nil(t, d.TextBytes())
		assert.Nil(t, d.Raw())
		assert.False(t, d.Bool())
		assert.False(t, d.Null())
		d.Skip()
		for range d.Fields() {
			rounds++
		}
		for range d.Elements() {
			rounds++
		}
		assert.Equal(t, first, d.Err())
		assert.Equal(t, first, d.End())
	}
	assert.Equal(t, 1, rounds)
	require.EqualError(t, d.End(), "[0]: want nothing, got object")

	d = jsonscan.New([]byte(`[1,2]`))
	for index := range d.Elements() {
		assert.Equal(t, 0, index)
		d.Skip()
		d.FailExpecting("nothing")
	}
	require.EqualError(t, d.End(), "[0]: want nothing, got number")
}

func TestDecoder_TruncatedAtEveryByte_IsAnError(t *testing.T) {
	t.Parallel()
	document := []byte(`{"secret":["secret \ud83d\ude00 \n\/ é",-1.5e+3,true,false,null,{"a":{}}],"b" : [ [] , 0 ]}`)
	for name, read := range readers {
		d := jsonscan.New(document)
		read(d)
		require.NoError(t, d.End(), name)
		for end := range document {
			// With spare capacity a read past the end succeeds, without it panics.
			for _, truncated := range [][]byte{document[:end], document[:end:end]} {
				d := jsonscan.New(truncated)
				read(d)
				d.FailExpecting("more") // as who misses an id that was cut off
				err := d.End()
				require.Error(t, err, "%s of %d bytes", name, end)
				assert.NotContains(t, err.Error(), "secret")
			}
		}
	}
	for _, document := range []string{`"\u0041`, `"\n`} {
		d := jsonscan.New([]byte(document))
		d.Skip()
		want := fmt.Sprintf("invalid JSON at byte %d: unexpected character or end", len(document))
		require.EqualError(t, d.End(), want, "the escape is complete")
	}
	for _, literal := range []string{"null", "true", "false"} {
		d := jsonscan.New([]byte(literal)[:len(literal)-1])
		d.Skip()
		require.Error(t, d.End(), literal)
	}
}

func TestWarn_Value_IsPassedOver(t *testing.T) {
	t.Parallel()
	d := jsonscan.New([]byte(`{"a":"secret","b":[1,"secret",{"c":null}],"d":4}`))
	var last []byte
	for key := range d.Fields() {
		switch string(key) {
		case "a":
			_ = d.TextBytes()
			d.Warn("a date") // consumed already
		case "b":
			for range d.Elements() {
				if d.Kind() != jsonscan.Number {
					d.Warn("number")
				}
			}
			d.Warn("a short list")
		default:
			last = d.Raw()
		}
	}
	warnings := d.Warnings
	require.NoError(t, d.End())
	assert.Equal(t, "4", string(last), "what follows is read")
	assert.Equal(t, []string{
		"a: want a date, got string", "b[1]: want number, got string", "b[2]: want number, got object",
		"b: want a short list, got array",
	}, warnings)
}

func TestWarn_ManyOrInvalid_IsBounded(t *testing.T) {
	t.Parallel()
	read := func(document string) *jsonscan.Decoder {
		d := jsonscan.New([]byte(document))
		for range d.Elements() {
			d.Warn("nothing")
		}
		return d
	}
	d := read("[" + strings.Repeat("0,", 1000) + "0]")
	require.NoError(t, d.End())
	assert.Len(t, d.Warnings, 10)
	require.Error(t, read(`[0,{"a":}]`).End())
	require.Error(t, read(`[0,`).End())
	d = jsonscan.New(nil)
	d.Warn("anything")
	assert.Empty(t, d.Warnings)
	require.Error(t, d.End())
	d = jsonscan.New([]byte("[1]"))
	d.FailExpecting("first")
	d.Warn("second")
	assert.Empty(t, d.Warnings)
	require.ErrorContains(t, d.End(), "first")
}

func TestStop_LeavesTheRestUnread(t *testing.T) {
	t.Parallel()
	d := jsonscan.New([]byte(`{"a":[1,2,not even JSON`))
	seen := 0
	for range d.Fields() {
		for range d.Elements() {
			seen++
			d.Stop()
		}
	}
	assert.Equal(t, 1, seen)
	require.EqualError(t, d.End(), "reading was stopped")
	d = jsonscan.New([]byte("x"))
	d.Skip()
	d.Stop()
	require.ErrorContains(t, d.End(), "invalid JSON", "the first error is kept")
}
