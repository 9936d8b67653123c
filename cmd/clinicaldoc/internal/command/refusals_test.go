package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
)

func TestAPI_PagesInACircle_AreRefused(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]string{"itself": {"1"}, "two pages": {"2", "1"}, "three pages": {"2", "3", "1"}} {
		env, _ := newEnv(newServer(t))
		o := &apiOptions{Env: env, paginate: true}
		calls := 0
		err := o.pages(url.Values{"page": {"1"}}, func(url.Values) (*clinicaldoc.Response, error) {
			calls++
			if calls > 10 {
				return nil, errors.New("it goes on")
			}
			next := order[(calls-1)%len(order)]
			return &clinicaldoc.Response{Body: []byte(`{"data":[],"links":{"next":"https://elsewhere.example/?page=` + next + `"}}`)}, nil
		})
		require.ErrorContains(t, err, "repeated a page", name)
		assert.Equal(t, len(order), calls, name)
	}
}

func TestAPI_OtherHostInPath_IsRejected(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"https://elsewhere.example/user", "//elsewhere.example/user", "user", "/user#x", "http:/user", "/%zz"} {
		_, _, err := (&apiOptions{path: path}).target()
		require.Error(t, err, path)
	}
	path, query, err := (&apiOptions{path: "/v1/progress-notes?page=2"}).target()
	require.NoError(t, err)
	assert.Equal(t, "/v1/progress-notes", path)
	assert.Equal(t, url.Values{"page": {"2"}}, query)
}

func TestAPI_TextNotUTF8_IsRejected(t *testing.T) {
	t.Parallel()
	for _, o := range []apiOptions{{fields: []string{"name=\xe9"}}, {raws: []string{"name=\xe9"}}} {
		_, err := o.fieldsBody(t.Context())
		require.ErrorContains(t, err, "UTF-8")
	}
}

func TestAPI_EachField_IsSentAsItsKind(t *testing.T) {
	t.Parallel()
	o := &apiOptions{
		fields: []string{"a=null", "b=true", "c=1.50", "d=01", "e=text", "f=false"}, raws: []string{"g=null", "h=1"},
	}
	body, err := o.fieldsBody(t.Context())
	require.NoError(t, err)
	text, err := json.Marshal(body)
	require.NoError(t, err)
	exactly := `{"a":null,"b":true,"c":1.50,"d":"01","e":"text","f":false,"g":"null","h":"1"}`
	assert.Equal(t, exactly, string(text))
}

func TestAPI_SeveralHeaders_AreAllSent(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	env, _ := newEnv(srv)
	o := &apiOptions{Env: env, path: "/user", headers: []string{"X-Ward: 3", "X-Time:09:00"}}
	require.NoError(t, o.run(t.Context()))
	require.Len(t, srv.Requests(), 1)
	assert.Equal(t, "3", srv.Requests()[0].Header.Get("X-Ward"))
	assert.Equal(t, "09:00", srv.Requests()[0].Header.Get("X-Time"))
}

func TestAPI_Refusal_IsPrintedUnfiltered(t *testing.T) {
	t.Parallel()
	env, shown := newEnv(newServer(t))
	o := &apiOptions{Env: env, path: "/v1/progress-notes/99"}
	require.NoError(t, o.jq.Set(".id"))
	require.ErrorIs(t, o.run(t.Context()), clinicaldoc.ErrNotFound)
	assert.Contains(t, shown.out.String(), `"message"`)
}

func TestExitCode_SeveralErrors_IsTheWorst(t *testing.T) {
	t.Parallel()
	unknown := errors.Join(clinicaldoc.ErrOutcomeUnknown, clinicaldoc.ErrServer)
	assert.Equal(t, codeUnresolved, exitCode(t.Context(), unknown))
	for signal, want := range map[os.Signal]int{os.Interrupt: 130, syscall.SIGTERM: 143} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(&signalError{signal})
		assert.Equal(t, want, exitCode(ctx, context.Canceled))
		assert.Equal(t, codeUnresolved, exitCode(ctx, unknown), "what may have been done counts more than the signal")
	}
}

func TestWait_SeveralFailures_WorstDecides(t *testing.T) {
	t.Parallel()
	late := context.DeadlineExceeded
	for _, c := range []struct {
		failures []error
		want     int
	}{
		{[]error{late}, codePending}, {[]error{late, clinicaldoc.ErrProcessingFailed}, codeOther},
		{[]error{clinicaldoc.ErrNotFound, late}, codeNotFound}, {[]error{late, late, clinicaldoc.ErrNotFound}, codeNotFound},
	} {
		env, _ := newEnv(nil)
		assert.Equal(t, c.want, exitCode(t.Context(), (&waitOptions{Env: env}).worst(t.Context(), c.failures)), c.failures)
	}
	env, _ := newEnv(nil)
	assert.NoError(t, (&waitOptions{Env: env}).worst(t.Context(), nil))
}

