package command

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/account"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/report"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

type reportOptions struct {
	*Env
	format
	which              string
	html, list, reveal bool
}

func newUploadReport(e *Env) *cobra.Command {
	o := &reportOptions{Env: e}
	c := &cobra.Command{
		Use: "report [DATE|ID]", Short: "Show what became of an upload, and what to do",
		Args: between(0, 1, "at most one date, such as 2026-11-15, or the beginning of a report's id"),
		Long: `Show what became of the last upload, of those of a day, or of one by its id: how many encounters are
complete, what to do now and by whom, and what became of the others. Recordings with the same next step and reason are
listed together, at most ten of them; --json lists all. The service is not contacted. The newest 200 reports are kept
in the state folder, where only you can read them. They contain file names and patients, which --reveal shows.

--html writes one page that can be mailed.`,
		Example: "  clinicaldoc upload report\n  clinicaldoc upload report 2026-11-15 --reveal\n" +
			"  clinicaldoc upload report --html > last-night.html\n  clinicaldoc upload report --list",
		RunE: func(c *cobra.Command, args []string) error {
			o.which = strings.Join(args, "")
			return o.run(c.Context())
		},
	}
	o.flags(c, report.Run{})
	c.Flags().BoolVar(&o.html, "html", false, "write the report as an HTML page")
	c.Flags().BoolVar(&o.list, "list", false, "list the reports that are kept")
	c.Flags().BoolVar(&o.reveal, "reveal", false, "show files, patients and the service's own messages")
	return c
}

func (o *reportOptions) run(ctx context.Context) error {
	folder, err := account.StateFolder("reports")
	if err != nil {
		return err
	}
	if o.list && o.which == "" {
		o.which = "all"
	}
	runs, err := report.List(folder, o.which)
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return o.none(ctx)
	}
	for i := range runs {
		if !o.reveal {
			runs[i] = runs[i].Hidden()
		}
		runs[i] = runs[i].Summarized()
	}
	if o.html {
		var page strings.Builder
		if err := report.HTML(&page, runs); err != nil {
			return err
		}
		return o.outf("%s", o.IO.Text(page.String()))
	}
	return o.paged(ctx, func() error {
		return o.print(ctx, &o.format, runs, func() error {
			if o.list {
				return o.table(runs)
			}
			var text strings.Builder
			for _, run := range runs {
				report.Text(&text, run, o.reveal)
			}
			return o.outf("%s", o.IO.Text(text.String()))
		})
	})
}

// none is the result where no report fits.
func (o *reportOptions) none(ctx context.Context) error {
	switch {
	case o.which == "":
		return &refusedError{
			"there are no reports of uploads yet", "upload something first: every upload keeps a report",
		}
	case !o.list || o.which != "all":
		return errNoReport
	}
	return o.print(ctx, &o.format, []report.Run{}, func() error {
		o.IO.Note("There are no reports of uploads yet.")
		return nil
	})
}

// errNoReport means that no report has this date or id.
var errNoReport = &refusedError{"there is no such report", `"clinicaldoc upload report --list" lists them`}

func (o *reportOptions) table(runs []report.Run) error {
	var rows [][]string
	for _, r := range runs {
		rows = append(rows, []string{r.ID, o.IO.Time(r.Began), strconv.Itoa(r.Code), r.Outcome()})
	}
	return o.IO.Table([]string{"ID", "BEGAN", "CODE", "OUTCOME"}, rows)
}

type resolveOptions struct {
	uploadOptions
	key       string
	note      int64
	none      bool
	sendAgain bool
	force     bool
}

// doubt is a recording that a person can decide about.
type doubt struct {
	key        ingest.Key
	candidates []int64
	failed     bool // the service could not process it
	hasNote    bool
}

