package clinicaldoc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// canary stands in every field that may hold a secret or a patient's data; canaryPatient in every number that names a patient.
const (
	canary              = "CANARY"
	canaryPatient int64 = 9876598765432 // too long to occur in a time or an address
)

// assertSilent fails when a text holds a canary in any of the spellings that fmt gives it.
func assertSilent(t *testing.T, text, how string) {
	t.Helper()
	for _, spelling := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary), fmt.Sprintf("% x", canary), strings.Trim(fmt.Sprintf("%d", []byte(canary)), "[]"), fmt.Sprint(canaryPatient), fmt.Sprintf("%x", canaryPatient)} {
		assert.NotContains(t, text, spelling, how)
	}
}

var verbs = []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "% x", "%-10s"}

// unwrapped returns what an error wraps, as a crash reporter sees it.
func unwrapped(err error) []error {
	switch parent := err.(type) { //nolint:errorlint // a step of the walk
	case interface{ Unwrap() error }:
		if inner := parent.Unwrap(); inner != nil {
			return []error{inner}
		}
	case interface{ Unwrap() []error }:
		return parent.Unwrap()
	}
	return nil
}

// chain returns an error and all that it wraps.
func chain(err error) []error {
	all := []error{err}
	for _, inner := range unwrapped(err) {
		all = append(all, chain(inner)...)
	}
	return all
}

// assertRoundTrip encodes a value in each of encoding/json's ways and expects to read an equal one back.
func assertRoundTrip[T any](t *testing.T, value T) {
	t.Helper()
	plain, err := json.Marshal(value)
	require.NoError(t, err)
	indented, err := json.MarshalIndent(value, "", "  ")
	require.NoError(t, err)
	var unescaped bytes.Buffer
	encoder := json.NewEncoder(&unescaped)
	encoder.SetEscapeHTML(false)
	require.NoError(t, encoder.Encode(value))
	for _, stored := range [][]byte{plain, indented, unescaped.Bytes()} {
		var back T
		require.NoError(t, json.Unmarshal(stored, &back), string(stored))
		assert.Equal(t, value, back, string(stored))
	}
	var list []T
	require.NoError(t, json.Unmarshal([]byte("["+string(plain)+"]"), &list))
	assert.Equal(t, []T{value}, list)
}

// decodingErrors is all that an error of an answer that does not decode may say: constant words, described keys, numbers.
var decodingErrors = regexp.MustCompile(`^clinicaldoc: [A-Z][a-z]+\.[A-Za-z]+ \([A-Z]+ /[a-z0-9/{}-]+\): the response is 200 OK with (no body|application/json), but not what the service describes: (` +
	`invalid JSON at byte \d+: (unexpected character or end|invalid escape sequence|nested too deeply)` +
	`|((\.?(id|name|transcription|analysis|template|description|audio|duration|bitrate|size|file_url|has|content|signed|team_id|user_id|email|url|message|data|tokens|` +
	`(uploaded|expires|transcription_started|transcription_completed|analysis_started|analysis_completed|created|updated|last_used)_at)|\[\d+\])+: )?` +
	`want (an? (object|whole number|number|boolean|date-time|record with an id)|the end of the list, of at most 100000 rows|boolean|number|string|array|object), got (null|boolean|number|string|array|object)` +
	`|it holds no (id|list|usable url)|it is (another record than the one asked for|empty))` +
	`(; it may or may not have been carried out: ask Notes\.FindCreated before creating again|; an attempt may have had its effect: read the record before trying again)?$`)

// checkDecoding expects either a value or an error whose text holds nothing of the answer.
func checkDecoding(t *testing.T, value any, err error) {
	t.Helper()
	if err == nil {
		require.NotNil(t, value)
		return
	}
	require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	require.Nil(t, value)
	require.Regexp(t, decodingErrors, err.Error())
}

// checkStored expects that a value encodes, and that what was encoded decodes to the same value.
func checkStored[T any](t *testing.T, value T) {
	t.Helper()
	stored, err := json.Marshal(value)
	require.NoError(t, err)
	var back T
	require.NoError(t, json.Unmarshal(stored, &back), "%s", stored)
	require.Equal(t, value, back, "%s", stored)
}

// part is one part of a multipart body.
type part struct {
	disposition string
	contentType string
	body        string
}

// checkParts compares a multipart body part by part, in order.
func checkParts(want ...part) func(t *testing.T, contentType string, body []byte) {
	return func(t *testing.T, contentType string, body []byte) {
		t.Helper()
		kind, params, err := mime.ParseMediaType(contentType)
		if err != nil || kind != "multipart/form-data" {
			t.Errorf("content type %q: %v", contentType, err)
			return
		}
		var got []part
		for reader := multipart.NewReader(bytes.NewReader(body), params["boundary"]); ; {
			p, err := reader.NextRawPart()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Errorf("multipart body: %v", err)
				return
			}
			content, _ := io.ReadAll(p)
			got = append(got, part{p.Header.Get("Content-Disposition"), p.Header.Get("Content-Type"), string(content)})
		}
		assert.Equal(t, want, got)
	}
}