func TestSign_OtherVersion_IsNotSigned(t *testing.T) {
	t.Parallel()
	var srv *clinicaldoctest.Server
	var once sync.Once
	meanwhile := func() {}
	srv = newServer(t, clinicaldoctest.WithObserver(func(r clinicaldoctest.Request) {
		if r.Route == clinicaldoctest.RouteGetNote {
			once.Do(meanwhile)
		}
	}))
	id := srv.AddNote(clinicaldoctest.Note{})
	read := textsOf(t, srv, id)

	env, _ := newEnv(srv)
	other := *read
	other.Name = "Another"
	err := (&signOptions{Env: env, id: id, yes: other.Version()}).run(t.Context())
	require.ErrorContains(t, err, "nothing was signed")

	once = sync.Once{}
	meanwhile = func() {
		_, err := srv.Client().Notes.Update(context.WithoutCancel(t.Context()), id, clinicaldoc.UpdateNoteParams{Name: new("Other")})
		assert.NoError(t, err)
	}
	err = (&signOptions{Env: env, id: id, yes: read.Version()}).run(t.Context())
	require.ErrorIs(t, err, clinicaldoc.ErrConflict)
	assert.Zero(t, requestsTo(srv, clinicaldoctest.RouteSignNote))
}

// Standard output may lead to a file, which must not receive a patient's texts for a question.
func TestSign_Question_ShowsTheNoteOnStandardError(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	id := srv.AddNote(clinicaldoctest.Note{Analysis: "canary"})
	env, shown := newEnv(srv)
	env.answers("n\n")
	require.Equal(t, errDeclined, (&signOptions{Env: env, id: id}).run(t.Context()))
	assert.Contains(t, shown.err.String(), "  | canary\n\nSign this note? [y/N] ")
	assert.Empty(t, shown.out.String())
}

// keysAfter are keys that somebody presses after something else has happened.
type keysAfter struct {
	io.Reader
	happens func()
}

func (k keysAfter) Read(p []byte) (int, error) {
	k.happens()
	return k.Reader.Read(p)
}

// A deletion is of the note that the question showed.
func TestDelete_NoteChangesDuringTheQuestion_IsKept(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	id := srv.AddNote(clinicaldoctest.Note{})
	env, _ := newEnv(srv)
	env.answers("")
	env.IO.In = bufio.NewReader(keysAfter{strings.NewReader("y\n"), func() {
		_, err := srv.Client().Notes.Update(t.Context(), id, clinicaldoc.UpdateNoteParams{Analysis: new("other")})
		assert.NoError(t, err)
	}})
	require.ErrorIs(t, (&deleteOptions{Env: env, id: id}).run(t.Context()), clinicaldoc.ErrConflict)
	assert.Len(t, srv.Notes(), 1)
}

func TestYes_AtATerminal_AsksNothing(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	id := srv.AddNote(clinicaldoctest.Note{})
	env, shown := newEnv(srv)
	env.answers("n\n")
	token := srv.AddToken(1, "another device").ID
	for name, run := range map[string]func(context.Context) error{
		"sign":   (&signOptions{Env: env, id: id, yes: textsOf(t, srv, id).Version()}).run,
		"revoke": (&revokeOptions{Env: env, id: token, yes: strconv.FormatInt(token, 10)}).run,
		"delete": (&deleteOptions{Env: env, id: srv.AddNote(clinicaldoctest.Note{ID: 9}), yes: "9"}).run,
	} {
		require.NoError(t, run(t.Context()), name)
	}
	assert.Empty(t, shown.err.String())
}

func TestYes_OtherID_IsRejected(t *testing.T) {
	t.Parallel()
	env, _ := newEnv(nil)
	require.NoError(t, env.checkYes("5", 5))
	require.ErrorContains(t, env.checkYes("6", 5), "differs from the id in the command")
	require.ErrorContains(t, env.checkYes("", 5), "no terminal")
}

func TestDownload_ToAPipeFails_IsAnError(t *testing.T) {
	t.Parallel()
	env, _ := newEnv(newServer(t))
	err := (&downloadOptions{Env: env, id: 99, path: "-"}).run(t.Context())
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
}

func TestDownload_FileCameMeanwhile_IsNotReplaced(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	from := filepath.Join(folder, "part")
	to := filepath.Join(folder, "visit.wav")
	require.NoError(t, os.WriteFile(from, []byte("recording"), 0o600))
	require.NoError(t, os.WriteFile(to, []byte("somebody's"), 0o600))
	require.ErrorIs(t, keeping{disk.From(t.Context())}.Rename(from, to), errFileThere)
	text, err := os.ReadFile(to)
	require.NoError(t, err)
	assert.Equal(t, "somebody's", string(text))
	require.NoError(t, os.Remove(to))
	require.NoError(t, keeping{disk.From(t.Context())}.Rename(from, to))
	assert.NoFileExists(t, from)
}
