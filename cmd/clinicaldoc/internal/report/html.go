package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"
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

// Outcome says how a run ended, in a sentence.
func (r Run) Outcome() string {
	switch {
	case r.Running:
		return "still running"
	case r.Empty:
		return "no record of it could be kept, as on a full disk"
	case r.CutOff():
		return "cut off without a word: the process was killed, or the machine went down"
	case r.Code == 0:
		return "all done"
	case r.Error != "":
		return fmt.Sprintf("exit code %d: %s", r.Code, r.Error)
	}
	return fmt.Sprintf("exit code %d", r.Code)
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
	case r.Count(Created)+r.Count(AlreadyThere) > 0:
		return "some"
	}
	return "bad"
}

// Gap says what the report does not hold, empty if it is whole.
func (r Run) Gap() string {
	if r.Missing() == 0 {
		return ""
	}
	return fmt.Sprintf("what became of %d recordings could not be written here; the journal knows: \"clinicaldoc upload status --json\" lists what is in doubt", r.Missing())
}

// Open are the recordings that somebody has to look at.
func (r Run) Open() (list []Recording) {
	for _, x := range r.Recordings {
		if x.Status != Created && x.Status != AlreadyThere {
			list = append(list, x)
		}
	}
	return list
}

// Done are the recordings that have a note.
func (r Run) Done() (list []Recording) {
	for _, x := range r.Recordings {
		if x.Status == Created || x.Status == AlreadyThere {
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
	if r.Fleet {
		return fmt.Sprintf("%d recordings were put into the fleet's queue; this machine had %d of it: %d created, %d already there, %d refused, %d in doubt", r.Total, len(r.Recordings), r.Count(Created), r.Count(AlreadyThere), r.Count(Refused), r.Count(InDoubt)) + r.sumLeftOut()
	}
	text := fmt.Sprintf("%d recordings: %d created, %d already there, %d refused, %d in doubt", r.Total, r.Count(Created), r.Count(AlreadyThere), r.Count(Refused), r.Count(InDoubt))
	if left := r.Left(); left > 0 {
		text += fmt.Sprintf(", %d not begun or not finished", left)
	}
	return text + r.sumLeftOut()
}

func (r Run) sumLeftOut() string {
	if len(r.LeftOut) == 0 {
		return ""
	}
	return fmt.Sprintf("; %d left out", len(r.LeftOut))
}
