package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/account"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/fileheader"
)

// envNATS names a NATS server, where its URL holds a password.
const envNATS = "CLINICALDOC_NATS"

// journalPlace is where the journal is: in a file, or with a fleet.
type journalPlace struct {
	journal         string
	begin           bool
	nats, natsCreds string
	natsReplicas    int
}

func (p *journalPlace) placeFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(
		&p.journal, "journal", "", "the journal's `FILE` (default one for each service and user, in the state folder)",
	)
	f.StringVar(
		&p.nats, "nats", "",
		"use the journal and queue of a fleet, on the NATS server at this `URL` (also CLINICALDOC_NATS)",
	)
	f.StringVar(&p.natsCreds, "nats-creds", "", "a `FILE` with the credentials for the NATS server")
}

func (p *journalPlace) fleetFlags(c *cobra.Command) {
	c.Flags().StringVar(&p.nats, "nats", "", "the `URL` of the fleet's NATS server (also CLINICALDOC_NATS)")
	c.Flags().StringVar(&p.natsCreds, "nats-creds", "", "a `FILE` with the credentials for the NATS server")
}

// checkFleet is checkPlace where there has to be a fleet.
func (p *journalPlace) checkFleet() error {
	if err := p.checkPlace(); err != nil {
		return err
	}
	if p.nats == "" {
		return usagef("name the fleet's server with --nats, or with %s", envNATS)
	}
	return nil
}

// checkPlace takes the server's URL from the flag, which must not hold a password, or from the environment.
func (p *journalPlace) checkPlace() error {
	for server := range strings.SplitSeq(p.nats, ",") {
		u, err := url.Parse(strings.TrimSpace(server))
		if err != nil || u.User != nil || strings.Contains(server, "@") {
			return usagef(
				"--nats needs a URL without a password, because others could see it: use --nats-creds FILE, or put "+
					"the URL into %s", envNATS,
			)
		}
	}
	if p.nats == "" && p.journal == "" {
		p.nats = os.Getenv(envNATS)
	}
	if p.nats != "" && p.journal != "" {
		return usagef("--journal is for one machine, --nats for a fleet: name one")
	}
	return checkRegular("--nats-creds", p.natsCreds)
}

// checkRegular rejects a path that leads to something else than a file, such as a FIFO, which may never end. An
// empty path, and one that leads nowhere, are for whoever opens it.
func checkRegular(flag, path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return usagef("%s does not name a file", flag)
	}
	return nil
}

// journalName tells accounts apart. A service has one name, however its address is written.
func journalName(baseURL string, userID int64) string {
	return accountName(ingest.ServiceName(baseURL), userID)
}

// accountName returns a name for a user of a service. Another spelling of the service gives another name.
func accountName(service string, userID int64) string {
	sum := sha256.Sum256([]byte(service))
	return fmt.Sprintf("%s-user%d", hex.EncodeToString(sum[:6]), userID)
}

// journalsIn returns the journals in a folder. The folder's own name is not a pattern: it may contain brackets.
func journalsIn(folder string) (paths []string, err error) {
	names, err := fs.Glob(os.DirFS(folder), "*.journal")
	for _, name := range names {
		paths = append(paths, filepath.Join(folder, name))
	}
	return paths, err
}

// findJournal sets the file of one user of one service: what one account uploaded, another has not. A journal whose
// name was made in another way is found by what it says of itself, and stays where it is.
func (p *journalPlace) findJournal(ctx context.Context, baseURL string, userID int64) error {
	if p.journal != "" {
		return nil
	}
	folder, err := account.StateFolder("journals")
	if err != nil {
		return err
	}
	p.journal = filepath.Join(folder, journalName(baseURL, userID)+".journal")
	if _, err := os.Lstat(p.journal); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	all, err := journalsIn(folder)
	if err != nil {
		return err
	}
	var others []string
	for _, path := range all {
		owner, _, err := ingest.ReadJournal(ctx, path)
		user := owner.UserID
		if user == 0 { // journals of the first version tell it by their name alone
			_, _ = fmt.Sscanf(path[strings.LastIndex(path, "-")+1:], "user%d", &user)
		}
		if err == nil && ingest.ServiceName(owner.Service) == ingest.ServiceName(baseURL) && user == userID {
			others = append(others, path)
		}
	}
	switch len(others) {
	case 0:
	case 1:
		p.journal = others[0]
	default:
		return &refusedError{
			"there are several journals of this service and user: " + strings.Join(others, ", "),
			"name the one that was used last with --journal, each time",
		}
	}
	return nil
}

// openJournal opens the journal's file. One that is not there is begun by a person's word alone.
func (o *uploadOptions) openJournal(ctx context.Context, baseURL string, userID int64) (*ingest.FileJournal, error) {
	if err := o.findJournal(ctx, baseURL, userID); err != nil {
		return nil, err
	}
	journal, err := ingest.OpenJournal(ctx, o.journal)
	if !errors.Is(err, fs.ErrNotExist) {
		return journal, err
	}
	if !o.begin && o.IO.CanAsk() {
		o.IO.Note("There is no journal of this user's uploads to this service in %s.", o.journal)
		if o.begin, err = o.IO.Ask(ctx, "Begin one? (If there was one, have it restored instead.)"); err != nil {
			return nil, err
		}
	}
	if !o.begin {
		return nil, &refusedError{
			"there is no journal of this user's uploads to this service in " + o.journal + ": nothing was sent",
			"if there was one, put it back or name it with --journal; if nothing was uploaded yet, add --begin, " +
				"once",
		}
	}
	owner := ingest.Owner{Service: ingest.ServiceName(baseURL), UserID: userID, Headers: fileheader.NoHeaders}
	return ingest.BeginJournal(ctx, o.journal, owner)
}
