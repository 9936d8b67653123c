package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/progress"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/report"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// uploadRun shows a run and adds up how it ends.
type uploadRun struct {
	*uploadOptions
	recordings []ingest.Recording
	numbers    map[string]int // by file
	show       progress.Reporter
	mu         sync.Mutex
	rows       map[int]*progress.Row // of what is under way
	last       ingest.Progress
	doubts     []string // keys
	worst      error    // of the refused ones
	broken     error    // of standard output
	stage      clinicaldoc.Stage
	earlier    map[ingest.Status]int // recordings of earlier uploads
	failed     []string              // keys

	compare  *clinicaldoc.Client // reads candidates; nil: they are not read
	compared int                 // candidates that were read
}

func newUploadRun(o *uploadOptions, recordings []ingest.Recording) *uploadRun {
	r := &uploadRun{
		uploadOptions: o, recordings: recordings, numbers: map[string]int{}, show: progress.New(o.IO),
		rows: map[int]*progress.Row{},
	}
	r.earlier = map[ingest.Status]int{}
	for i := range recordings {
		number := i + 1
		r.numbers[recordings[i].File] = number
		recordings[i].Params.OnProgress = func(sent, size int64) { r.move(number, sent, size) }
	}
	return r
}

// all uploads the recordings, prints what becomes of each, and returns the worst of it.
func (r *uploadRun) all(ctx context.Context, uploader *ingest.Uploader) error {
	defer r.show.Close()
	var ended error
	for result, err := range uploader.Run(ctx, ingest.Recordings(r.recordings...)) {
		if err != nil {
			ended = err
			break
		}
		r.result(ctx, &result)
	}
	r.show.Close()
	r.sum(ctx)
	return r.outcome(ctx, ended)
}

// outcome returns how the run ends. Unresolved recordings count most, those that are still being processed least. Exit
// code 2 means that nothing was sent.
func (r *uploadRun) outcome(ctx context.Context, ended error) error {
	done := r.last.Created + r.last.AlreadyThere
	failed := r.last.Failed + r.earlier[ingest.Failed]
	processing := r.last.Processing + r.earlier[ingest.Processing]
	switch {
	case ended != nil && ctx.Err() != nil:
		r.IO.Note("Run the same command again to go on.")
		return context.Cause(ctx)
	case ended != nil:
		k := r.endedKind(ended)
		r.record.Run.Reason = reasonOf(ctx, ended)
		return &runError{k.code, errorText(ended), k.do}
	case r.last.InDoubt > 0:
		text := r.some(r.last.InDoubt, "is", "are") + " unresolved, and none was sent twice"
		return &runError{
			codeUnresolved, text,
			"run the same command again to search for the notes; " +
				`"clinicaldoc upload report" says what else can be done`,
		}
	case failed > 0:
		text := output.Count(failed, "recording", "recordings") + " could not be processed by the service"
		return &runError{codeSome, text + r.alsoRefused(), adviceFailed}
	case r.worst != nil && done > 0:
		return &runError{codeSome, r.refusedText(), uploadKind(r.worst).do}
	case r.worst != nil:
		k := uploadKind(r.worst)
		return &runError{k.code, r.refusedText(), k.do}
	case len(r.left) > 0:
		return r.leftOutError()
	case processing > 0:
		text := output.Count(processing, "recording is", "recordings are") + " still being processed by the service"
		return &runError{
			codePending, text, "run the same command again later: it checks the notes again, and sends nothing twice",
		}
	}
	return r.broken
}

// some is how many of the recordings, with the verb for it.
func (r *uploadRun) some(n int, one, many string) string {
	verb := many
	if n == 1 || len(r.recordings) == 1 {
		verb = one
	}
	return fmt.Sprintf("%d of %s %s", n, output.Count(len(r.recordings), "recording", "recordings"), verb)
}

