package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

//go:embed page.html
var page string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"time": Clock,
	"size": func(n int64) string {
		if n < 1<<20 {
			return fmt.Sprintf("%d kB", (n+1023)>>10)
		}
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	},
}).Parse(page))

// HTML writes runs as one page that needs nothing else: it can be mailed.
func HTML(w io.Writer, runs []Run) error {
	return pageTemplate.Execute(w, runs)
}

// Clock is a time for people, by this machine's clock and with its zone.
func Clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05 -07:00")
}

// Outcome says for people how a run ended: how many recordings have a note, and what became of the others.
func (r Run) Outcome() string {
	switch {
	case r.Running:
		return "still running"
	case r.Empty:
		return "no record of it could be kept, as on a full disk"
	case r.CutOff():
		return "cut off without a word: the process was killed, or the machine went down"
	case r.Code == 0 && r.Fleet:
		return "all done"
	case r.Code == 0:
		return "all done: " + r.withNotes(output.Count(r.Total, "recording", "recordings"), r.Total == 1)
	case r.ended() == 0 && r.Error != "":
		return "nothing was uploaded: " + r.Error
	case r.ended() == 0:
		return "nothing was uploaded"
	}
	return r.counted()
}

// counted is the outcome in numbers.
func (r Run) counted() string {
	done := r.withNote()
	total := output.Count(r.Total, "recording", "recordings")
	if r.Fleet {
		total = output.Count(r.ended(), "recording", "recordings") + " of this machine"
	}
	text := r.withNotes(fmt.Sprintf("%d of %s", done, total), done == 1 || r.Total == 1)
	var others []string
	add := func(n int, one, many string) {
		if n > 0 {
			others = append(others, output.Count(n, one, many))
		}
	}
	add(r.Count(Processing), "is still being processed", "are still being processed")
	add(r.Count(Failed), "could not be processed", "could not be processed")
	add(r.Count(InDoubt), "is unresolved", "are unresolved")
	add(r.Count(Refused), "was refused", "were refused")
	add(r.Left(), "was not sent or not finished", "were not sent or not finished")
	add(r.countFollowed(Processing), "of an earlier upload is still being processed", "of earlier uploads are still being processed")
	add(r.countFollowed(Failed), "of an earlier upload could not be processed", "of earlier uploads could not be processed")
	add(len(r.LeftOut), "file or folder was left out", "files or folders were left out")
	if len(others) == 0 {
		return text
	}
	return text + "; " + strings.Join(others, ", ")
}

// withNotes says that recordings have complete notes, or notes if the upload did not wait for more.
func (r Run) withNotes(recordings string, single bool) string {
	kind := "a complete note"
	if !r.waited() {
		kind = "a note"
	}
	if single {
		return recordings + " has " + kind
	}
	return recordings + " have " + kind
}

// waited reports whether the upload waited until notes were complete.
func (r Run) waited() bool { return r.Count(Created)+r.Count(AlreadyThere) == 0 && !r.Fleet }

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

// Why is the error that a run ended with, empty where the outcome says it.
func (r Run) Why() string {
	if r.Code == 0 || r.ended() == 0 {
		return ""
	}
	return r.Error
}

func (r Run) outcomeAndWhy() string {
	if why := r.Why(); why != "" {
		return r.Outcome() + ": " + why
	}
	return r.Outcome()
}

// Advice says what to do about a run, empty if nothing is to be done.
func (r Run) Advice() string {
	switch {
	case r.Empty:
		return "make room on the disk, and run the same upload again: what is done is not sent twice"
	case r.CutOff():
		return `run the same upload again, or "clinicaldoc upload retry": what is done is not sent twice`
	}
	return r.Do
}

const classGood = "good"

// Class is how a run is marked: good, some or bad.
func (r Run) Class() string {
	switch {
	case r.Code == 0 && !r.CutOff():
		return classGood
	case r.withNote() > 0:
		return "some"
	}
	return "bad"
}

// Gap says what the report does not hold, empty if it is whole.
func (r Run) Gap() string {
	if r.Missing() == 0 {
		return ""
	}
	return fmt.Sprintf("what became of %s could not be written here; the journal knows: "+
		"\"clinicaldoc upload status --json\" lists what is in doubt", output.Count(r.Missing(), "recording", "recordings"))
}

// Open are the recordings that somebody has to look at.
func (r Run) Open() (list []Recording) {
	for _, x := range slices.Concat(r.Recordings, r.Followed) {
		if !x.hasNote() {
			list = append(list, x)
		}
	}
	return list
}

// Done are the recordings that have a note, which is complete as far as the upload was to wait for it.
func (r Run) Done() (list []Recording) {
	for _, x := range r.Recordings {
		if x.hasNote() {
			list = append(list, x)
		}
	}
	return list
}

// LeftOutBy counts what was left out, by reason.
func (r Run) LeftOutBy() map[string]int {
	counts := map[string]int{}
	for _, l := range r.LeftOut {
		counts[l.Reason]++
	}
	return counts
}

// Sum is the run in numbers.
func (r Run) Sum() string {
	if r.Empty {
		return "not known"
	}
	counts := fmt.Sprintf("%d complete, %d processing, %d failed, %d unresolved, %d refused",
		r.Count(Complete), r.Count(Processing), r.Count(Failed), r.Count(InDoubt), r.Count(Refused))
	if !r.waited() {
		counts = fmt.Sprintf("%d created, %d already there, %d refused, %d in doubt",
			r.Count(Created), r.Count(AlreadyThere), r.Count(Refused), r.Count(InDoubt))
	}
	if r.Fleet {
		put := output.Count(r.Total, "recording was", "recordings were")
		text := fmt.Sprintf("%s put into the fleet's queue; this machine had %d of it: ", put, len(r.Recordings))
		return text + counts + r.sumLeftOut()
	}
	text := output.Count(r.Total, "recording", "recordings") + ": " + counts
	if left := r.Left(); left > 0 {
		text += fmt.Sprintf(", %d not sent or not finished", left)
	}
	if len(r.Followed) > 0 {
		text += fmt.Sprintf("; of earlier uploads: %d complete, %d processing, %d failed",
			r.countFollowed(Complete), r.countFollowed(Processing), r.countFollowed(Failed))
	}
	return text + r.sumLeftOut()
}

func (r Run) sumLeftOut() string {
	if len(r.LeftOut) == 0 {
		return ""
	}
	return fmt.Sprintf("; %d left out", len(r.LeftOut))
}
