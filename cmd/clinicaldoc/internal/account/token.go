package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

// secret is what is kept of a token: with the base URL that it was given for, so that an edited context cannot send it
// elsewhere.
type secret struct {
	BaseURL string `json:"base_url"`
	Token   string `json:"token"`
}

// Keyring keeps secrets by name.
type Keyring interface {
	Set(name, secret string) error
	// Get returns fs.ErrNotExist for a name that is not there.
	Get(name string) (string, error)
	Delete(name string) error
}

// SystemKeyring is the system's: Keychain, Credential Manager, Secret Service.
type SystemKeyring struct{}

const (
	keyringService = "clinicaldoc"
	// keyringLimit is how long the system may take: a silent message bus would hang for ever.
	keyringLimit = 3 * time.Second
)

// ErrKeyring means that the token is in a keyring that does not respond, as where nobody is logged in to the desktop.
var ErrKeyring = errors.New("the token is in the system's keyring, which cannot be used here")

// within returns what the keyring says, or [ErrKeyring] if that takes too long.
func within[T any](do func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), keyringLimit, ErrKeyring)
	defer cancel()
	return output.Await(ctx, do)
}

// Set implements Keyring.
func (SystemKeyring) Set(name, secret string) error {
	_, err := within(func() (struct{}, error) { return struct{}{}, keyring.Set(keyringService, name, secret) })
	return err
}

// Get implements Keyring.
func (SystemKeyring) Get(name string) (string, error) {
	text, err := within(func() (string, error) { return keyring.Get(keyringService, name) })
	return text, keyringError(err)
}

// keyringError tells what is not in the keyring from a keyring that is not there, whose own error may be "no such
// file".
func keyringError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, keyring.ErrNotFound):
		return fs.ErrNotExist
	}
	return ErrKeyring
}

// Delete implements Keyring.
func (SystemKeyring) Delete(name string) error {
	_, err := within(func() (struct{}, error) { return struct{}{}, keyring.Delete(keyringService, name) })
	return keyringError(err)
}

func tokenFile(name string) string { return filepath.Join("tokens", name+".json") }

// saveToken keeps a token in the keyring, or where there is none in a file, and returns in words where.
func (s *Store) saveToken(name, baseURL, token string) (where string, err error) {
	kept := secret{BaseURL: baseURL, Token: token}
	if s.Keyring != nil {
		text, err := json.Marshal(kept)
		if err != nil {
			return "", err
		}
		if s.Keyring.Set(name, string(text)) == nil {
			// An older one must not shadow it.
			if err := s.removeTokenFile(name); err != nil {
				return "", err
			}
			return "the system's keyring", nil
		}
	}
	path := filepath.Join(s.Folder, tokenFile(name))
	if err := s.write(tokenFile(name), kept); err != nil {
		return "", fmt.Errorf("the token cannot be stored: %w", err)
	}
	// Some file systems know no modes. A token that others can read is not kept.
	if _, err := readPrivate(path); err != nil {
		return "", errors.Join(&NotPrivateError{path}, s.removeTokenFile(name))
	}
	return "the file " + path, nil
}

// NotPrivateError is a file for this user alone that others can read.
type NotPrivateError struct{ Path string }

func (e *NotPrivateError) Error() string { return "other users can read " + e.Path }

// token returns a context's token and in words where it is kept. The file comes first: it is there only where the
// keyring failed, and looking costs nothing.
func (s *Store) token(name, baseURL string) (token, from string, err error) {
	path := filepath.Join(s.Folder, tokenFile(name))
	from = "file " + path
	text, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) && s.Keyring != nil {
		from = "keyring"
		var kept string
		kept, err = s.Keyring.Get(name)
		text = []byte(kept)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "", fmt.Errorf("the token of context %q is missing: %w", name, ErrNone)
	case err != nil && from == "keyring":
		return "", "", fmt.Errorf("context %q: %w", name, ErrKeyring)
	case err != nil:
		return "", "", err
	}
	var kept secret
	if json.Unmarshal(text, &kept) != nil || kept.Token == "" {
		return "", "", fmt.Errorf("the token of context %q cannot be read: %w", name, ErrNone)
	}
	if kept.BaseURL != baseURL {
		return "", "",
			&AmbiguousError{Text: fmt.Sprintf(
				"the token of context %q belongs to a different base URL than the context", name,
			)}
	}
	return kept.Token, from, nil
}

// readPrivate reads a file that nobody else may read.
func readPrivate(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && modeOf(info).Perm()&0o077 != 0 {
		return nil, &NotPrivateError{path}
	}
	return readRegular(path, maxTokenFile)
}

// modeOf is a variable for tests of file systems that know no modes.
var modeOf = fs.FileInfo.Mode

// removeToken removes a token from both places.
func (s *Store) removeToken(name string) error {
	_, statErr := os.Stat(filepath.Join(s.Folder, tokenFile(name)))
	if err := s.removeTokenFile(name); err != nil {
		return err
	}
	if s.Keyring == nil {
		return nil
	}
	err := s.Keyring.Delete(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) || statErr == nil {
		return nil // a token in a file says that the keyring had none
	}
	return fmt.Errorf("the token of context %q could not be removed and may still be stored: %w", name, ErrKeyring)
}

func (s *Store) removeTokenFile(name string) error {
	err := os.Remove(filepath.Join(s.Folder, tokenFile(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