// adviceFailed says what to do about recordings that the service could not process.
const adviceFailed = `keep their files; "clinicaldoc upload report" names them, ` +
	`"clinicaldoc upload resolve KEY --send-again" lets the next upload send one again`

func (r *uploadRun) alsoRefused() string {
	if r.worst == nil {
		return ""
	}
	return "; " + r.refusedText()
}

func (r *uploadRun) refusedText() string {
	return r.some(r.last.Refused, "was", "were") + " refused, such as: " + errorText(r.worst)
}

// endedKind is the kind of what ended a run before its end.
func (r *uploadRun) endedKind(ended error) kind {
	k := kindOf(ended)
	switch {
	case errors.Is(ended, clinicaldoc.ErrOutcomeUnknown):
		k = kindOf(clinicaldoc.ErrServer)
	case isGone(ended):
		k = kind{codeUnreachable, shareAway}
	}
	if r.last.InDoubt > 0 {
		k.code = codeUnresolved
	}
	return k
}

const shareAway = "check whether the file's share is mounted, then run the same command again"

// isGone reports whether a recording's file was not there any more.
func isGone(err error) bool {
	return errors.Is(err, clinicaldoc.ErrInvalidArgument) && errors.Is(err, fs.ErrNotExist)
}

// uploadKind is the kind of a recording's error, of which some mean something else here.
func uploadKind(err error) kind {
	k := kindOf(err)
	switch {
	case isGone(err):
		k = kind{codeRefused, shareAway}
	case errors.Is(err, clinicaldoc.ErrValidation):
		k.do = `correct what the service rejected, and run the same command again`
	case k.code == codeUsage:
		k = kind{codeRefused, "check the file, and run the same command again"}
	}
	return k
}

// move tells how far an upload has come.
func (r *uploadRun) move(number int, sent, size int64) {
	r.mu.Lock()
	row := r.rows[number]
	if row == nil {
		row = r.show.Start(r.label(number), size)
		r.rows[number] = row
	}
	r.mu.Unlock()
	row.Set(sent, size)
}

// event begins and ends the rows. A fleet's workers call it at the same time.
func (r *uploadRun) event(e ingest.Event) {
	r.mu.Lock()
	r.last = e.Progress
	r.mu.Unlock()
	number := r.numbers[e.Recording.File]
	switch {
	case e.Pause != nil:
		r.pause(e.Pause)
	case e.Result != nil:
		r.mu.Lock()
		if row := r.rows[number]; row != nil {
			row.End()
			delete(r.rows, number)
		}
		r.mu.Unlock()
	case e.State == ingest.StateCreated:
		r.mu.Lock()
		if row := r.rows[number]; row != nil { // what is left is the service's to do
			row.End()
			delete(r.rows, number)
		}
		r.mu.Unlock()
	case e.State == ingest.StateInDoubt:
		r.mu.Lock()
		if row := r.rows[number]; row != nil {
			row.Rename(r.label(number) + ", searching for its note")
		}
		r.mu.Unlock()
		r.tell("%s: %s", r.nameOf(&e), lostText(time.Now(), e.Until))
	}
	r.show.Total(totalText(e.Progress))
}

// nameOf names the recording of an event as its result does: by the journal's key, or by its file with --reveal.
func (r *uploadRun) nameOf(e *ingest.Event) string {
	key := e.JournalKey.String()[:keyDigits]
	if r.reveal {
		return key + " " + output.Harmless(output.Cell(e.Recording.File))
	}
	return key
}

// lostText says that a response was lost, and from when on it can be known that there is no note. That time is not
// a limit: the service may be slow, and a note may be found sooner.
func lostText(now, until time.Time) string {
	if !now.Before(until) {
		return "the response was lost in an earlier upload, so the note may or may not exist; searching for it"
	}
	return "the response was lost, so the note may or may not exist; searching for it. " +
		"The search cannot rule out a note before " + until.UTC().Format(time.RFC3339)
}

