package account_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zalando/go-keyring"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/account"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
)

func TestChange_LockIsTaken_WaitsForAWhile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	store := &account.Store{Folder: folder}
	nothing := func(*account.Config) error { return nil }
	synctest.Test(t, func(t *testing.T) {
		held, err := disk.Take(filepath.Join(folder, ".lock"))
		require.NoError(t, err)
		begun := time.Now()
		require.ErrorIs(t, store.Change(nothing), disk.ErrHeld)
		assert.GreaterOrEqual(t, time.Since(begun), 20*time.Second)
		time.AfterFunc(time.Second, func() { assert.NoError(t, disk.Close(held)) })
		require.NoError(t, store.Change(nothing), "the other one has ended")
	})
}

func TestLogin_CannotKeepTheToken_LeavesNothingBehind(t *testing.T) {
	t.Parallel()
	store := &account.Store{Folder: t.TempDir()}
	inTheWay := filepath.Join(store.Folder, "tokens", "ward.json", "x")
	require.NoError(t, os.MkdirAll(inTheWay, 0o700))
	_, err := store.Login("ward", account.Context{BaseURL: service}, token)
	require.Error(t, err)
	left, err := filepath.Glob(filepath.Join(store.Folder, "tokens", ".new-*"))
	require.NoError(t, err)
	assert.Empty(t, left, "it would hold the token")
}

func TestLoad_DamagedSettings_StayAsTheyAre(t *testing.T) {
	t.Parallel()
	store := &account.Store{Folder: t.TempDir()}
	path := filepath.Join(store.Folder, "config.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"contexts":`), 0o600))
	_, err := store.Load()
	require.ErrorContains(t, err, "correct or remove it")
	_, err = store.Login("ward", account.Context{BaseURL: service}, token)
	require.Error(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, `{"contexts":`, string(text))
}

func TestLoad_NotAFile_IsRejectedUnread(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there are no devices among the files there")
	}
	store := &account.Store{Folder: t.TempDir()}
	require.NoError(t, os.Symlink("/dev/zero", filepath.Join(store.Folder, "config.json")))
	_, err := store.Load()
	require.ErrorContains(t, err, "is not a regular file, or is larger than")
}

func TestLogout_OfTheCurrentContext_LeavesNoneCurrent(t *testing.T) {
	t.Parallel()
	store := &account.Store{Folder: t.TempDir()}
	for _, name := range []string{"first", "second"} {
		_, err := store.Login(name, account.Context{BaseURL: service}, token)
		require.NoError(t, err)
	}
	require.NoError(t, store.Logout("second"))
	config, err := store.Load()
	require.NoError(t, err)
	assert.Empty(t, config.Current, "a command must not go to another service by itself")
	assert.Contains(t, config.Contexts, "first")
}

// Settings that are a link stay one, also if the file behind it is not there yet: somebody keeps them elsewhere.
func TestLogin_LinkedSettings_StayLinked(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct{ isRelative, isMissing bool }{
		"a link to settings": {}, "a relative link to settings": {isRelative: true},
		"a link to a missing file":          {isMissing: true},
		"a relative link to a missing file": {isRelative: true, isMissing: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			store := &account.Store{Folder: filepath.Join(folder, "config")}
			require.NoError(t, os.Mkdir(store.Folder, 0o700))
			behind := filepath.Join(folder, "dotfiles.json")
			if !one.isMissing {
				require.NoError(t, os.WriteFile(behind, []byte("{}"), 0o600))
			}
			target := behind
			if one.isRelative {
				target = filepath.Join("..", "dotfiles.json")
			}
			link := filepath.Join(store.Folder, "config.json")
			if err := os.Symlink(target, link); err != nil {
				t.Skip("there are no links here:", err)
			}
			_, err := store.Login("ward", account.Context{BaseURL: service}, token)
			require.NoError(t, err)
			info, err := os.Lstat(link)
			require.NoError(t, err)
			assert.NotZero(t, info.Mode()&fs.ModeSymlink)
			text, err := os.ReadFile(behind)
			require.NoError(t, err)
			assert.Contains(t, string(text), service)
		})
	}
}

//nolint:paralleltest // sets variables
func TestLogin_KeyringIsBack_ReplacesTheFile(t *testing.T) {
	store, keyring := newStore(t)
	keyring.broken = errors.New("no bus")
	_, err := store.Login("ward", account.Context{BaseURL: service}, "old")
	require.NoError(t, err)
	keyring.broken = nil
	_, err = store.Login("ward", account.Context{BaseURL: service}, "new")
	require.NoError(t, err)
	found, err := store.Find("ward")
	require.NoError(t, err)
	assert.Equal(t, "new", found.Token)
}

//nolint:paralleltest // sets variables
func TestFind_TokenThatTheGroupCanRead_IsNotUsed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes there")
	}
	store, keyring := newStore(t)
	keyring.broken = errors.New("no bus")
	_, err := store.Login("ward", account.Context{BaseURL: service}, token)
	require.NoError(t, err)
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o620} {
		require.NoError(t, os.Chmod(filepath.Join(store.Folder, "tokens", "ward.json"), mode))
		_, err = store.Find("ward")
		require.ErrorContains(t, err, "other users can read", mode)
	}
}

