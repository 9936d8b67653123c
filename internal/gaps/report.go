package gaps

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// Report is what a service was seen to do.
type Report struct {
	Items []Item `json:"items"`
	// QueryNames are the parameters that were seen to work; a field is empty where none was.
	QueryNames clinicaldoc.QueryNames `json:"query_names"`
	// TrustPatientFilter reports that rows have no patient, so filtered lists need the param of that name.
	TrustPatientFilter bool `json:"trust_patient_filter"`
	// PagesUnreachable reports that a list has more pages, but no known parameter leads to them.
	PagesUnreachable bool `json:"pages_unreachable"`
	// Advice is what to ask of those who run the service.
	Advice []string `json:"advice,omitempty"`
	// LeftBehind are the probe's own notes that the service refused to delete.
	LeftBehind []int64 `json:"left_behind,omitempty"`
	// Uncertain counts creations that got no clear answer and may have left a note behind.
	Uncertain int `json:"uncertain,omitempty"`

	// SignedNote is the note that was signed on the way, as signing returned it; nil when none was.
	SignedNote *clinicaldoc.ProgressNote `json:"-"`
}

// Item is one question that the service's description leaves open, and its answer.
type Item struct {
	Section  string `json:"section"` // of the description
	Key      string `json:"key"`
	Question string `json:"question"`
	Seen     string `json:"seen"`
	Known    bool   `json:"known"` // false: nothing was seen, and Seen says why
}

// newReport returns a report in which no question is answered.
func newReport() *Report {
	r := &Report{}
	for _, q := range questions {
		r.Items = append(r.Items, Item{Section: q.section, Key: q.key, Question: q.text, Seen: "not seen"})
	}
	return r
}

// Item returns the answer to the question with that key.
func (r *Report) Item(key string) Item { return *r.item(key) }

// item returns the item with that key, which must exist.
func (r *Report) item(key string) *Item {
	for i := range r.Items {
		if r.Items[i].Key == key {
			return &r.Items[i]
		}
	}
	panic("gaps: no question " + key) // a spelling mistake in this package
}

// set answers a question. It replaces an earlier answer.
func (r *Report) set(key, format string, args ...any) {
	item := r.item(key)
	item.Seen = fmt.Sprintf(format, args...)
	item.Known = true
}

// unseen records why a question has no answer, unless it has one.
func (r *Report) unseen(key, format string, args ...any) {
	item := r.item(key)
	if !item.Known {
		item.Seen = "not seen: " + fmt.Sprintf(format, args...)
	}
}

// NamesLine returns the option to pass to NewClient, as Go source. It names every parameter that was seen to work.
func (r *Report) NamesLine() string {
	var fields []string
	for _, field := range []struct{ name, value string }{
		{"PatientID", r.QueryNames.PatientID}, {"PerPage", r.QueryNames.PerPage}, {"Sort", r.QueryNames.Sort},
		{"Page", r.QueryNames.Page}, {"Cursor", r.QueryNames.Cursor},
	} {
		if field.value != "" {
			fields = append(fields, fmt.Sprintf("%s: %q", field.name, field.value))
		}
	}
	return "clinicaldoc.WithQueryNames(clinicaldoc.QueryNames{" + strings.Join(fields, ", ") + "})"
}

// WriteText writes the report as text: a table, and what to do about it.
func (r *Report) WriteText(w io.Writer) error {
	const title = "GAP REPORT: what the description does not show, and what this server was seen to do"
	if _, err := fmt.Fprintln(w, title); err != nil {
		return err
	}
	if err := r.writeTable(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, r.advice())
	return err
}

// writeTable writes all questions and answers.
func (r *Report) writeTable(w io.Writer) error {
	var text strings.Builder
	text.WriteString("section\titem\tseen\n")
	for _, item := range r.Items {
		fmt.Fprintf(&text, "%s\t%s\t%s\n", item.Section, item.Question, item.Seen)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(table, text.String()); err != nil {
		return err
	}
	return table.Flush()
}

// advice returns what the caller has to set or to know, one line each.
func (r *Report) advice() string {
	var text strings.Builder
	fmt.Fprintf(&text, "\nQuery names to set:\n\t%s\n", r.NamesLine())
	if r.TrustPatientFilter {
		text.WriteString("Rows name no patient: lists filtered by patient need TrustPatientFilter: true.\n")
	}
	if r.PagesUnreachable {
		text.WriteString("Later pages cannot be reached: no known parameter leads to them, " +
			"and All ends with ErrIncompleteList.\n")
	}
	for _, advice := range r.Advice {
		text.WriteString(advice + "\n")
	}
	if len(r.LeftBehind) > 0 {
		fmt.Fprintf(&text, "Left behind, because the service refused to delete them: the synthetic notes %v.\n",
			r.LeftBehind)
	}
	if r.Uncertain > 0 {
		fmt.Fprintf(&text, "Creations with an unknown outcome, which may have left a synthetic note behind: %d.\n",
			r.Uncertain)
	}
	return text.String()
}

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(struct {
		*Report
		NamesLine string `json:"names_line"`
	}{r, r.NamesLine()})
}

// ReadJSON reads a report that WriteJSON wrote.
func ReadJSON(r io.Reader) (*Report, error) {
	report := new(Report)
	if err := json.NewDecoder(r).Decode(report); err != nil {
		return nil, fmt.Errorf("gaps: the file is not a report: %w", err)
	}
	return report, nil
}

// Changes returns the differences from an earlier report, one per line. Measurements that differ from run to run
// are left out.
func (r *Report) Changes(earlier *Report) []string {
	before := map[string]string{}
	for _, item := range earlier.Items {
		before[item.Key] = item.Seen
	}
	var changes []string
	for _, item := range r.Items {
		was := before[item.Key]
		if was != item.Seen && !measured[item.Key] {
			changes = append(changes, fmt.Sprintf("%s: was %q, is %q", item.Key, was, item.Seen))
		}
	}
	return changes
}
