package command

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/account"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/progress"
)

// Env is what commands share. Nothing of it is opened before a command needs it.
type Env struct {
	IO *output.IO

	args        []string // of the command line
	contextName string
	debug       bool
	auditPath   string      // of the audit trail; empty: there is none
	trail       *auditTrail // nil: not opened
	retries     int
	found       *account.Account
	limit       limitNotice
}

// account returns the account to use.
func (e *Env) account() (*account.Account, error) {
	if e.found != nil {
		return e.found, nil
	}
	var err error
	e.found, err = account.Find(e.contextName)
	return e.found, err
}

// client returns a client for the account.
func (e *Env) client(options ...clinicaldoc.Option) (*clinicaldoc.Client, error) {
	a, err := e.account()
	if err != nil {
		return nil, err
	}
	return e.clientOf(a, options...)
}

// clientOf returns a client for an account, which the audit trail is told of.
func (e *Env) clientOf(a *account.Account, options ...clinicaldoc.Option) (*clinicaldoc.Client, error) {
	if e.retries < 0 {
		return nil, usagef("--retries must not be negative")
	}
	options = append(e.options(), options...)
	if e.auditPath != "" && e.trail == nil {
		trail, err := openAuditTrail(e.auditPath)
		if err != nil {
			return nil, err
		}
		e.trail = trail
	}
	if e.trail != nil {
		options = append(options, e.trail.option(a.Context.BaseURL))
	}
	return a.Client(options...)
}

// me returns a client for the account, and whose it is.
func (e *Env) me(ctx context.Context) (*clinicaldoc.Client, *clinicaldoc.User, error) {
	client, err := e.client()
	if err != nil {
		return nil, nil, err
	}
	user, err := client.Users.Me(ctx)
	return client, user, err
}

func (e *Env) options() []clinicaldoc.Option {
	options := []clinicaldoc.Option{clinicaldoc.WithUserAgent(
		"clinicaldoc/" + version() + " clinicaldoc-go/" + clinicaldoc.Version,
	)}
	options = append(options, clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: e.retries}))
	if e.debug {
		logger := slog.New(slog.NewTextHandler(e.IO.Err, &slog.HandlerOptions{Level: slog.LevelDebug}))
		options = append(options, clinicaldoc.WithLogger(logger))
	}
	if e.IO.ErrTTY {
		options = append(options, clinicaldoc.WithHooks(clinicaldoc.Hooks{AttemptEnd: e.attemptEnd}))
	}
	return options
}

// limitNotice is what a person was told of the service's rate limit.
type limitNotice struct {
	mu   sync.Mutex
	ends time.Time         // of the wait that was shown
	line func(text string) // shows a line above a command's progress; nil: there is none
}

// showAbove makes notices appear above what a command shows.
func (e *Env) showAbove(show progress.Reporter) {
	e.limit.mu.Lock()
	defer e.limit.mu.Unlock()
	e.limit.line = show.Line
}

// attemptEnd tells a person that the client waits, once for each wait: several requests may be refused together.
func (e *Env) attemptEnd(_ context.Context, a clinicaldoc.Attempt) {
	ends := time.Now().Add(a.RateLimitWait)
	e.limit.mu.Lock()
	defer e.limit.mu.Unlock()
	if a.RateLimitWait < time.Second || ends.Before(e.limit.ends.Add(time.Second)) {
		return
	}
	e.limit.ends = ends
	text := fmt.Sprintf("waiting %.0f s for the service's limit", a.RateLimitWait.Seconds())
	if e.limit.line != nil {
		e.limit.line(text)
		return
	}
	e.IO.Note("%s", text)
}

// version is the module's, or "devel" for a build from a checkout.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		return info.Main.Version
	}
	return "devel"
}

// build is the version with the commit and its time, where the build knows them.
func build() string {
	text := version()
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return text
	}
	of := map[string]string{}
	for _, s := range info.Settings {
		of[s.Key] = s.Value
	}
	if commit := of["vcs.revision"]; commit != "" {
		text += ", commit " + commit[:min(len(commit), 12)]
		if of["vcs.modified"] == "true" {
			text += " with changes"
		}
		text += " of " + of["vcs.time"]
	}
	return text + ", " + info.GoVersion
}

func quote(text string) string { return strconv.Quote(text) }

// exactly is for commands with so many arguments.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return &usageError{"want " + what, c.CommandPath() + " --help"}
		}
		return nil
	}
}

func between(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return &usageError{"want " + what, c.CommandPath() + " --help"}
		}
		return nil
	}
}

func atLeast(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < n {
			return &usageError{"want " + what, c.CommandPath() + " --help"}
		}
		return nil
	}
}

func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		// The argument is not repeated: a token pasted here by mistake must not be printed.
		return &usageError{"no arguments are expected", c.CommandPath() + " --help"}
	}
	return nil
}

func parseID(text, of string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		// The argument is not repeated: it may be a name.
		return 0, usagef("that is not the id of a %s: ids are numbers from 1", of)
	}
	return id, nil
}

func parseIDs(texts []string) ([]int64, error) {
	var ids []int64
	for _, text := range texts {
		id, err := parseID(text, "note")
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// withID is for commands whose argument is an id.
func withID(of string, id *int64, run func(context.Context) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) (err error) {
		if *id, err = parseID(args[0], of); err != nil {
			return err
		}
		return run(c.Context())
	}
}

// hostOf is the host of a base URL, which is safe to print; a URL may hold a password.
func hostOf(baseURL string) string {
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" {
		return "?"
	}
	return u.Host
}

func (e *Env) outf(text string, args ...any) error {
	_, err := fmt.Fprintf(e.IO.Out, text, args...)
	return err
}
