package account

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
)

// Context is a service that one has logged in to.
type Context struct {
	BaseURL string     `json:"base_url"`
	Query   QueryNames `json:"query_names,omitzero"`
	// InsecureHTTP allows plain http to another machine.
	InsecureHTTP bool `json:"insecure_http,omitempty"`
}

// Config is the file with the contexts. It holds no token.
type Config struct {
	Current  string             `json:"current,omitempty"`
	Contexts map[string]Context `json:"contexts,omitempty"`
}

// Store is where contexts and tokens are kept.
type Store struct {
	Folder  string
	Keyring Keyring // nil: tokens go to files
}

// EnvConfigDir and EnvStateDir move the folders of settings and of journals.
const (
	EnvConfigDir = "CLINICALDOC_CONFIG_DIR"
	EnvStateDir  = "CLINICALDOC_STATE_DIR"
	// EnvKeyring set to off keeps tokens in files.
	EnvKeyring = "CLINICALDOC_KEYRING"
)

// Open returns the store of this user. It touches neither disk nor keyring.
func Open() (*Store, error) {
	folder := os.Getenv(EnvConfigDir)
	if folder == "" {
		base, err := os.UserConfigDir()
		if err != nil {
			return nil, fmt.Errorf("the folder for settings cannot be determined: set %s", EnvConfigDir)
		}
		folder = filepath.Join(base, "clinicaldoc")
	}
	s := &Store{Folder: folder}
	if os.Getenv(EnvKeyring) != "off" {
		s.Keyring = SystemKeyring{}
	}
	return s, nil
}

// StateFolder is where journals and unsaved edits are kept; it is made for this user alone. Its place does not depend
// on the folder that a command is run in: a journal that is not found again is taken for a new one.
func StateFolder(parts ...string) (string, error) {
	folder := os.Getenv(EnvStateDir)
	switch {
	case folder == "":
		base, err := stateBase()
		if err != nil {
			return "", err
		}
		folder = filepath.Join(base, "clinicaldoc")
	case !filepath.IsAbs(folder):
		return "", &AmbiguousError{
			EnvStateDir + " is a relative path, so it would depend on the folder that the command runs in",
			"set it to an absolute path",
		}
	}
	folder = filepath.Join(append([]string{folder}, parts...)...)
	return folder, os.MkdirAll(folder, 0o700)
}

// stateBase is the folder of all programs' state. The specification of XDG_STATE_HOME wants a relative path ignored.
func stateBase() (string, error) {
	if base := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(base) {
		return base, nil
	}
	if local := os.Getenv("LOCALAPPDATA"); runtime.GOOS == "windows" && local != "" {
		return local, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("the folder for journals cannot be determined: set %s", EnvStateDir)
	}
	return filepath.Join(home, ".local", "state"), nil
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckName rejects a text that cannot be a context's name. The name is also part of a file's name.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("%q cannot be the name of a context: "+
			"use up to 64 letters, digits, dots, dashes and underscores, and begin with a letter or a digit", name)
	}
	return nil
}

var notInNames = regexp.MustCompile(`[^a-z0-9._-]`)

// NameFor returns the name of the context for a host, with or without a port. A host that is too long for a name,
// or has other characters, is shortened. It gets some digits of its hash, so two such hosts have two names.
func NameFor(host string) string {
	host = strings.ToLower(host)
	name := strings.ReplaceAll(host, ":", "-")
	if strings.HasPrefix(name, "[") {
		name = "ipv6-" + strings.Replace(name[1:], "]", "", 1)
	}
	if nameForm.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(host))
	name = strings.Trim(notInNames.ReplaceAllString(name, "-"), "._-")
	return strings.TrimLeft(name[:min(len(name), 50)]+"-"+hex.EncodeToString(sum[:4]), "-")
}

// The bounds of the files in the settings' folder.
const (
	maxConfig    = 16 << 20
	maxTokenFile = 256 << 10 // a token of 64 KiB, in JSON
)

// readRegular reads a file of at most limit bytes. It rejects a FIFO or a device, which may never end.
func readRegular(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf(
			"%s is not a regular file, or is larger than %d KiB: remove it, and log in again", path, limit>>10,
		)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, limit))
}

func (s *Store) configFile() string { return filepath.Join(s.Folder, "config.json") }

// Load reads the contexts; none is an empty Config.
func (s *Store) Load() (*Config, error) {
	config := &Config{}
	text, err := readRegular(s.configFile(), maxConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("the settings cannot be read: %w", err)
	default:
		if err := json.Unmarshal(text, config); err != nil {
			return nil, fmt.Errorf("%s cannot be read as settings: correct or remove it", s.configFile())
		}
	}
	if config.Contexts == nil {
		config.Contexts = map[string]Context{}
	}
	return config, nil
}

// lockLimit is how long a change of the settings waits for others.
const lockLimit = 20 * time.Second

// Change reads, changes and writes the contexts, while no other process does. Two concurrent logins make two
// contexts.
func (s *Store) Change(change func(*Config) error) error {
	if err := os.MkdirAll(s.Folder, 0o700); err != nil {
		return err
	}
	lock, err := disk.Take(filepath.Join(s.Folder, ".lock"))
	for begun := time.Now(); errors.Is(err, disk.ErrHeld) && time.Since(begun) < lockLimit; {
		time.Sleep(10 * time.Millisecond)
		lock, err = disk.Take(filepath.Join(s.Folder, ".lock"))
	}
	if err != nil {
		return fmt.Errorf("the settings cannot be changed: %w", err)
	}
	defer func() { _ = disk.Close(lock) }()
	config, err := s.Load()
	if err == nil {
		err = change(config)
	}
	if err != nil {
		return err
	}
	return s.write("config.json", config)
}

// Login keeps a context with its token and makes it the current one. It returns where the token went.
func (s *Store) Login(name string, context Context, token string) (where string, err error) {
	err = s.Change(func(config *Config) (err error) {
		for other := range config.Contexts {
			// many file systems and keyrings would keep one token for both
			if other != name && strings.EqualFold(other, name) {
				return &AmbiguousError{
					fmt.Sprintf("a context %q exists, and names that differ only in case could share a token", other),
					"use exactly that name, or one that differs in more than case, with --context",
				}
			}
		}
		// The token first: a context without one only asks to log in anew.
		where, err = s.saveToken(name, context.BaseURL, token)
		config.Contexts[name] = context
		config.Current = name
		return err
	})
	return where, err
}

// Logout forgets a context and its token, wherever that was kept.
func (s *Store) Logout(name string) error {
	return s.Change(func(config *Config) error {
		name = cmp.Or(name, config.Current)
		if _, ok := config.Contexts[name]; !ok {
			return fmt.Errorf("there is no context %q: %w", name, ErrNone)
		}
		if err := s.removeToken(name); err != nil {
			return err
		}
		delete(config.Contexts, name)
		if config.Current == name {
			config.Current = ""
		}
		return nil
	})
}

// resolved is the file that a path leads to: where it is a link, the file behind it is replaced, and the link stays.
func resolved(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	// The target may be missing: Readlink still names it.
	target, err := os.Readlink(path)
	switch {
	case err != nil:
		return path
	case filepath.IsAbs(target):
		return target
	}
	return filepath.Join(filepath.Dir(path), target)
}

// write replaces a file completely, for this user alone.
func (s *Store) write(name string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	path := resolved(filepath.Join(s.Folder, name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	// CreateTemp makes it for this user alone.
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}
