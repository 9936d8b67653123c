// Package devproxy runs a local server with synthetic data, or a proxy to the real service that reports where
// responses differ from the service's description.
package devproxy

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"strings"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

// settings are the command line's.
type settings struct {
	addr, storageAddr, host string
	transcription, analysis time.Duration
	variant                 clinicaldoctest.Variant
	seed                    seed
	faults                  []fault
	token                   string
	quiet, control          bool
	showBodies              bool
	upstream                string
}

var help = `NAME serves the clinical documentation service on this machine.

Without -upstream, it is a local server with synthetic data. It prints a base URL
and a token, processes notes as the service does, and keeps nothing when it ends.
With -upstream, it forwards requests to a real service. It reports where responses
differ from the service's description, for each request and in a summary at the
end. The reports contain paths and types, never values.

  NAME -seed 20
  NAME -variant cursor -fault "POST /v1/progress-notes:reset-after-commit"
  NAME -upstream https://service.example

A fault is ROUTE:KIND[=ARGUMENT][:HOW OFTEN]. It affects one request, unless
HOW OFTEN is one or several of these, with colons between them:

  3                    the next 3 requests
  always               every request
  every=20             every 20th request
  rate=0.05            each request with this probability
  after=2              not the first 2 requests
  commit=90s           the request is carried out anyway, this much later

Kinds:

` + faultKinds() + `
A seed file contains {"users": [...], "patients": [...], "notes": [...]} with these
members:

  users                name, email, team_id, token
  patients             id, name
  notes                id, user_id, patient_id, prompt_id, name, stage, stuck,
                       transcription, analysis, error_state, created_at

The page at /_/ shows requests as they arrive, and changes faults, clock and
variant while the server runs. Programs can use the same controls as JSON. Both are
available only on this machine, and -control=false turns them off.
/_/openapi.json is the service's description as an OpenAPI document. It is always
served.

The log is written to standard error. It contains no token, query value, id or body.

Flags:
`

// faultKinds lists the kinds of faults as the help does.
func faultKinds() string {
	var list strings.Builder
	for _, kind := range boxlink.FaultKinds {
		name := kind.Name
		if kind.Example != "" {
			name += "=" + kind.Example
		}
		fmt.Fprintf(&list, "  %-20s %s\n", name, kind.Usage)
	}
	return list.String()
}

// UsageError is a mistake in the arguments: nothing was served.
type UsageError struct{ text string }

func (e *UsageError) Error() string { return e.text }

// Run serves until the context ends, as the arguments say. The name is what the program is called by its user.
func Run(ctx context.Context, name string, args []string, stdout, stderr io.Writer) error {
	var set settings
	flags := set.flags()
	listVariants := flags.Bool("variants", false, "list the variants and exit")
	showVersion := flags.Bool("version", false, "print the version and exit")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return printHelp(stdout, name, flags)
	case err != nil:
		return &UsageError{err.Error() + "\n-help lists the flags"}
	case flags.NArg() > 0:
		return &UsageError{fmt.Sprintf("unexpected argument %q; -help lists the flags", flags.Arg(0))}
	case *showVersion:
		_, err := fmt.Fprintln(stdout, name, version())
		return err
	case *listVariants:
		return printVariants(stdout)
	case set.upstream != "":
		if stray := onlyForTheBox(flags); stray != "" {
			return &UsageError{fmt.Sprintf("-%s has no effect with -upstream; leave it out", stray)}
		}
		err = serveUpstream(ctx, set, stdout, stderr)
	default:
		err = serveBox(ctx, set, stdout, stderr)
	}
	return listenError(err)
}

// AddressError means that an address cannot be used, such as one that another program uses. Do says what to do.
type AddressError struct{ Text, Do string }

func (e *AddressError) Error() string { return e.Text + "; " + e.Do }

// listenError returns an [AddressError] if the error is about a listening address.
func listenError(err error) error {
	failed, ok := errors.AsType[*net.OpError](err)
	if !ok || failed.Op != "listen" {
		return err
	}
	text := "cannot listen"
	if failed.Addr != nil {
		text += " on " + failed.Addr.String()
	}
	return &AddressError{
		text + ": " + failed.Err.Error(), "end the program that uses this address, or pass another one with -addr",
	}
}

