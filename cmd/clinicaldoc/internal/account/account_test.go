package account_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/account"
)

// ring is a keyring in memory.
type ring struct {
	kept   map[string]string
	broken error
}

func (r *ring) Set(name, secret string) error {
	if r.broken == nil {
		r.kept[name] = secret
	}
	return r.broken
}

func (r *ring) Get(name string) (string, error) {
	if secret, ok := r.kept[name]; ok || r.broken != nil {
		return secret, r.broken
	}
	return "", fs.ErrNotExist
}

func (r *ring) Delete(name string) error {
	delete(r.kept, name)
	return r.broken
}

func newStore(t *testing.T) (*account.Store, *ring) {
	t.Helper()
	// Of whoever runs the tests.
	t.Setenv(clinicaldoc.EnvBaseURL, "")
	t.Setenv(clinicaldoc.EnvToken, "")
	keyring := &ring{kept: map[string]string{}}
	return &account.Store{Folder: filepath.Join(t.TempDir(), "config"), Keyring: keyring}, keyring
}

const (
	service = "https://service.example"
	token   = "canary-token"
)

//nolint:paralleltest // sets variables
func TestLogin_Keyring_KeepsTheToken(t *testing.T) {
	store, keyring := newStore(t)
	where, err := store.Login("ward", account.Context{BaseURL: service}, token)
	require.NoError(t, err)
	assert.Equal(t, "the system's keyring", where)
	assert.Contains(t, keyring.kept["ward"], token)
	config, err := os.ReadFile(filepath.Join(store.Folder, "config.json"))
	require.NoError(t, err)
	assert.NotContains(t, string(config), token)
	assert.NoDirExists(t, filepath.Join(store.Folder, "tokens"))

	found, err := store.Find("")
	require.NoError(t, err)
	assert.Equal(t, token, found.Token)
	assert.Equal(t, "keyring", found.TokenFrom)
	require.NoError(t, store.Logout(""))
	assert.Empty(t, keyring.kept)
	_, err = store.Find("")
	assert.ErrorIs(t, err, account.ErrNone)
}

//nolint:paralleltest // sets variables
func TestLogin_NoKeyring_UsesPrivateFile(t *testing.T) {
	store, keyring := newStore(t)
	keyring.broken = errors.New("no bus " + token)
	where, err := store.Login("ward", account.Context{BaseURL: service}, token)
	require.NoError(t, err)
	path := filepath.Join(store.Folder, "tokens", "ward.json")
	assert.Equal(t, "the file "+path, where)
	found, err := store.Find("ward")
	require.NoError(t, err)
	assert.Equal(t, token, found.Token)
	if runtime.GOOS != "windows" {
		for name, want := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700, store.Folder: 0o700} {
			info, err := os.Stat(name)
			require.NoError(t, err)
			assert.Equal(t, want, info.Mode().Perm(), name)
		}
		require.NoError(t, os.Chmod(path, 0o644))
		_, err = store.Find("ward")
		require.ErrorContains(t, err, "other users can read")
	}
	require.NoError(t, store.Logout("ward"))
	assert.NoFileExists(t, path)
}

//nolint:paralleltest // sets variables
func TestFind_KeyringBreaks_HidesItsWords(t *testing.T) {
	store, keyring := newStore(t)
	_, err := store.Login("ward", account.Context{BaseURL: service}, token)
	require.NoError(t, err)
	keyring.broken = errors.New("locked " + token)
	_, err = store.Find("")
	require.Error(t, err)
	assert.NotContains(t, err.Error(), token)
	assert.Error(t, store.Logout("ward"), "the token may still be there")
}

func TestFind_OtherBaseURL_RejectsTheToken(t *testing.T) {
	store, _ := newStore(t)
	_, err := store.Login("ward", account.Context{BaseURL: service}, token)
	require.NoError(t, err)
	require.NoError(t, store.Change(func(config *account.Config) error {
		config.Contexts["ward"] = account.Context{BaseURL: "https://elsewhere.example"}
		return nil
	}))
	ambiguous := func(named string) {
		t.Helper()
		_, err := store.Find(named)
		_, ok := errors.AsType[*account.AmbiguousError](err)
		assert.True(t, ok, "%v", err)
	}
	ambiguous("")
	t.Setenv(clinicaldoc.EnvBaseURL, "https://elsewhere.example")
	ambiguous("")
	t.Setenv(clinicaldoc.EnvToken, "another")
	ambiguous("ward")
	found, err := store.Find("")
	require.NoError(t, err)
	assert.Equal(t, "another", found.Token)
	t.Setenv(clinicaldoc.EnvBaseURL, "")
	ambiguous("")
}

