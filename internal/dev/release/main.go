// Release makes the releases of this repository: the module at its root and those below it, all in one version.
//
//	go run -C internal/dev/release . check v0.2.0     what must be true before, and of the tagged commit
//	go run -C internal/dev/release . rehearse v0.2.0  a release in a scratch clone, used from outside through a file proxy
//	go run -C internal/dev/release . prepare v0.2.0   the release's commit and tags, on a branch of its own; pushes nothing
//	go run -C internal/dev/release . notes v0.2.0     what the changelog says of it
//	go run -C internal/dev/release . build v0.2.0 DIR the command's archives, their bills of materials, checksums, in a folder
//	                                                  of the repository; of certain platforms if such as linux/amd64 follow
//
// docs/releases.md tells the whole way.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, flag.Args(), os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	usage := errors.New("usage: release check|rehearse|prepare|notes VERSION, or release build VERSION DIR [PLATFORM ...]")
	if len(args) < 2 {
		return usage
	}
	version, err := parseVersion(args[1])
	if err != nil {
		return err
	}
	dir, err := repository{dir: "."}.git(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	repo := repository{dir: strings.TrimSpace(dir), out: out}
	switch command := args[0]; {
	case command == "check" && len(args) == 2:
		return repo.check(ctx, version)
	case command == "rehearse" && len(args) == 2:
		return repo.rehearse(ctx, version)
	case command == "prepare" && len(args) == 2:
		return repo.prepare(ctx, version)
	case command == "notes" && len(args) == 2:
		notes, err := repo.section(version)
		if err != nil {
			return err
		}
		_, err = io.WriteString(out, notes+"\n")
		return err
	case command == "build" && len(args) == 3:
		return repo.build(ctx, version, repo.in(args[2]).dir, platforms)
	case command == "build" && len(args) > 3:
		return repo.build(ctx, version, repo.in(args[2]).dir, args[3:])
	default:
		return usage
	}
}