// tell prints a line with the time.
func (r *uploadRun) tell(format string, args ...any) {
	r.show.Line(time.Now().UTC().Format(time.RFC3339) + " " + fmt.Sprintf(format, args...))
}

// pause tells and records that everything fails in the same way, or no longer does.
func (r *uploadRun) pause(p *ingest.Pause) {
	kept := report.Pause{At: time.Now().UTC()}
	if p.Why == nil {
		r.tell("going on")
	} else {
		kept.Why = errorText(p.Why)
		r.tell(
			"pausing, because everything fails in the same way: %s; trying again at %s", kept.Why,
			p.Next.UTC().Format(time.RFC3339),
		)
	}
	r.record.AddPause(kept)
}

// label is what a row is called while its recording is under way, by its position in this run, as results have it.
func (r *uploadRun) label(number int) string {
	switch {
	case number == 0:
		return "recording"
	case r.reveal:
		return output.Harmless(output.Cell(r.recordings[number-1].File))
	}
	return fmt.Sprintf("recording %d of %d, %s", number, len(r.recordings), progress.Bytes(r.size(number)))
}

// keyDigits is how many digits of a key name a recording; "upload resolve" takes them.
const keyDigits = 12

// keyOf names a recording: by the journal's key, or, where it was refused before it had one, by its path.
func keyOf(result *ingest.Result) string {
	if result.JournalKey != (ingest.Key{}) {
		return result.JournalKey.String()[:keyDigits]
	}
	sum := sha256.Sum256([]byte(described(&result.Recording).File))
	return "file-" + hex.EncodeToString(sum[:4])
}

// size of a recording, -1 when it cannot be told.
func (r *uploadRun) size(number int) int64 {
	if info, err := os.Stat(r.recordings[number-1].File); err == nil {
		return info.Size()
	}
	return -1
}

func totalText(p ingest.Progress) string {
	text := fmt.Sprintf("%d/%d done", p.Done(), p.Total)
	if doubts := p.Doubts + p.InDoubt; doubts > 0 {
		text += fmt.Sprintf(", %d unresolved", doubts)
	}
	if p.Refused > 0 {
		text += fmt.Sprintf(", %d refused", p.Refused)
	}
	if p.Processing > 0 {
		text += fmt.Sprintf(", %d being processed", p.Processing)
	}
	if p.Failed > 0 {
		text += fmt.Sprintf(", %d failed", p.Failed)
	}
	switch {
	case p.Left >= time.Minute:
		text += fmt.Sprintf(", %d min left", int(p.Left.Minutes()+0.5))
	case p.Left > 0:
		text += fmt.Sprintf(", %d s left", int(p.Left.Seconds()+0.5))
	}
	return text
}

// result takes in what became of a recording, prints and records it.
func (r *uploadRun) result(ctx context.Context, result *ingest.Result) {
	if result.Earlier {
		r.earlier[result.Status]++
	}
	switch result.Status {
	case ingest.InDoubt:
		r.doubts = append(r.doubts, keyOf(result))
	case ingest.Failed:
		r.failed = append(r.failed, keyOf(result))
	case ingest.Refused:
		if r.worst == nil || kindOf(r.worst).code == codeUnreachable {
			r.worst = result.Err
		}
	case ingest.Created, ingest.AlreadyThere, ingest.Complete, ingest.Processing:
	}
	r.present(ctx, result)
}

