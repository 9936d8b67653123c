// Package command is the commands of clinicaldoc, one file each.
package command

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

// Main runs a command line and returns the exit code.
func Main(args []string) int {
	ctx, stop := withSignals()
	defer stop()
	env := &Env{IO: output.System(), args: args}
	root := New(env)
	root.SetArgs(joinMembers(root, args))
	cobra.MousetrapHelpText = "" // a double click on Windows shows the help and ends
	help := &checkedWriter{to: env.IO.Out}
	root.SetOut(help)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = help.err
	}
	if err == nil {
		return 0
	}
	env.tell(ctx, err)
	return exitCode(ctx, err)
}

// checkedWriter remembers the first error: cobra drops those of the help.
type checkedWriter struct {
	to  io.Writer
	err error
}

func (w *checkedWriter) Write(text []byte) (int, error) {
	n, err := w.to.Write(text)
	if w.err == nil {
		w.err = err
	}
	return n, err
}

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal os.Signal }

func (e *signalError) Error() string { return "interrupted" }

// interrupts are what Ctrl-C sends.
var interrupts = make(chan os.Signal, 1)

// leaveInterruptsTo runs a program to which Ctrl-C is left, such as an editor, and calls meanwhile while it runs.
//
// The signal reaches this process too, and must not arrive here late. While the program runs, the system drops it. It
// is not ignored before the start, because then the program would never get it. One that came before that was passed
// on when Stop returns. At any time the signal has a receiver or is ignored, or else it would end the process. Windows
// cannot ignore it, so there it has a receiver all the time.
func leaveInterruptsTo(program *exec.Cmd, meanwhile func()) error {
	unused := make(chan os.Signal, 1)
	signal.Notify(unused, os.Interrupt)
	signal.Stop(interrupts)
	defer func() {
		signal.Notify(unused, os.Interrupt)
		last := make(chan os.Signal, 1)
		signal.Notify(last, os.Interrupt)
		signal.Stop(last)
		signal.Notify(interrupts, os.Interrupt)
		signal.Stop(unused)
	}()
	if err := program.Start(); err != nil {
		return err
	}
	if runtime.GOOS != "windows" {
		signal.Ignore(os.Interrupt)
	}
	meanwhile()
	return program.Wait()
}

// withSignals ends the context at the first signal; a second one ends the process at once.
func withSignals() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	terminations := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	signal.Notify(terminations, syscall.SIGTERM)
	stop := func() {
		signal.Stop(interrupts)
		signal.Stop(terminations)
	}
	go func() {
		select {
		case s := <-interrupts:
			stop()
			cancel(&signalError{s})
		case s := <-terminations:
			stop()
			cancel(&signalError{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// New returns the command with all its subcommands.
func New(env *Env) *cobra.Command {
	const short = "Work with a clinical documentation service"
	root := group("clinicaldoc", short, short+`: notes, recordings, tokens, uploads of folders, exports.

  clinicaldoc box                          a service on this machine, to try things on
  clinicaldoc login https://service.example
  clinicaldoc notes list
  clinicaldoc upload --patient 7 --prompt 1 recordings/

Tables contain ids, stages and times. Names and texts of notes are printed only by "notes show" and with --reveal.`)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Version = build()
	root.SetVersionTemplate("clinicaldoc {{.Version}}\n")
	root.SetIn(env.IO.In)
	root.SetOut(env.IO.Out)
	root.SetErr(env.IO.Err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &usageError{err.Error(), c.CommandPath() + " --help"}
	})
	flags := root.PersistentFlags()
	flags.StringVar(&env.contextName, "context", "", "use the context with this `NAME` instead of the current one")
	flags.BoolVar(
		&env.IO.Plain, "plain", env.IO.Plain,
		"plain lines: no redrawn rows, no aligned tables (also CLINICALDOC_PLAIN=1)",
	)
	flags.BoolVar(&env.IO.Raw, "raw", false, "print the service's texts unchanged: they can control a terminal")
	flags.BoolVar(
		&env.debug, "debug", false,
		"log every attempt to standard error: routes, codes and times, without patient data",
	)
	flags.StringVar(
		&env.auditPath, "audit", "",
		"append a line of JSON to this `FILE` for each record seen or changed: it names patients",
	)
	flags.IntVar(&env.retries, "retries", 3, "retry a failed attempt up to this `NUMBER` of times, if that is safe")
	_ = root.RegisterFlagCompletionFunc("context", env.completeContexts)

	root.AddGroup(
		&cobra.Group{ID: "account", Title: "Account:"}, &cobra.Group{ID: "work", Title: "Notes and recordings:"},
		&cobra.Group{ID: "help", Title: "When something is wrong, and to try things:"},
	)
	add(root, "account", newLogin(env), newLogout(env), newStatus(env), newContext(env), newWhoami(env), newTokens(env))
	add(root, "work", newNotes(env), newAudio(env), newUpload(env), newFleet(env), newExport(env), newWatch(env))
	add(root, "help", newBox(env), newDoctor(env), newAPI(env))
	root.AddCommand(newExitCodes(), newEnvironment())
	root.SetHelpCommand(newHelp(root))
	return root
}

func add(root *cobra.Command, id string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = id
		root.AddCommand(c)
	}
}

// group is a command that only holds others. A mistyped one is an error, not a help text and success.
func group(use, short, long string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: long, SuggestionsMinimumDistance: 2,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			text := "there is no command " + quote(args[0])
			if near := c.SuggestionsFor(args[0]); len(near) > 0 {
				text += "; did you mean " + quote(near[0]) + "?"
			}
			return &usageError{text, c.CommandPath() + " --help"}
		},
		RunE: func(c *cobra.Command, _ []string) error {
			if err := c.Help(); err != nil {
				return err
			}
			if c.HasParent() {
				return errQuiet
			}
			return nil
		},
	}
}

// newHelp is the help of a command. One that is not there is an error.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command",
		ValidArgsFunction: func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if c, _, err := root.Find(args); err == nil {
				for _, sub := range c.Commands() {
					if strings.HasPrefix(sub.Name(), begun) {
						names = append(names, sub.Name()+"\t"+sub.Short)
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return &usageError{"there is no such command", "clinicaldoc --help"}
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
}

// errQuiet is an exit with the code of wrong usage after the help was printed.
var errQuiet = errors.New("a subcommand is missing")
