package tolerant_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/tolerant"
)

// unreadable is what a value reads as that is read as zero and kept in mind.
const unreadable = "unreadable"

func read[T any](t *testing.T, document string, reader func(*jsonscan.Decoder) T) string {
	t.Helper()
	d := jsonscan.New([]byte("[" + document + "]"))
	var value T
	for range d.Elements() {
		value = reader(d)
	}
	warnings := d.Warnings
	require.NoError(t, d.End(), document)
	if len(warnings) > 0 {
		assert.Zero(t, value, document)
		return unreadable
	}
	return fmt.Sprint(value)
}

// scalars are documents, and what each one is as a whole number, as seconds and as a flag.
func scalars() map[string][3]string {
	return map[string][3]string{
		`null`:                {"0", "0", "false"},
		`""`:                  {"0", "0", "false"},
		`" "`:                 {"0", "0", "false"},
		`0`:                   {"0", "0", "false"},
		`"0"`:                 {"0", "0", "false"},
		`1`:                   {"1", "1", "true"},
		`"1 "`:                {"1", "1", "true"},
		`7`:                   {"7", "7", unreadable},
		`" 7"`:                {"7", "7", unreadable},
		`7.0`:                 {"7", "7", unreadable},
		`7e1`:                 {"70", "70", unreadable},
		`-7`:                  {"-7", "-7", unreadable},
		`7.5`:                 {unreadable, "7.5", unreadable},
		`9223372036854775807`: {"9223372036854775807", "9.223372036854776e+18", unreadable},
		`9223372036854775808`: {unreadable, "9.223372036854776e+18", unreadable},
		`1e300`:               {unreadable, "1e+300", unreadable},
		`1e999`:               {unreadable, unreadable, unreadable},
		`"NaN"`:               {unreadable, unreadable, unreadable},
		`"-Inf"`:              {unreadable, unreadable, unreadable},
		`"secret"`:            {unreadable, unreadable, unreadable},
		`"00:03:10"`:          {unreadable, "190", unreadable},
		`"10:00:00.5"`:        {unreadable, "36000.5", unreadable},
		`"9999:59:59"`:        {unreadable, "3.5999999e+07", unreadable},
		`"10000:00:00"`:       {unreadable, unreadable, unreadable},
		`"03:10"`:             {unreadable, unreadable, unreadable},
		`"00:03:10:00"`:       {unreadable, unreadable, unreadable},
		`"::"`:                {unreadable, unreadable, unreadable},
		`"00:3:10"`:           {unreadable, unreadable, unreadable},
		`"00:03:1"`:           {unreadable, unreadable, unreadable},
		`"-1:00:00"`:          {unreadable, unreadable, unreadable},
		`"00:03:10.x"`:        {unreadable, unreadable, unreadable},
		`"00:60:10"`:          {unreadable, unreadable, unreadable},
		`"00:03:60"`:          {unreadable, unreadable, unreadable},
		`true`:                {unreadable, unreadable, "true"},
		`false`:               {unreadable, unreadable, "false"},
		`"true"`:              {unreadable, unreadable, "true"},
		`"false"`:             {unreadable, unreadable, "false"},
		`[]`:                  {unreadable, unreadable, unreadable},
		`{"a":1}`:             {unreadable, unreadable, unreadable},
	}
}

func TestScalars_EveryForm_IsRead(t *testing.T) {
	t.Parallel()
	for document, want := range scalars() {
		got := [3]string{
			read(t, document, tolerant.Integer), read(t, document, tolerant.Seconds), read(t, document, tolerant.Bool),
		}
		assert.Equal(t, want, got, document)
	}
}

// IntegerIn reports 0 and false for a value that cannot be read, without a warning.
func TestIntegerIn_EveryForm_AgreesWithInteger(t *testing.T) {
	t.Parallel()
	for document, columns := range scalars() {
		asInteger := columns[0]
		want, isNumber := asInteger, asInteger != unreadable // unreadable: a value of another form, which is reported
		if !isNumber {
			want = "0"
		}
		var ok bool
		value := read(t, document, func(d *jsonscan.Decoder) (value int64) {
			value, ok = tolerant.IntegerIn(d)
			return value
		})
		assert.Equal(t, want, value, document)
		assert.Equal(t, isNumber, ok, document)
	}
}

func TestID_OtherValues_ReadAsZero(t *testing.T) {
	t.Parallel()
	for _, document := range []string{
		`9223372036854775808`, `"9223372036854775808"`, `-7`, `7.0`, `7e1`, `"7e1"`, `"1_000"`, `"0x7"`, `"secret"`,
		`[7]`,
	} {
		assert.Equal(t, unreadable, read(t, document, tolerant.ID), document)
	}
	assert.Equal(t, "9223372036854775807", read(t, `9223372036854775807`, tolerant.ID))
}

func TestRequired_OtherValues_FailTheDocument(t *testing.T) {
	t.Parallel()
	for _, document := range []string{`["secret"]`, `[true]`, `[{}]`, `["0000-00-00secret"]`} {
		for want, reader := range map[string]func(*jsonscan.Decoder){
			"a whole number": func(d *jsonscan.Decoder) { tolerant.RequiredID(d) },
			"a date-time":    func(d *jsonscan.Decoder) { tolerant.RequiredTime(d) },
			"string": func(d *jsonscan.Decoder) {
				if d.Kind() == jsonscan.String {
					d.FailExpecting("string") // any text is one
				}
				tolerant.RequiredText(d, new(string))
			},
		} {
			d := jsonscan.New([]byte(document))
			for range d.Elements() {
				reader(d)
			}
			err := d.End()
			require.ErrorContains(t, err, "[0]: want "+want+", got ", document)
			assert.NotContains(t, err.Error(), "secret")
		}
	}
	for _, document := range []string{`null`, `""`} {
		assert.Equal(t, "0", read(t, document, tolerant.RequiredID))
		assert.Empty(t, read(t, document, func(d *jsonscan.Decoder) string {
			text := "before"
			tolerant.RequiredText(d, &text)
			d.Flush()
			return text
		}))
		assert.Equal(t, time.Time{}.String(), read(t, document, tolerant.RequiredTime))
	}
}
