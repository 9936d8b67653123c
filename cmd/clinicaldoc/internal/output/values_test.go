package output_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

// A template prints exact numbers and harmless texts.
func TestTemplate_Value_IsPrintedHarmlessAndExact(t *testing.T) {
	t.Parallel()
	var by output.Template
	assert.False(t, by.IsSet())
	require.Error(t, by.Set("{{"))
	require.NoError(t, by.Set("{{.id}} {{.name}} {{json .name}}\n"))
	assert.True(t, by.IsSet())
	value := map[string]any{"id": int64(9007199254740993), "name": "a\x1b\"b"}
	var out bytes.Buffer
	require.NoError(t, (&output.IO{Out: &out}).Template(value, &by))
	assert.Equal(t, "9007199254740993 a\ufffd\"b \"a\\u001b\\\"b\"\n", out.String())
	require.ErrorIs(t, (&output.IO{Out: broken{}}).Template(value, &by), errBroken)
}

// The error of a template does not repeat the value, which may be a patient's.
func TestTemplate_CannotBeApplied_HidesTheValue(t *testing.T) {
	t.Parallel()
	var by output.Template
	require.NoError(t, by.Set("{{.name}} {{.name.first}}"))
	var out bytes.Buffer
	streams := &output.IO{Out: &out}
	err := streams.Template(map[string]any{"name": "Canary"}, &by)
	require.EqualError(t, err, "--template: it cannot be applied to the value")
	assert.Empty(t, out.String(), "half a page is not printed")
	require.Error(t, streams.Template(make(chan int), &by), "it is not JSON")
	assert.Empty(t, out.String())
}

// The heading of a table is bold where colors are shown, and only there.
func TestTable_Color_HeadingIsBold(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	streams := &output.IO{Out: &out, OutTTY: true, Width: 80, Color: true}
	require.NoError(t, streams.Table([]string{"ID", "NAME"}, [][]string{{"1", "a"}}))
	assert.Equal(t, "\x1b[1mID  NAME\x1b[0m\n1   a\n", out.String())
}

// A terminal that is too narrow for a table shows the beginning of every cell.
func TestTable_NarrowTerminal_ShowsPartOfEveryColumn(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	streams := &output.IO{Out: &out, OutTTY: true, Width: 5}
	require.NoError(t, streams.Table([]string{"ID", "NAME", "STAGE"}, [][]string{{"1234", "abcdefgh", "complete"}}))
	assert.Equal(t, "ID    NAME  STA…\n1234  abc…  com…\n", out.String())
}

// A table that just fits is not cut.
func TestTable_ExactWidth_IsNotCut(t *testing.T) {
	t.Parallel()
	const row = "1234567  abcdefgh\n"
	for width, want := range map[int]string{17: row, 18: row, 16: "1234567  abcdef…\n"} {
		var out bytes.Buffer
		streams := &output.IO{Out: &out, OutTTY: true, Width: width}
		require.NoError(t, streams.Table([]string{"ID", "NAME"}, [][]string{{"1234567", "abcdefgh"}}))
		_, rows, _ := strings.Cut(out.String(), "\n")
		assert.Equal(t, want, rows, width)
	}
}

// Programs read times in UTC with all digits. People read them in local time.
func TestTime_PeopleAndPrograms_HaveTheirForm(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 18, 9, 30, 15, 120, time.FixedZone("", 3600))
	assert.Equal(t, "2026-11-18T08:30:15.00000012Z", (&output.IO{}).Time(at))
	terminal := &output.IO{OutTTY: true}
	assert.Equal(t, at.Local().Format("2006-01-02 15:04:05"), terminal.Time(at))
	for _, streams := range []*output.IO{{}, terminal} {
		assert.Equal(t, "-", streams.Time(time.Time{}))
	}
}

func TestCount_OneAndMany_HaveTheirWord(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 notes", 1: "1 note", 2: "2 notes", -1: "-1 notes"} {
		assert.Equal(t, want, output.Count(n, "note", "notes"))
	}
}
