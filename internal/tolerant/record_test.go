package tolerant_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/tolerant"
)

// record has one member of each sort.
type record struct {
	id   int64
	name string
	part *record
}

func (r *record) fill(d *jsonscan.Decoder) {
	tolerant.Object(d, func(key []byte) {
		switch string(key) {
		case "id":
			r.id = tolerant.RequiredID(d)
		case "name":
			tolerant.Text(d, &r.name)
		case "part":
			r.part = tolerant.Optional(d, func() *record { return new(record) }, (*record).fill)
		}
	})
}

func TestRecord_BareOrWrapped_IsRead(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]string{ // name, or the error
		`{"id":1,"name":"bare"}`:                                   "bare",
		`{"data":{"id":1,"name":"inner"}}`:                         "inner",
		`{"message":"m","data":{"id":1,"name":"inner"},"id":null}`: "inner",
		`{"id":0,"data":{"id":1,"name":"inner"}}`:                  "inner",
		`{"id":"","data":{"id":1,"name":"inner"}}`:                 "inner",
		`{"data":{"id":1,"name":"inner"},"id":2,"name":"bare"}`:    "bare",
		`{"id":2,"name":"bare","data":{"id":1,"name":"inner"}}`:    "bare",
		`{"id":2,"name":"bare","data":[{"id":1}]}`:                 "bare",
		`{"data":{"data":{"id":1}}}`:                               "it contains no id",
		`{"data":[{"id":1}]}`:                                      "it contains no id",
		`{"data":{"id":0}}`:                                        "it contains no id",
		`null`:                                                     "it contains no id",
		`[]`:                                                       "it contains no id",
		``:                                                         "it is empty",
		`[{"id":1}]`:                                               "want object, got array",
		`"secret"`:                                                 "want object, got string",
		`{"id":"secret","data":{"id":1}}`:                          "id: want a whole number, got string",
		`{"data":{"id":["secret"]}}`:                               "id: want a whole number, got array",
		`{"data":{"id":1}}secret`:                                  "invalid JSON at byte 17: unexpected character or end",
		`{"data":{"id":1},"secret":}`:                              "invalid JSON at byte 26: unexpected character or end",
		`{"id":1,"secret":}`:                                       "invalid JSON at byte 17: unexpected character or end",
	} {
		value, warnings, err := tolerant.Record([]byte(document), (*record).fill, func(r *record) int64 { return r.id })
		assert.Empty(t, warnings, document)
		if err != nil {
			assert.Equal(t, want, err.Error(), document)
			continue
		}
		assert.Equal(t, want, value.name, document)
	}
}

func TestRecord_OddValues_AreWarnings(t *testing.T) {
	t.Parallel()
	value, warnings, err := tolerant.Record(
		[]byte(`{"data":{"id":1,"name":5,"part":{"name":[],"part":"x"}}}`), (*record).fill,
		func(r *record) int64 { return r.id },
	)
	require.NoError(t, err)
	assert.Equal(t, &record{id: 1, part: &record{}}, value)
	assert.Equal(t, []string{
		"name: want string, got number", "part.name: want string, got array", "part.part: want object, got string",
	}, warnings)
}

// A wrap that is not there must not cost a second pass over the document.
func TestUnwrap_OwnMember_StopsReading(t *testing.T) {
	t.Parallel()
	broken := []byte(`{"id":1,"data":{"id":2},"name":`)
	assert.Equal(t, broken, tolerant.Unwrap(broken, "id"))
	assert.JSONEq(t, `{"tokens":[]}`, string(tolerant.Unwrap([]byte(`{"data":{"tokens":[]}}`), "tokens")))
	assert.JSONEq(t, `{"tokens":[],"data":{}}`, string(tolerant.Unwrap([]byte(`{"tokens":[],"data":{}}`), "tokens")))
}

func TestFindID_ReturnsOnlyACertainID(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]int64{
		`{"id":5}`:                                   5,
		`{"id":"5"}`:                                 5,
		`{"id":5.0,"name":["unreadable"]}`:           0,
		`{"data":{"id":5,"created_at":false}}`:       5,
		`{"data":{"name":[1],"id":5},"message":"m"}`: 5,
		`{"id":5,"data":{"id":6}}`:                   5,
		`{"data":{"id":6},"id":5}`:                   5,
		`{"id":null,"data":{"id":6}}`:                6,
		`{"id":"req-1","data":{"id":6}}`:             6,
		`{"id":5,"name":"cut of`:                     5,
		`{"id":5,`:                                   5,
		`{"id":"5"`:                                  5,
		`{"data":{"id":5,"name":"cut of`:             5,
		`{"id":5} trailing`:                          5,
		`{"id":5`:                                    0, // perhaps 57
		`{"id":5.`:                                   0,
		`{"id":"5`:                                   0,
		`{"data":{"id":5`:                            0,
		`{"id":9223372036854775808}`:                 0,
		`{"id":-5}`:                                  0,
		`{"id":0}`:                                   0,
		`{"id":"x"}`:                                 0,
		`{"id":[5]}`:                                 0,
		`{"user":{"id":5}}`:                          0,
		`{"data":[{"id":5}]}`:                        0,
		`[{"id":5}]`:                                 0,
		`5`:                                          0,
		`<html>`:                                     0,
		``:                                           0,
	} {
		got, _ := tolerant.FindID([]byte(document))
		assert.Equal(t, want, got, document)
	}
}

// FindID reports whether the record with the ID has a value in one of the named members. A body that is cut off counts
// as far as it goes. Of two IDs, the outer one counts.
func TestFindID_ReportsWhetherTheRecordHasAMember(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]bool{
		`{"id":5,"name":"Visit","more":`:          true,
		`{"created_at":"2026-01-02","id":5}`:      true,
		`{"data":{"id":5,"name":"Visit"}}`:        true,
		`{"id":5}`:                                false,
		`{"id":5,"name":""}`:                      false,
		`{"id":5,"name":null,"created_at":null}`:  false,
		`{"id":5,"status":"queued"}`:              false,
		`{"name":"queue","data":{"id":5}}`:        false,
		`{"id":5,"data":{"name":"Visit","id":6}}`: false,
	} {
		id, hasMember := tolerant.FindID([]byte(document), "name", "created_at")
		assert.EqualValues(t, 5, id, document)
		assert.Equal(t, want, hasMember, document)
	}
}