// present prints and records what became of a recording.
func (r *uploadRun) present(ctx context.Context, result *ingest.Result) {
	number := r.numbers[result.Recording.File]
	line := uploadResult{
		At: time.Now().UTC().Truncate(time.Millisecond), Key: keyOf(result), Status: result.Status.String(),
		NoteID: result.NoteID, Until: result.Until, Candidates: result.Candidates,
	}
	line.Earlier = result.Earlier
	line.Replaced = result.Replaced
	if result.Stage != 0 {
		line.Stage = result.Stage.String()
	}
	line.Position = result.Position
	if number > 0 {
		line.Size = max(r.size(number), 0)
	}
	if result.Err != nil {
		line.Error = errorText(result.Err)
	}
	r.recordResult(ctx, &line, result, number)
	if r.reveal {
		line.File = result.Recording.File
	}
	if r.broken != nil {
		return
	}
	// What ends after Ctrl-C is printed too, also by an expression, which would end with the context.
	r.broken = r.print(context.WithoutCancel(ctx), &r.format, line, func() error {
		note := "-"
		if line.NoteID != 0 {
			note = strconv.FormatInt(line.NoteID, 10)
		}
		cells := []string{r.IO.Time(line.At), line.Key, line.Status, note, progress.Bytes(line.Size), line.Error}
		if r.reveal {
			cells = slices.Insert(cells, 2, output.Cell(line.File))
		}
		return r.line(strings.TrimRight(r.IO.Text(strings.Join(cells, "\t")), "\t"))
	})
}

// described is what a report says of a recording before anything has become of it.
func described(r *ingest.Recording) report.Recording {
	path, err := filepath.Abs(r.File)
	if err != nil {
		path = r.File
	}
	return report.Recording{
		File: path, Name: r.Params.Name, OwnKey: r.Key, Patient: r.Params.PatientID, Prompt: r.Params.PromptID,
	}
}

// recordResult keeps what became of a recording, with what the service said itself.
func (r *uploadRun) recordResult(ctx context.Context, line *uploadResult, result *ingest.Result, number int) {
	var kept report.Recording
	if !result.Earlier {
		kept = described(&result.Recording)
	}
	kept.At = line.At
	kept.Key = line.Key
	kept.Status = line.Status
	kept.NoteID = line.NoteID
	kept.Size = line.Size
	kept.Until = line.Until
	kept.Took = result.Took.Seconds()
	kept.Error = line.Error
	kept.Position = line.Position
	kept.OwnKey = ""
	if number > 0 {
		kept.OwnKey = r.recordings[number-1].Key
	}
	if refused, ok := errors.AsType[*clinicaldoc.Error](result.Err); ok {
		kept.Words, kept.Fields = refused.Message, refused.Fields
	}
	if result.Status == ingest.Failed && result.Note != nil && result.Note.ErrorState != nil {
		kept.Words = *result.Note.ErrorState
	}
	switch {
	case result.Status == ingest.InDoubt:
		kept.Candidates = r.candidates(ctx, result.Candidates)
		kept.Do = adviceFor(line.Key, len(kept.Candidates) > 0, result.Until)
	case result.Status == ingest.Failed:
		kept.Do = adviceToSendAgain(line.Key)
	case result.Status == ingest.Processing:
		kept.Do = "run the same upload again later: it checks again, and sends nothing twice; keep the recordings " +
			"until then"
	case result.Err != nil:
		kept.Do = uploadKind(result.Err).do
	}
	if result.Earlier {
		r.record.AddFollowed(kept)
		return
	}
	r.record.Add(kept)
}

// adviceToSendAgain says what to do about a recording that the service could not process.
func adviceToSendAgain(key string) string {
	return fmt.Sprintf(`keep the recording; "clinicaldoc upload resolve %[1]s --send-again", `+
		`then "clinicaldoc upload retry", makes another note of it; `+
		`"clinicaldoc upload resolve %[1]s --note ID" if it has a note already`, key)
}

// adviceFor says what to do about a recording whose note is unresolved.
func adviceFor(key string, candidates bool, until time.Time) string {
	none := "\"--none\" if none is"
	if time.Now().Before(until) {
		none += ", but not before the time at which it can be decided"
	}
	compare := "compare the recording with the patient's notes"
	if candidates {
		compare = "compare the recording with the notes that are named"
	}
	return fmt.Sprintf("run the same upload again, which searches once more; for what stays unresolved, %s, then run "+
		"\"clinicaldoc upload resolve %s --note ID\" if one is its note, %s", compare, key, none)
}

