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

// Settings that cannot be read do not mean that nobody is logged in: a new login would not help.
//
//nolint:paralleltest // sets variables
func TestFind_DamagedSettings_SaysSo(t *testing.T) {
	store, _ := newStore(t)
	require.NoError(t, os.MkdirAll(store.Folder, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(store.Folder, "config.json"), []byte(`{"contexts":`), 0o600))
	_, err := store.Find("")
	require.ErrorContains(t, err, "correct or remove it")
	require.NotErrorIs(t, err, account.ErrNone)
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

// Half an account in the environment is rejected before the settings are read, which may not even have a place.
func TestFind_HalfAnAccountAndNoSettings_NamesBothVariables(t *testing.T) { //nolint:paralleltest // sets variables
	noFolders(t)
	for _, name := range []string{clinicaldoc.EnvBaseURL, clinicaldoc.EnvToken} {
		t.Setenv(clinicaldoc.EnvBaseURL, "")
		t.Setenv(clinicaldoc.EnvToken, "")
		t.Setenv(name, service)
		_, err := account.Find("")
		require.ErrorContains(t, err, "only one of "+clinicaldoc.EnvBaseURL+" and "+clinicaldoc.EnvToken)
	}
}

// noFolders makes an environment in which no folder of the user is known.
func noFolders(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		"HOME", "USERPROFILE", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "AppData", "LOCALAPPDATA", account.EnvConfigDir,
		account.EnvStateDir, clinicaldoc.EnvBaseURL, clinicaldoc.EnvToken, account.EnvQueryNames,
	} {
		t.Setenv(name, "")
	}
}

func TestFind_NoFolderForSettings_AsksForTheVariable(t *testing.T) { //nolint:paralleltest // sets variables
	noFolders(t)
	_, err := account.Find("")
	require.ErrorContains(t, err, "set "+account.EnvConfigDir)
}

// A context that was kept is found again by a later process, in the folder of the variable or of the system.
func TestFind_SettingsOfTheUser_AreFoundAgain(t *testing.T) { //nolint:paralleltest // sets variables
	folders := map[string]string{account.EnvConfigDir: ""}
	if runtime.GOOS == "linux" {
		folders["XDG_CONFIG_HOME"] = "clinicaldoc"
	}
	for variable, inside := range folders {
		noFolders(t)
		folder := t.TempDir()
		t.Setenv(variable, folder)
		t.Setenv(account.EnvKeyring, "off")
		store, err := account.Open()
		require.NoError(t, err)
		assert.Equal(t, filepath.Join(folder, inside), store.Folder)
		_, err = store.Login("ward", account.Context{BaseURL: service}, token)
		require.NoError(t, err)
		found, err := account.Find("ward")
		require.NoError(t, err)
		assert.Equal(t, token, found.Token)
		assert.Equal(t, "file "+filepath.Join(store.Folder, "tokens", "ward.json"), found.TokenFrom)
	}
}

// Tokens go to the system's keyring unless the variable says off.
func TestOpen_Keyring_IsTheSystemsUnlessOff(t *testing.T) {
	t.Setenv(account.EnvConfigDir, t.TempDir())
	system := account.SystemKeyring{}
	for value, want := range map[string]account.Keyring{"": system, "on": system, "off": nil} {
		t.Setenv(account.EnvKeyring, value)
		store, err := account.Open()
		require.NoError(t, err)
		assert.Equal(t, want, store.Keyring, value)
	}
}

// The journals' folder does not depend on the folder that a command runs in, and belongs to the user alone.
func TestStateFolder_Variables_ChooseAPrivateFolder(t *testing.T) {
	home := t.TempDir()
	noFolders(t)
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	t.Setenv("XDG_STATE_HOME", "relative")
	usual := filepath.Join(home, ".local", "state", "clinicaldoc")
	check := func(want string) {
		t.Helper()
		folder, err := account.StateFolder("uploads", "ward")
		require.NoError(t, err)
		assert.Equal(t, filepath.Join(want, "uploads", "ward"), folder)
		info, err := os.Stat(folder)
		require.NoError(t, err)
		if runtime.GOOS != "windows" {
			assert.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
		}
	}
	check(usual)
	t.Setenv("LOCALAPPDATA", filepath.Join(home, "local"))
	if runtime.GOOS == "windows" {
		usual = filepath.Join(home, "local", "clinicaldoc")
	}
	check(usual)
	t.Setenv("XDG_STATE_HOME", filepath.Join(home, "xdg"))
	check(filepath.Join(home, "xdg", "clinicaldoc"))
	t.Setenv(account.EnvStateDir, filepath.Join(home, "own"))
	check(filepath.Join(home, "own"))
	t.Setenv(account.EnvStateDir, "relative")
	_, err := account.StateFolder()
	unclear, ok := errors.AsType[*account.AmbiguousError](err)
	require.True(t, ok, err)
	assert.Contains(t, unclear.Text, account.EnvStateDir+" is a relative path")
	assert.NoDirExists(t, "relative")
}

// The variable of the query names belongs to the account of the environment. If it is wrong, the error names it.
func TestFind_QueryNamesInVariable_AreUsed(t *testing.T) {
	noFolders(t)
	t.Setenv(clinicaldoc.EnvBaseURL, service)
	t.Setenv(clinicaldoc.EnvToken, token)
	t.Setenv(account.EnvQueryNames, "page=p")
	found, err := account.Find("")
	require.NoError(t, err)
	assert.Equal(t, account.Context{BaseURL: service, Query: account.QueryNames{Page: "p"}}, found.Context)
	t.Setenv(account.EnvQueryNames, "pages=p")
	_, err = account.Find("")
	unclear, ok := errors.AsType[*account.AmbiguousError](err)
	require.True(t, ok, err)
	assert.Contains(t, unclear.Text, account.EnvQueryNames+": use patient_id=NAME")
	assert.Contains(t, unclear.Do, account.EnvQueryNames)
}

// An error about contradicting sources names the variables that are set, and no other.
func TestFind_ContextAndVariables_NamesThoseThatAreSet(t *testing.T) { //nolint:paralleltest // sets variables
	for _, tt := range []struct{ baseURL, token, want string }{
		{service, "", clinicaldoc.EnvBaseURL}, {"", token, clinicaldoc.EnvToken},
		{service, token, clinicaldoc.EnvBaseURL + " with " + clinicaldoc.EnvToken},
	} {
		noFolders(t)
		t.Setenv(clinicaldoc.EnvBaseURL, tt.baseURL)
		t.Setenv(clinicaldoc.EnvToken, tt.token)
		_, err := account.Find("ward")
		require.EqualError(t, err, "--context ward and "+tt.want+" contradict each other")
	}
}

// Plain http to another machine needs the context's consent, which was given at the login.
func TestClient_PlainHTTP_NeedsConsent(t *testing.T) {
	t.Parallel()
	a := account.Account{Context: account.Context{BaseURL: "http://service.example"}, Token: token}
	_, err := a.Client()
	require.Error(t, err)
	a.Context.InsecureHTTP = true
	_, err = a.Client()
	require.NoError(t, err)
}

// Names that are the usual ones are not kept, so a later version may change them.
func TestQueryNames_Unusual_LeavesOutTheUsual(t *testing.T) {
	t.Parallel()
	usual := account.QueryNames{
		PatientID: "patient_id", PerPage: "per_page", Sort: "sort", Page: "page", Cursor: "cursor",
	}
	assert.Zero(t, usual.Unusual())
	names := account.QueryNames{PatientID: "patient", PerPage: "limit", Sort: "order", Page: "p", Cursor: "after"}
	assert.Equal(t, names, names.Unusual())
}