func TestFind_HalfAnAccountOfTheEnvironment_IsRejected(t *testing.T) { //nolint:paralleltest // it sets variables
	store, _ := newStore(t)
	_, err := store.Login("ward", account.Context{BaseURL: service}, token)
	require.NoError(t, err)
	for _, name := range []string{clinicaldoc.EnvBaseURL, clinicaldoc.EnvToken} {
		t.Setenv(clinicaldoc.EnvBaseURL, "")
		t.Setenv(clinicaldoc.EnvToken, "")
		t.Setenv(name, "https://other.example")
		_, err := store.Find("")
		_, ambiguous := errors.AsType[*account.AmbiguousError](err)
		assert.True(t, ambiguous, "%s: %v", name, err)
	}
}

// A token file without a token, or cut short, asks for a login. It is never an empty token.
//
//nolint:paralleltest // sets variables
func TestFind_DamagedTokenFile_AsksForALogin(t *testing.T) {
	store, _ := newStore(t)
	store.Keyring = nil
	_, err := store.Login("ward", account.Context{BaseURL: service}, token)
	require.NoError(t, err)
	path := filepath.Join(store.Folder, "tokens", "ward.json")
	for _, text := range []string{
		`{"base_url":"` + service + `"}`, `{"base_url":"` + service + `","token":""}`, `{"token":"t`, "",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := store.Find("ward")
		require.ErrorIs(t, err, account.ErrNone, text)
		require.ErrorContains(t, err, "cannot be read")
	}
}

// The file of the longest token is read. A longer file is not a token's.
//
//nolint:paralleltest // sets variables
func TestFind_LargeTokenFile_IsBounded(t *testing.T) {
	store, _ := newStore(t)
	store.Keyring = nil
	_, err := store.Login("ward", account.Context{BaseURL: service}, token)
	require.NoError(t, err)
	path := filepath.Join(store.Folder, "tokens", "ward.json")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	text = append(text, bytes.Repeat([]byte(" "), 256<<10-len(text))...)
	require.NoError(t, os.WriteFile(path, text, 0o600))
	found, err := store.Find("ward")
	require.NoError(t, err)
	assert.Equal(t, token, found.Token)
	require.NoError(t, os.WriteFile(path, append(text, ' '), 0o600))
	_, err = store.Find("ward")
	require.ErrorContains(t, err, "is larger than 256 KiB")
}

// A keyring that has no such token is not a keyring that fails: only then does Logout end without an error.
//
//nolint:paralleltest // replaces the system's keyring
func TestSystemKeyring_MissingOrBroken_AreTold(t *testing.T) {
	keyring.MockInit()
	t.Cleanup(keyring.MockInit)
	var system account.SystemKeyring
	_, err := system.Get("ward")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, system.Delete("ward"), fs.ErrNotExist)
	require.NoError(t, system.Set("ward", token))
	kept, err := system.Get("ward")
	require.NoError(t, err)
	assert.Equal(t, token, kept)
	require.NoError(t, system.Delete("ward"))
	_, err = system.Get("ward")
	require.ErrorIs(t, err, fs.ErrNotExist)

	keyring.MockInitWithError(errors.New("no bus " + token))
	require.Error(t, system.Set("ward", token))
	_, err = system.Get("ward")
	require.ErrorIs(t, err, account.ErrKeyring)
	require.ErrorIs(t, system.Delete("ward"), account.ErrKeyring)
}

// FuzzConfig reads settings of any content. They are rejected, or stay the same when they are written again, and no
// token meets another base URL than its own.
func FuzzConfig(f *testing.F) {
	for _, text := range []string{
		"", "{}", "[]", "null", `{"current":"ward","contexts":{"ward":{"base_url":"https://service.example"}}}`,
		`{"current":"gone","contexts":{"a":{"base_url":"x","query_names":{"page":"p"},"insecure_http":true},"A":{}}}`, `{"contexts":null}`,
		`{"contexts":{"../x":{"base_url":"https://service.example"}}}`, `{"contexts":{"ward":{"base_url":7}}}`,
	} {
		f.Add([]byte(text), []byte(`{"base_url":"https://service.example","token":"t"}`))
		f.Add([]byte(text), []byte(`{"token":"t"}`))
	}
	f.Fuzz(func(t *testing.T, settings, secret []byte) {
		store := &account.Store{Folder: t.TempDir()}
		require.NoError(t, os.WriteFile(filepath.Join(store.Folder, "config.json"), settings, 0o600))
		require.NoError(t, os.Mkdir(filepath.Join(store.Folder, "tokens"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(store.Folder, "tokens", "ward.json"), secret, 0o600))
		config, err := store.Load()
		if err != nil {
			require.Error(t, store.Change(func(*account.Config) error { return nil }), "settings that cannot be read are not replaced")
			return
		}
		require.NoError(t, store.Change(func(*account.Config) error { return nil }))
		again, err := store.Load()
		require.NoError(t, err)
		require.Equal(t, config, again)
		for name := range config.Contexts {
			found, err := store.Find(name)
			if err == nil {
				require.NotEmpty(t, found.Token)
				require.Contains(t, string(secret), "token")
			}
		}
	})
}