func newUploadResolve(e *Env) *cobra.Command {
	o := &resolveOptions{uploadOptions: uploadOptions{Env: e}}
	c := &cobra.Command{
		Use: "resolve KEY", Short: "Decide which note a recording has become",
		Args: exactly(1, "the key of a recording, as the report shows it"),
		Long: `Decide which note an unresolved recording has become. Without --note and --none, it lists the possible
notes and when each was created; --reveal adds their names. Compare them with the recording, for example with
"clinicaldoc audio download".

--note names the recording's note. The note is read: it must belong to the patient, and not to another recording.
--none states that there is no note: the next upload sends the recording, unless a note with the same content exists.
Use it only after checking the patient's notes. It is rejected while the service may still be processing the upload,
unless --force is set.

--send-again is for a recording that the service could not process, or whose note was deleted: the next upload sends it
once more, and makes another note. The failed note stays at the service; the journal keeps its ID. The journal also
keeps who decided, and when.`,
		Example: "  clinicaldoc upload resolve 3f9a2c41d0b2\n  clinicaldoc upload resolve 3f9a2c41d0b2 --note 42\n" +
			"  clinicaldoc upload resolve 3f9a2c41d0b2 --none\n  clinicaldoc upload resolve 3f9a2c41d0b2 --send-again",
		RunE: func(c *cobra.Command, args []string) error {
			o.key = strings.ToLower(args[0])
			if err := o.checkPlace(); err != nil {
				return err
			}
			if err := o.checkDecision(); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	o.placeFlags(c)
	c.Flags().Int64Var(&o.note, "note", 0, "the recording's note is the one with this `ID`")
	c.Flags().BoolVar(&o.none, "none", false, "the recording has no note")
	c.Flags().BoolVar(
		&o.sendAgain, "send-again", false,
		"send the recording once more: the service could not process it, or its note was deleted",
	)
	c.Flags().BoolVar(
		&o.force, "force", false,
		"with --none: decide although the service may still be processing the upload; this can make two notes",
	)
	c.Flags().BoolVar(&o.reveal, "reveal", false, "show the names of the possible notes")
	return c
}

func (o *resolveOptions) checkDecision() error {
	given := 0
	for _, is := range []bool{o.none, o.sendAgain, o.note != 0} {
		if is {
			given++
		}
	}
	switch {
	case given > 1 || o.note < 0:
		return usagef("add --note ID, --none or --send-again")
	case o.force && !o.none:
		return usagef("--force needs --none")
	}
	return nil
}

// mayDecide reports whether a decision can be about this recording.
func (o *resolveOptions) mayDecide(d doubt) bool {
	isOpen := !d.hasNote || d.failed || o.sendAgain
	return isOpen && strings.HasPrefix(d.key.String(), o.key)
}

func (o *resolveOptions) run(ctx context.Context) error {
	journal, doubts, client, done, err := o.openDoubts(ctx)
	if err != nil {
		return err
	}
	defer done()
	var fits []doubt
	for _, d := range doubts {
		if o.mayDecide(d) {
			fits = append(fits, d)
		}
	}
	if len(fits) != 1 || len(o.key) < 4 {
		text := output.Count(len(fits), "unresolved or failed recording has", "unresolved or failed recordings have")
		return &refusedError{
			text + " a key that begins with these digits: nothing was changed",
			`"clinicaldoc upload status --json" lists them`,
		}
	}
	key := fits[0].key.String()[:keyDigits]
	if !o.none && !o.sendAgain && o.note == 0 {
		if fits[0].failed {
			o.IO.Note("The service could not process it, or its note was deleted: %s.", adviceToSendAgain(key))
			return nil
		}
		return o.showCandidates(ctx, client, key, fits[0].candidates)
	}
	decision := ingest.Resolution{NoteID: o.note, SendAgain: o.sendAgain, Force: o.force, By: whoSays()}
	err = (&ingest.Uploader{Client: client, Journal: journal}).Resolve(ctx, fits[0].key, decision)
	if err != nil {
		return o.notResolved(err)
	}
	become := "none"
	if o.sendAgain {
		become = "again"
		o.IO.Note("The next upload of the recording sends it: \"clinicaldoc upload retry\", or the same upload again.")
	}
	if o.note != 0 {
		become = strconv.FormatInt(o.note, 10)
	}
	return o.outf("%s\t%s\n", key, become)
}

// notResolved says why a decision was not stored.
func (o *resolveOptions) notResolved(err error) error {
	switch {
	case errors.Is(err, ingest.ErrKeyReused):
		return refusedf("note %d belongs to another recording", o.note)
	case errors.Is(err, clinicaldoc.ErrPatientMismatch):
		return refusedf("note %d belongs to another patient", o.note)
	case errors.Is(err, clinicaldoc.ErrInvalidArgument):
		return refusedf("%s: nothing was changed", errorText(err))
	}
	return err
}

// openDoubts opens the journal and lists what is unresolved.
func (o *uploadOptions) openDoubts(ctx context.Context) (ingest.Journal, []doubt, *clinicaldoc.Client, func(), error) {
	client, user, err := o.me(ctx)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	var doubts []doubt
	if o.nats != "" {
		fleet, conn, err := o.openFleet(ctx, client.BaseURL(), user.ID)
		if err != nil {
			return nil, nil, nil, nil, err
		}
		for entry, err := range fleet.Journal().Entries(ctx) {
			if err != nil {
				conn.Close()
				return nil, nil, nil, nil, err
			}
			doubts = appendDoubt(doubts, entry)
		}
		return fleet.Journal(), doubts, client, conn.Close, nil
	}
	if err := o.findJournal(ctx, client.BaseURL(), user.ID); err != nil {
		return nil, nil, nil, nil, err
	}
	journal, err := ingest.OpenJournal(ctx, o.journal)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	_, entries, err := ingest.ReadJournal(ctx, o.journal)
	if err != nil {
		return nil, nil, nil, nil, errors.Join(err, journal.Close())
	}
	for _, e := range entries {
		doubts = appendDoubt(doubts, e)
	}
	return journal, doubts, client, func() { _ = journal.Close() }, nil
}

// appendDoubt appends an entry that a person can decide about.
func appendDoubt(doubts []doubt, e ingest.Entry) []doubt {
	isOpen := e.State == ingest.StateInDoubt || e.State == ingest.StateCommitting
	hasNote := e.State == ingest.StateCreated
	if !isOpen && !hasNote {
		return doubts
	}
	failed := hasNote && e.Stage == clinicaldoc.StageFailed
	return append(doubts, doubt{key: e.Key, candidates: e.Candidates(), hasNote: hasNote, failed: failed})
}

// whoSays is who runs this command, for the journal.
func whoSays() string {
	if name := firstSet("USER", "LOGNAME", "USERNAME"); name != "" {
		return name
	}
	return "user " + strconv.Itoa(os.Getuid())
}

func newUploadRetry(e *Env) *cobra.Command {
	o := &uploadOptions{Env: e}
	c := &cobra.Command{
		Use: "retry [DATE|ID]", Short: "Upload again what an upload left over",
		Args: between(0, 1, "at most one date, or the beginning of a report's id"),
		Long: `Upload again what the last upload, or those of a day, left over: recordings that were refused, are
unresolved, or were cut off. Files, patients, prompts and names come from the report. Recordings that have a note by
now are not sent again. Without a date, recordings of earlier uploads are included if "clinicaldoc upload resolve"
decided that they are to be sent.

With --nats, the fleet's dead letters go back into its queue, and a running worker uploads them. If no worker is
running, the command says so, and the exit code is 8.`,
		Example: "  clinicaldoc upload retry\n  clinicaldoc upload retry 2026-11-15",
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.checkPlace(); err != nil {
				return err
			}
			if o.nats != "" {
				return o.redrive(c.Context())
			}
			list, err := o.toRetry(c.Context(), strings.Join(args, ""))
			if err != nil {
				return err
			}
			if len(list) == 0 && len(o.left) == 0 {
				o.IO.Note("Nothing was left over.")
				return nil
			}
			if len(list) == 0 {
				o.sumLeftOut()
				return o.leftOutError()
			}
			return o.runRecorded(c.Context(), func(context.Context) ([]ingest.Recording, error) { return list, nil })
		},
	}
	o.flags(c, uploadResult{})
	o.uploadFlags(c)
	return c
}

// toRetry returns the recordings that a retry sends. Without a selector of reports, they include those that a person
// decided to send.
func (o *uploadOptions) toRetry(ctx context.Context, which string) ([]ingest.Recording, error) {
	client, user, err := o.me(ctx)
	if err != nil {
		return nil, err
	}
	list, err := o.leftOver(which, ingest.ServiceName(client.BaseURL()), user.ID)
	if err != nil || which != "" {
		return list, err
	}
	return o.withDecided(ctx, list, client.BaseURL(), user.ID)
}

// leftOver are the recordings of reports that have no note by now. The newest report counts: a recording that was
// uploaded since, as for the right patient, is not left over. Patients of another service are others, and those of
// another user may be.
func (o *uploadOptions) leftOver(which, service string, userID int64) ([]ingest.Recording, error) {
	folder, err := account.StateFolder("reports")
	if err != nil {
		return nil, err
	}
	runs, err := report.List(folder, which)
	if err != nil {
		return nil, err
	}
	if len(runs) == 0 {
		return nil, errNoReport
	}
	all, err := report.List(folder, "all")
	if err != nil {
		return nil, err
	}
	list := leftOver{seen: map[string][]string{}, known: recordingsByKey(all)}
	for _, run := range slices.Backward(all) {
		asked := slices.ContainsFunc(runs, func(r report.Run) bool { return r.ID == run.ID })
		left := slices.Concat(run.Open(), run.Unfinished)
		if why := whyElsewhere(&run, service, userID); why != nil {
			if asked && len(left) > 0 {
				return nil, why
			}
			continue
		}
		for _, r := range run.Done() {
			list.see(r)
		}
		if asked {
			list.add(left)
		}
	}
	o.leftOutDo = `--reveal names them; if one is to become another note as well, upload it with "--manifest"`
	for _, file := range list.otherKey {
		o.leaveOut(file, "a later upload has the file under another key, so it may be another note's or the same one's")
	}
	return list.recordings, nil
}

// whyElsewhere returns why this user of this service must not send what a run left over, or nil.
func whyElsewhere(run *report.Run, service string, userID int64) error {
	isElsewhere := run.Service != "" && run.Service != service
	isOthers := run.UserID != 0 && run.UserID != userID
	switch {
	case isElsewhere:
		return &refusedError{
			"that upload was to another service: nothing was sent",
			"name the context of that service with --context",
		}
	case isOthers:
		return &refusedError{
			"that upload was another user's: nothing was sent", "name the context of that user with --context",
		}
	}
	return nil
}

// leftOver collects recordings to send again, each file once.
type leftOver struct {
	recordings []ingest.Recording
	// seen has the files that have a note by this upload or a later one, or were looked at, with their own keys.
	seen     map[string][]string
	known    map[string]report.Recording
	otherKey []string // files that were seen under another key; a person has to decide about them
}

// see remembers a recording.
func (l *leftOver) see(r report.Recording) { l.seen[r.File] = append(l.seen[r.File], r.OwnKey) }

// hasSeen reports whether a recording of the same file was seen that has the same key, or if one of them has no key.
func (l *leftOver) hasSeen(r report.Recording) bool {
	return slices.ContainsFunc(l.seen[r.File], func(key string) bool {
		return key == r.OwnKey || key == "" || r.OwnKey == ""
	})
}

func (l *leftOver) add(left []report.Recording) {
	for _, r := range left {
		if r.File == "" { // one of an earlier upload
			r = l.known[r.Key]
		}
		switch {
		case r.File == "" || l.hasSeen(r):
		case len(l.seen[r.File]) > 0:
			l.otherKey = append(l.otherKey, r.File)
		default:
			l.recordings = append(l.recordings, recordingOf(&r))
		}
		l.see(r)
	}
}

// withDecided adds the recordings that a person decided to send, whichever upload they are of. The latest report may
// not name them, or as complete.
func (o *uploadOptions) withDecided(
	ctx context.Context, list []ingest.Recording, baseURL string, userID int64,
) ([]ingest.Recording, error) {
	if err := o.findJournal(ctx, baseURL, userID); err != nil {
		return nil, err
	}
	_, entries, err := ingest.ReadJournal(ctx, o.journal)
	if errors.Is(err, fs.ErrNotExist) {
		return list, nil
	}
	if err != nil {
		return nil, err
	}
	folder, err := account.StateFolder("reports")
	if err != nil {
		return nil, err
	}
	runs, err := report.List(folder, "all")
	if err != nil {
		return nil, err
	}
	return addDecided(list, entries, recordingsByKey(runs)), nil
}

// addDecided adds the recordings of entries with a decision to send them, as far as the reports know their files.
func addDecided(
	list []ingest.Recording, entries []ingest.Entry, known map[string]report.Recording,
) []ingest.Recording {
	var decided []ingest.Recording
	for _, e := range entries {
		isToBeSent := e.State == ingest.StateRefused && e.By != ""
		r, isKnown := known[e.Key.String()[:keyDigits]]
		isListed := slices.ContainsFunc(list, func(listed ingest.Recording) bool {
			return listed.File == r.File && listed.Key == r.OwnKey
		})
		if isToBeSent && isKnown && !isListed {
			decided = append(decided, recordingOf(&r))
		}
	}
	slices.SortFunc(decided, func(a, b ingest.Recording) int { return strings.Compare(a.File, b.File) })
	return slices.Concat(list, decided)
}

// recordingOf is a recording as it was uploaded, or was to be.
func recordingOf(r *report.Recording) ingest.Recording {
	params := clinicaldoc.CreateNoteParams{Name: r.Name, PatientID: r.Patient, PromptID: r.Prompt}
	return ingest.Recording{Key: r.OwnKey, File: r.File, Params: params}
}

// recordingsByKey returns what the reports know of recordings, by the journal's key.
func recordingsByKey(runs []report.Run) map[string]report.Recording {
	known := map[string]report.Recording{}
	for _, run := range runs {
		for _, r := range run.Recordings {
			known[r.Key] = r
		}
	}
	return known
}

// journalStatus is what a journal knows.
type journalStatus struct {
	Journal  string `json:"journal"`
	Service  string `json:"service"`
	Created  int    `json:"created"`
	Refused  int    `json:"refused"`
	Underway int    `json:"under_way"` // or cut off
	// Unresolved is how many recordings have no decision, ToResolve lists them, and those that are under way.
	Unresolved int           `json:"unresolved"`
	ToResolve  []journalItem `json:"to_resolve"`
	// Of those that were created.
	Complete   int           `json:"complete"`
	Processing int           `json:"processing"`
	Failed     int           `json:"failed"`
	SentAgain  int           `json:"sent_again"`
	Failures   []journalItem `json:"failures"`
}

// journalItem is an entry of a journal as the status shows it: an unresolved recording, or one whose note failed.
type journalItem struct {
	Key    string    `json:"key"`
	State  string    `json:"state"`
	SentAt time.Time `json:"sent_at,omitzero"`
	Until  time.Time `json:"until,omitzero"`
	Why    string    `json:"why,omitempty"`
	// Candidates are the ids of the notes that a person should compare.
	Candidates []int64 `json:"candidates,omitempty"`
	NoteID     int64   `json:"note_id,omitempty"` // of what failed
}