//nolint:paralleltest // sets variables
func TestLogin_TwentyAtOnce_AreTwentyContexts(t *testing.T) {
	store, _ := newStore(t)
	store.Keyring = nil
	var logins sync.WaitGroup
	for i := range 20 {
		logins.Go(func() {
			_, err := store.Login(fmt.Sprintf("ward-%d", i), account.Context{BaseURL: service}, token)
			assert.NoError(t, err)
		})
	}
	logins.Wait()
	config, err := store.Load()
	require.NoError(t, err)
	assert.Len(t, config.Contexts, 20)
	for name := range config.Contexts {
		require.NoError(t, store.Logout(name))
	}
	left, err := os.ReadDir(filepath.Join(store.Folder, "tokens"))
	require.NoError(t, err)
	assert.Empty(t, left, "every token can be removed")
}

// A file system, or a keyring, that ignores case would give one of two users the other's token.
//
//nolint:paralleltest // sets variables
func TestLogin_NameDiffersInCase_IsRejected(t *testing.T) {
	store, keyring := newStore(t)
	_, err := store.Login("ward", account.Context{BaseURL: service}, token)
	require.NoError(t, err)
	_, err = store.Login("Ward", account.Context{BaseURL: service}, "another-token")
	unclear, ok := errors.AsType[*account.AmbiguousError](err)
	require.True(t, ok, err)
	assert.Contains(t, unclear.Text, `"ward"`)
	assert.NotEmpty(t, unclear.Do)
	assert.Len(t, keyring.kept, 1, "its token was not kept")
	found, err := store.Find("")
	require.NoError(t, err)
	assert.Equal(t, token, found.Token)
	_, err = store.Login("ward", account.Context{BaseURL: service}, "another-token")
	require.NoError(t, err, "logging in anew")
}

//nolint:paralleltest // sets variables
func TestLogin_FileOthersCanRead_IsNotKept(t *testing.T) {
	store, _ := newStore(t)
	store.Keyring = nil
	defer account.SetMode(0o777)()
	_, err := store.Login("ward", account.Context{BaseURL: service}, token)
	_, ok := errors.AsType[*account.NotPrivateError](err)
	assert.True(t, ok, "%v", err)
	assert.NoFileExists(t, filepath.Join(store.Folder, "tokens", "ward.json"))
	config, err := store.Load()
	require.NoError(t, err)
	assert.Empty(t, config.Contexts)
}

func TestFind_AccountInVariables_NeedsNoSettings(t *testing.T) {
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "AppData", account.EnvConfigDir} {
		t.Setenv(name, "")
	}
	t.Setenv(clinicaldoc.EnvBaseURL, service)
	t.Setenv(clinicaldoc.EnvToken, token)
	found, err := account.Find("")
	require.NoError(t, err)
	assert.Equal(t, token, found.Token)
}

//nolint:paralleltest // sets variables
func TestStateFolder_NoHome_AsksForTheVariable(t *testing.T) {
	for _, name := range []string{"HOME", "USERPROFILE", "XDG_STATE_HOME", "LOCALAPPDATA", account.EnvStateDir} {
		t.Setenv(name, "")
	}
	_, err := account.StateFolder()
	require.ErrorContains(t, err, account.EnvStateDir)
}

func TestQueryNames_Text_RoundTrips(t *testing.T) {
	t.Parallel()
	names, err := account.ParseQueryNames("patient_id=filter[patient_id],,per_page=limit,")
	require.NoError(t, err)
	assert.Equal(t, account.QueryNames{PatientID: "filter[patient_id]", PerPage: "limit"}, names)
	again, err := account.ParseQueryNames(names.String())
	require.NoError(t, err)
	assert.Equal(t, names, again)
	for _, wrong := range []string{"patient=x", "page", "page="} {
		_, err := account.ParseQueryNames(wrong)
		assert.Error(t, err, wrong)
	}
}

// The name of a context is valid whatever the host is, and two hosts have two names.
func TestNameFor_AnyHost_IsValid(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "service.example", account.NameFor("Service.Example"))
	assert.Equal(t, "127.0.0.1-8790", account.NameFor("127.0.0.1:8790"))
	assert.Equal(t, "ipv6-2001-db8--1-8790", account.NameFor("[2001:db8::1]:8790"))
	long := strings.Repeat("a", 60)
	names := map[string]string{}
	for _, host := range []string{
		"[::1]:8790", "[::1]", "[::11]", "[fe80::1%25eth0]:8790", long + ".example", long + ".example:1", long + "x.example",
		"krankenhaus-süd.example", "krankenhaus-söd.example", "病院.example", "医院.example", "-.example", "...", "_", "%",
	} {
		name := account.NameFor(host)
		require.NoError(t, account.CheckName(name), host)
		assert.Empty(t, names[name], "%s and %s have one name", host, names[name])
		names[name] = host
	}
}
