package report

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

// Outcome is the headline: how many encounters are complete, and what became of the others.
func (r Run) Outcome() string {
	switch {
	case r.Running:
		return "The upload is still running" + r.soFar()
	case r.Empty:
		return "The report could not be written, so it does not show what became of the upload"
	case r.CutOff():
		return "The upload was killed, or the machine stopped, before it ended" + r.soFar()
	case r.Code == 0 && r.Fleet:
		return "All done"
	case r.Code == 0:
		return "All done: " + r.complete(output.Count(r.Total, "encounter", "encounters"), r.Total == 1)
	}
	return r.counted()
}

// soFar is the outcome in numbers of an upload that has not ended.
func (r Run) soFar() string {
	switch {
	case r.Total == 0:
		return ""
	case r.ended() == 0:
		return ". " + output.Count(r.Total, "encounter has no result", "encounters have no result")
	}
	return ". " + r.counted()
}

// part is a part of the encounters, and the words for what became of it.
type part struct {
	count     int
	one, many string
}

func (p part) String() string { return output.Count(p.count, p.one, p.many) }

// counted is the outcome in numbers.
func (r Run) counted() string {
	own := r.parts()
	total := r.Total
	handled := ""
	if r.Fleet {
		total = r.ended()
		handled = " that this machine handled"
	}
	done := r.withNote()
	encounters := output.Count(total, "encounter", "encounters") + handled
	text := r.complete(fmt.Sprintf("%d of %s", done, encounters), done == 1)
	switch {
	case total == 0 && done == 0:
		text = "Nothing was sent"
	case total == 1 && len(own) == 1:
		text = "The encounter" + handled + " " + own[0].one
		own = nil
	case r.ended() == 0:
		text = "This upload sent none of its " + encounters
		own = nil
	}
	return text + listed("; ", own) + listed(
		"; of earlier uploads, ", r.earlierParts(),
	) + listed("; ", r.leftOutParts())
}

// parts are those of the upload's own encounters that are not complete.
func (r Run) parts() []part {
	left := part{r.Left(), "was not sent", "were not sent"}
	if r.CutOff() || r.Running {
		left = part{r.Left(), "has no result", "have no result"}
	}
	return some(
		part{r.Count(Processing), "is processing", "are processing"},
		part{r.Count(Failed), "failed", "failed"},
		part{r.Count(Unresolved), "is unresolved", "are unresolved"},
		part{r.Count(Refused), "was refused", "were refused"},
		left,
	)
}

// earlierParts are those of earlier uploads that are not complete.
func (r Run) earlierParts() []part {
	return some(
		part{r.countFollowed(Processing), "is processing", "are processing"},
		part{r.countFollowed(Failed), "failed", "failed"},
	)
}

func (r Run) leftOutParts() []part {
	return some(part{len(r.LeftOut), "file or folder was left out", "files or folders were left out"})
}

// some returns the parts that are not empty.
func some(parts ...part) (list []part) {
	for _, p := range parts {
		if p.count > 0 {
			list = append(list, p)
		}
	}
	return list
}

// listed is a list of parts after a separator, or nothing.
func listed(separator string, parts []part) string {
	var texts []string
	for _, p := range parts {
		texts = append(texts, p.String())
	}
	if len(texts) == 0 {
		return ""
	}
	return separator + strings.Join(texts, ", ")
}

// complete says that encounters are complete, or have a note if the upload did not wait for more.
func (r Run) complete(encounters string, single bool) string {
	switch {
	case r.waited() && single:
		return encounters + " is complete"
	case r.waited():
		return encounters + " are complete"
	case single:
		return encounters + " has a note"
	}
	return encounters + " have a note"
}

// waited reports whether the upload waited until notes were complete.
func (r Run) waited() bool { return r.Count(Created)+r.Count(AlreadyThere) == 0 }

// withNote is how many recordings have a note that is complete, as far as the upload was to wait for it.
func (r Run) withNote() int { return r.Count(Created) + r.Count(AlreadyThere) + r.Count(Complete) }

// countFollowed is how many recordings of earlier uploads have a status.
func (r Run) countFollowed(status string) (n int) {
	for i := range r.Followed {
		if r.Followed[i].Status == status {
			n++
		}
	}
	return n
}

// Why says why an upload ended early or sent nothing, empty where the outcome says enough.
func (r Run) Why() string {
	if r.Reason == "" && r.Code != 0 && r.ended()+len(r.Followed)+len(r.LeftOut) == 0 {
		return plain(r.Error)
	}
	return plain(r.Reason)
}

// outcomeAndWhy is one line about an upload.
func (r Run) outcomeAndWhy() string {
	if why := r.Why(); why != "" {
		return r.Outcome() + ": " + why
	}
	return r.Outcome()
}

// Gap says what the report does not hold, empty if it is complete.
func (r Run) Gap() string {
	if r.Missing() == 0 {
		return ""
	}
	missing := output.Count(r.Missing(), "recording", "recordings")
	return "The results of " + missing + " could not be written to this report. " +
		`The journal has them: "clinicaldoc upload status --json" lists what is unresolved or failed`
}

// beside matches the parts of an error's text other than the reason: the route, the request ID, the notes to
// compare, and what to do. Each recording names its notes, and the group says what to do.
var beside = regexp.MustCompile(`\b(GET|POST|PUT|PATCH|DELETE) /\S*: |\bclinicaldoc: | \(request id [^()]*\)` +
	`|: search for the note before creating it again|; compare it with [^;"]*("clinicaldoc upload resolve")?` +
	`|\. Decide: "clinicaldoc upload resolve"`)

// plain is the reason that an error's text gives.
func plain(text string) string { return beside.ReplaceAllString(text, "") }

// Note names the note of a recording: the one it has, or the one that may be it.
func (r Recording) Note() string {
	if r.Status == Unresolved {
		return "perhaps note " + strconv.FormatInt(r.NoteID, 10)
	}
	return "note " + strconv.FormatInt(r.NoteID, 10)
}

// TooEarly says from when on a recording can be decided, empty if it can be.
func (r Recording) TooEarly() string {
	if !r.Until.After(time.Now()) {
		return ""
	}
	return "can be decided from " + Clock(r.Until) + " on"
}

// NotSentTitle says how many recordings have no result.
func (r Run) NotSentTitle() string {
	if r.CutOff() || r.Running {
		return output.Count(len(r.Unfinished), "recording has no result", "recordings have no result")
	}
	return output.Count(len(r.Unfinished), "recording was not sent", "recordings were not sent")
}

// String says what happened.
func (p Pause) String() string {
	if p.Why == "" {
		return "went on"
	}
	return "paused, because every upload failed in the same way: " + plain(p.Why)
}