// flags returns the flags that fill the settings. They print nothing: a mistake is told in one line, not under the
// help.
func (set *settings) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	flags.StringVar(&set.addr, "addr", "127.0.0.1:8790", "listening `address` of the API")
	flags.StringVar(
		&set.storageAddr, "storage-addr", "",
		"listening `address` of the audio storage (default a free port on this machine; if other machines can reach "+
			"-addr, the port after it)",
	)
	flags.StringVar(
		&set.host, "host", "", "`name` by which programs reach this machine, if it is not the listening address",
	)
	set.transcription, set.analysis = 2*time.Second, 2*time.Second
	flags.Func(
		"transcription", "how long a transcription takes, a `duration` (default 2s)",
		positiveDuration(&set.transcription),
	)
	flags.Func("analysis", "how long an analysis takes, a `duration` (default 2s)", positiveDuration(&set.analysis))
	flags.Func("token", "the access `token` of the first user (default a random one)", func(token string) error {
		set.token = token
		return checkToken(token)
	})
	flags.BoolVar(&set.control, "control", true, "serve the inspector and its controls at /_/, to this machine only")
	flags.BoolVar(&set.quiet, "quiet", false, "do not log requests")
	flags.BoolVar(
		&set.showBodies, "show-bodies", false,
		"with -upstream: keep bodies in memory and show them in the inspector, including patients' data",
	)
	flags.StringVar(&set.upstream, "upstream", "", "base `URL` of a real service to forward requests to")
	flags.Func("variant", "`name` of the variant, which decides what the description leaves open (see "+
		"-variants)", func(name string) (err error) {
		set.variant, err = variantNamed(name)
		return err
	})
	flags.Func("seed", "`number` of synthetic notes to start with, or a JSON file", func(text string) (err error) {
		set.seed, err = readSeed(text)
		return err
	})
	flags.Func("fault", "`spec` of a fault to inject, in the form described above (can be repeated)",
		func(text string) error {
			f, err := parseFault(text)
			set.faults = append(set.faults, f)
			return err
		})
	return flags
}

// log returns where requests are told.
func (set *settings) log(stderr io.Writer) *requestLog {
	if set.quiet {
		return newRequestLog(io.Discard)
	}
	return newRequestLog(stderr)
}

// inspector returns the page and the controls, if they are wanted.
func (set *settings) inspector(followed *traffic, controls controls) *inspector {
	if !set.control {
		return nil
	}
	return &inspector{traffic: followed, events: followed.events, controls: controls}
}

// pageLine tells where the page is. It is served under this machine's own names alone, so that the host's would not do.
func (set *settings) pageLine(address string) string {
	if !set.control {
		return ""
	}
	if set.host != "" {
		address = "http://localhost" + address[strings.LastIndex(address, ":"):]
	}
	return "  inspector " + address + pagePath + "\n"
}

// checkToken refuses what no client could send.
func checkToken(token string) error {
	if _, err := clinicaldoc.NewClient("http://localhost", token); err != nil {
		return errors.New("the token cannot be sent in an Authorization header")
	}
	return nil
}

func positiveDuration(into *time.Duration) func(string) error {
	return func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return errors.New("want a duration such as 2s or 0s")
		}
		*into = d
		return nil
	}
}

func printHelp(w io.Writer, name string, flags *flag.FlagSet) error {
	flags.SetOutput(w)
	_, err := io.WriteString(w, strings.ReplaceAll(help, "NAME", name))
	flags.PrintDefaults()
	return err
}

// version is the module's, or the commit of a build from a checkout.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	return cmp.Or(info.Main.Version, "(devel)") + " " + info.GoVersion
}

func printVariants(w io.Writer) error {
	for _, v := range clinicaldoctest.Variants() {
		if _, err := fmt.Fprintln(w, v.Name); err != nil {
			return err
		}
	}
	return nil
}

func variantNamed(name string) (clinicaldoctest.Variant, error) {
	v, known := clinicaldoctest.VariantNamed(name)
	if !known {
		return v, errors.New("no such variant; -variants lists them")
	}
	return v, nil
}

// onlyForTheBox returns a flag that was set and that a real service would not heed.
func onlyForTheBox(flags *flag.FlagSet) (stray string) {
	flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "addr", "control", "fault", "host", "quiet", "show-bodies", "upstream":
		default:
			stray = f.Name
		}
	})
	return stray
}
