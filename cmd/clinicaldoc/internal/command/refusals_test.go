package command

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

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

func TestAPI_PathNamesNoOtherHost(t *testing.T) {
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

func TestAPI_TextsAreInUTF8(t *testing.T) {
	t.Parallel()
	for _, o := range []apiOptions{{fields: []string{"name=\xe9"}}, {raws: []string{"name=\xe9"}}} {
		_, err := o.fieldsBody(t.Context())
		require.ErrorContains(t, err, "UTF-8")
	}
}

func TestAPI_RefusalIsPrintedAsItCame(t *testing.T) {
	t.Parallel()
	env, shown := newEnv(newServer(t))
	o := &apiOptions{Env: env, path: "/v1/progress-notes/99"}
	require.NoError(t, o.jq.Set(".id"))
	require.ErrorIs(t, o.run(t.Context()), clinicaldoc.ErrNotFound)
	assert.Contains(t, shown.out.String(), `"message"`)
}

func TestExitCode_OfErrorsThatAreSeveral(t *testing.T) {
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

func TestWait_WorstFailureDecides(t *testing.T) {
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

func TestSign_SignsOnlyWhatWasRead(t *testing.T) {
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

func TestYes_NamesTheSameID(t *testing.T) {
	t.Parallel()
	env, _ := newEnv(nil)
	require.NoError(t, env.checkYes("5", 5))
	require.ErrorContains(t, env.checkYes("6", 5), "differs from the id in the command")
	require.ErrorContains(t, env.checkYes("", 5), "no terminal")
}

func TestRevoke_TokenInUse_NeedsAWord(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	for _, inUse := range []bool{false, true} {
		env, _ := newEnv(srv)
		tokens, err := srv.Client().Tokens.List(t.Context())
		require.NoError(t, err)
		o := &revokeOptions{Env: env, id: tokens[0].ID, yes: strconv.FormatInt(tokens[0].ID, 10), inUse: inUse}
		assert.Equal(t, inUse, o.run(t.Context()) == nil)
	}
	assert.Equal(t, 1, requestsTo(srv, clinicaldoctest.RouteRevokeToken))
}

func TestDownload_ReplacesNoFileThatCameMeanwhile(t *testing.T) {
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

func TestWatch_EndsByItsCountAndGoesOnFromThere(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	add := func(count int) {
		for range count {
			srv.AddNote(clinicaldoctest.Note{CreatedAt: time.Now().Add(-time.Hour)})
		}
	}
	state := filepath.Join(t.TempDir(), "watch")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	watch := func(count int) []string {
		env, shown := newEnv(srv)
		o := &watchOptions{Env: env, interval: time.Second, count: count, initial: true, state: state}
		require.NoError(t, o.run(ctx))
		return strings.Split(strings.TrimSpace(shown.out.String()), "\n")
	}
	add(2)
	assert.Len(t, watch(2), 2)
	add(2)
	for _, id := range []string{"3", "4"} {
		lines := watch(1)
		require.Len(t, lines, 1)
		assert.Contains(t, lines[0], "\t"+id+"\tnew\t", "what was told is not told again")
	}
}

func TestWatch_CountEndsFirstLook_NextWatchGoesOn(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	for range 3 {
		srv.AddNote(clinicaldoctest.Note{CreatedAt: time.Now().Add(-time.Hour)})
	}
	state := filepath.Join(t.TempDir(), "watch")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for i, event := range []string{"there", "new", "new"} {
		env, shown := newEnv(srv)
		o := &watchOptions{Env: env, interval: time.Second, count: 1, initial: true, state: state}
		require.NoError(t, o.run(ctx))
		assert.Contains(t, shown.out.String(), fmt.Sprintf("\t%d\t%s\t", i+1, event))
	}
}

func TestWatch_ProgramIsACompoundCommand_Runs(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the program of this test is one of a shell")
	}
	env, shown := newEnv(nil)
	o := &watchOptions{Env: env, exec: `if test "$CLINICALDOC_NOTE_ID" = 7; then echo seven; fi`}
	require.NoError(t, o.tellChange(t.Context(), change{ID: 7}))
	assert.Contains(t, shown.out.String(), "seven")
	assert.NotContains(t, shown.err.String(), "the program failed")
}

func TestWatch_ProgramEndedWithTheWatch_IsRunAgain(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the program of this test is one of a shell")
	}
	env, _ := newEnv(nil)
	o := &watchOptions{Env: env, exec: "exit 3"}
	require.NoError(t, o.tellChange(t.Context(), change{ID: 1}), "one that fails does not end the watch")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&signalError{os.Interrupt})
	require.Error(t, o.tellChange(ctx, change{ID: 1}))
}

func TestAuditTrail_FileOfOthers_IsRefused(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes there")
	}
	path := filepath.Join(t.TempDir(), "trail.jsonl")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Chmod(path, 0o666))
	_, err := openAuditTrail(path)
	require.ErrorContains(t, err, "--audit cannot be used")
}

func TestNotes_ShownWithoutSignedURLs(t *testing.T) {
	t.Parallel()
	note := &clinicaldoc.ProgressNote{ID: 1, Audio: &clinicaldoc.AudioInfo{FileURL: "https://storage.example/a?X-Amz-Signature=canary"}}
	value, err := wholeNote(note)
	require.NoError(t, err)
	members, ok := value.(map[string]any)
	require.True(t, ok)
	assert.NotContains(t, members["audio"], "file_url")
}