// line prints a result: above the rows where there are some on the same terminal.
func (r *uploadRun) line(text string) error {
	if r.IO.OutTTY && r.IO.ErrTTY {
		r.show.Line(r.IO.Text(text))
		return nil
	}
	return r.outf("%s\n", text)
}

// sumLeftOut says what was left out: by name if that is wanted, else how many and why.
func (r *uploadOptions) sumLeftOut() {
	counts := map[string]int{}
	for _, l := range r.left {
		counts[l.Reason]++
		if r.reveal {
			r.IO.Note("left out: %s: %s", output.Harmless(output.Cell(l.File)), l.Reason)
		}
	}
	if !r.reveal {
		for _, why := range slices.Sorted(maps.Keys(counts)) {
			r.IO.Note("left out: %d: %s", counts[why], why)
		}
	}
}

// stagesText says how many notes are complete, if that was waited for.
func (r *uploadRun) stagesText(p ingest.Progress) string {
	if r.stage == clinicaldoc.StageUploaded {
		return ""
	}
	text := fmt.Sprintf("; notes: %d complete, %d processing, %d failed", p.Complete, p.Processing, p.Failed)
	if p.SentAgain > 0 {
		text += fmt.Sprintf(", %d sent again", p.SentAgain)
	}
	if len(r.earlier) > 0 {
		text += fmt.Sprintf("; of earlier uploads: %d complete, %d processing, %d failed",
			r.earlier[ingest.Complete], r.earlier[ingest.Processing], r.earlier[ingest.Failed])
	}
	return text
}

func (r *uploadRun) summary(left int) uploadSum {
	p := r.last
	return uploadSum{
		Report: r.record.Run.ID, Recordings: len(r.recordings), Created: p.Created, AlreadyThere: p.AlreadyThere,
		Refused: p.Refused, Unresolved: p.InDoubt, Left: left, LeftOut: len(r.left),
		Complete: p.Complete, Processing: p.Processing, Failed: p.Failed, SentAgain: p.SentAgain,
		EarlierComplete:   r.earlier[ingest.Complete],
		EarlierProcessing: r.earlier[ingest.Processing],
		EarlierFailed:     r.earlier[ingest.Failed],
	}
}

// sum says what is done, left and unresolved.
func (r *uploadRun) sum(ctx context.Context) {
	p := r.last
	left := max(len(r.recordings)-p.Done(), 0)
	text := fmt.Sprintf("%s: %d created, %d already there, %d refused, %d unresolved",
		output.Count(len(r.recordings), "recording", "recordings"), p.Created, p.AlreadyThere, p.Refused, p.InDoubt)
	if left > 0 {
		text += fmt.Sprintf(", %d not sent or not finished", left)
	}
	text += r.stagesText(p)
	if len(r.left) > 0 {
		text += fmt.Sprintf("; %d left out", len(r.left))
	}
	r.IO.Note("%s", text)
	if r.json != "" && r.names() == nil && !r.jq.IsSet() && !r.template.IsSet() && r.broken == nil {
		r.broken = r.IO.JSON(context.WithoutCancel(ctx), map[string]any{"summary": r.summary(left)}, &r.jq)
	}
	r.sumLeftOut()
	r.noteKeys()
	if r.broken != nil {
		r.IO.Note("clinicaldoc: the results could not all be printed; the journal has them")
	}
}

// noteKeys names the recordings that a person has to decide about.
func (r *uploadRun) noteKeys() {
	if len(r.failed) > 0 {
		slices.Sort(r.failed)
		r.IO.Note("failed: %s", strings.Join(r.failed, " "))
	}
	if len(r.doubts) > 0 {
		slices.Sort(r.doubts)
		r.IO.Note("unresolved: %s", strings.Join(r.doubts, " "))
	}
}
