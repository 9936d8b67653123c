package redact_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

type record struct{ secret string }

func (record) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("id", 7), slog.Any("inner", inner{canary}), slog.String("state", "done"))
}
func (r record) Format(s fmt.State, _ rune) { redact.Format(s, "record", r) }

type inner struct{ secret string }

func (inner) LogValue() slog.Value { return slog.GroupValue(slog.Bool("present", true)) }

func TestFormat_EveryVerb_PrintsOnlyTheAllowed(t *testing.T) {
	t.Parallel()
	r := record{canary}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%T%v"} {
		args := []any{r}
		if verb == "%T%v" {
			args = append(args, &r)
		}
		text := fmt.Sprintf(verb, args...)
		assert.Contains(t, text, "record")
		assert.NotContains(t, text, canary, verb)
	}
	assert.Equal(t, "record{id=7 inner={present=true} state=done}", fmt.Sprint(r))
	assert.Equal(t, "[record{id=7 inner={present=true} state=done}]", fmt.Sprintf("%+v", []record{r}))
}
