package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

// Text writes a run for people: how it ended, what to do now, then the recordings that need somebody.
func Text(w io.Writer, r Run, revealed bool) {
	t := &textWriter{w, revealed}
	t.head(r)
	t.steps(r)
	for _, g := range r.Groups() {
		t.group(g)
	}
	t.leftOut(r)
	t.unfinished(r)
	t.pauses(r)
	t.earlier(r)
	t.details(r)
}

type textWriter struct {
	io.Writer
	revealed bool
}

// line writes a line, unless it is empty.
func (t *textWriter) line(indent, text string) {
	if text != "" {
		_, _ = fmt.Fprintf(t, "%s%s\n", indent, output.Cell(text))
	}
}

// named writes a line with a name before it, unless it is empty.
func (t *textWriter) named(name, text string) {
	if text != "" {
		_, _ = fmt.Fprintf(t, "  %-9s %s\n", name, output.Cell(text))
	}
}

// title writes a title after an empty line.
func (t *textWriter) title(text string) { _, _ = fmt.Fprintf(t, "\n%s\n", text) }

func (t *textWriter) head(r Run) {
	began := "Upload of " + Clock(r.Began)
	if !r.Ended.IsZero() {
		began += ", ended " + Clock(r.Ended)
	}
	t.line("", began)
	t.title(output.Cell(Sentence(r.Outcome())))
	t.line("", Sentence(r.Why()))
	t.line("", Sentence(r.Gap()))
}

func (t *textWriter) steps(r Run) {
	steps := r.Steps()
	switch {
	case len(steps) > 0:
		t.title("What to do now")
	case !r.Running:
		t.line("", "There is nothing to do about this upload.")
	}
	for _, step := range steps {
		t.line("  ", Sentence(step.String()))
	}
}

func (t *textWriter) group(g Group) {
	t.title(Sentence(g.Title()))
	t.named("why", g.Why)
	t.named("service", g.Words)
	for _, field := range slices.Sorted(maps.Keys(g.Fields)) {
		t.named("field", field+": "+strings.Join(g.Fields[field], " "))
	}
	t.named("do", g.Do)
	for _, x := range g.First() {
		t.recording(x)
	}
	t.more(len(g.Rest()))
}

// recording writes a line for a recording, and one for each note to compare.
func (t *textWriter) recording(x Recording) {
	cells := []string{x.Key}
	if x.Position != 0 {
		cells = append(cells, "recording "+strconv.Itoa(x.Position))
	}
	cells = append(cells, Clock(x.At))
	if x.NoteID != 0 {
		cells = append(cells, x.Note())
	}
	if x.File != "" {
		cells = append(cells, x.File)
	}
	if x.Patient != 0 {
		cells = append(cells, "patient "+strconv.FormatInt(x.Patient, 10))
	}
	t.line("    ", strings.Join(cells, "  "))
	t.line("      ", x.TooEarly())
	for _, candidate := range x.Candidates {
		t.line("      ", "compare with "+candidate.String())
	}
}

// more says that a list goes on.
func (t *textWriter) more(n int) {
	switch {
	case n == 0:
	case t.revealed:
		_, _ = fmt.Fprintf(t, "    and %d more; --json lists all\n", n)
	default:
		_, _ = fmt.Fprintf(t, "    and %d more; --json lists all, --reveal shows files\n", n)
	}
}

func (t *textWriter) leftOut(r Run) {
	if len(r.LeftOut) == 0 {
		return
	}
	t.title("Left out")
	counts := r.LeftOutBy()
	for _, why := range slices.Sorted(maps.Keys(counts)) {
		t.line("  ", output.Count(counts[why], "file or folder: ", "files or folders: ")+why)
	}
	for _, l := range r.LeftOut[:min(len(r.LeftOut), shownOfGroup)] {
		t.line("    ", l.File)
	}
	if r.LeftOut[0].File != "" {
		t.more(len(r.LeftOut) - min(len(r.LeftOut), shownOfGroup))
	}
}

func (t *textWriter) unfinished(r Run) {
	if len(r.Unfinished) == 0 {
		return
	}
	t.title(r.NotSentTitle())
	shown := first(r.Unfinished)
	for _, x := range shown {
		t.line("    ", x.File)
	}
	t.more(len(r.Unfinished) - len(shown))
}

func (t *textWriter) pauses(r Run) {
	if len(r.Pauses) > 0 {
		t.title("Pauses")
	}
	for _, p := range r.Pauses {
		t.line("  ", Clock(p.At)+"  "+p.String())
	}
}

func (t *textWriter) earlier(r Run) {
	if len(r.Earlier) > 0 {
		t.title("Earlier uploads that still need action")
	}
	for _, before := range r.Earlier {
		t.line("  ", Clock(before.Began)+"  "+Sentence(before.How)+` See "clinicaldoc upload report `+before.ID+`".`)
	}
}

func (t *textWriter) details(r Run) {
	t.title("Details")
	t.named("service", r.Service)
	t.named("journal", r.Journal)
	t.named("command", r.Command)
	t.named("folder", r.Folder)
	t.named("report", r.ID)
	t.named("error", r.Error)
	_, _ = fmt.Fprintln(t)
}
