// Command clinicaldoc is the command line of a clinical documentation service: notes, recordings, tokens, uploads
// of folders, exports, and a local server to try it on. See clinicaldoc --help.
package main

import (
	"os"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/command"
)

func main() { os.Exit(command.Main(os.Args[1:])) }
