// Command gen makes the reference of clinicaldoc from its commands:
//
//	go run ./internal/gen > REFERENCE.md
//	go run ./internal/gen man FOLDER
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/command"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// run writes the reference to w, or the man pages to a folder, as the arguments want.
func run(args []string, w io.Writer) error {
	if len(args) == 0 {
		return reference(w)
	}
	if len(args) == 2 && args[0] == "man" {
		return manPages(args[1])
	}
	return errors.New("run it without arguments, or with man and a folder")
}

func root() *cobra.Command {
	c := command.New(&command.Env{IO: output.System()})
	c.InitDefaultHelpCmd()
	c.InitDefaultCompletionCmd()
	c.DisableAutoGenTag = true
	// Of the environment here, not of the command.
	c.PersistentFlags().Lookup("plain").DefValue = "false"
	return c
}

func manPages(folder string) error {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	return doc.GenManTree(
		root(), &doc.GenManHeader{Title: "CLINICALDOC", Section: "1", Source: "clinicaldoc", Manual: "clinicaldoc"},
		folder,
	)
}

// reference writes one page with every command.
func reference(w io.Writer) error {
	var page bytes.Buffer
	page.WriteString(
		"# clinicaldoc: every command\n\n" +
			"Made from the commands by `go run ./internal/gen > REFERENCE.md`; do not edit.\n" +
			"[docs/command-line.md](../../docs/command-line.md) explains them.\n",
	)
	r := root()
	write(&page, r)
	page.WriteString(
		"\n## Flags of every command\n\n```\n" + strings.TrimRight(r.PersistentFlags().FlagUsages(), "\n") + "\n```\n",
	)
	_, err := w.Write(page.Bytes())
	return err
}

func write(page *bytes.Buffer, c *cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.Hidden || sub.Name() == "help" || sub.Name() == "completion" && c.HasParent() {
			continue
		}
		fmt.Fprintf(page, "\n## %s\n\n", sub.CommandPath())
		text := sub.Long
		if text == "" || sub.Name() == "completion" {
			text = sub.Short + "."
		}
		if sub.Runnable() && !sub.HasSubCommands() {
			fmt.Fprintf(page, "```\n%s\n```\n\n", sub.UseLine())
		}
		// As it stands in the help, line for line.
		fmt.Fprintf(page, "```text\n%s\n```\n", strings.TrimSpace(text))
		if sub.Example != "" {
			fmt.Fprintf(page, "\nExamples:\n\n```sh\n%s\n```\n", unindent(sub.Example))
		}
		if flags := strings.TrimRight(
			sub.NonInheritedFlags().FlagUsages(), "\n",
		); flags != "" && sub.Name() != "completion" {
			fmt.Fprintf(page, "\n```\n%s\n```\n", flags)
		}
		if sub.Name() != "completion" {
			write(page, sub)
		}
	}
}

func unindent(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return strings.Join(lines, "\n")
}
