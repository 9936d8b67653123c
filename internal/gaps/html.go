package gaps

import (
	_ "embed" // for the page
	"html/template"
	"io"
	"time"
)

// WriteHTML writes the report as one self-contained page. If an earlier report is passed, the page shows what has
// changed.
func (r *Report) WriteHTML(w io.Writer, service string, earlier *Report) error {
	known := 0
	for _, item := range r.Items {
		if item.Known {
			known++
		}
	}
	return page.Execute(w, map[string]any{
		"Report": r, "Service": service, "When": time.Now().UTC().Format("2 January 2006, 15:04 UTC"),
		"Was": r.changedSince(earlier), "Compared": earlier != nil, "Known": known, "Names": r.NamesLine(),
	})
}

// changedSince returns what an earlier report, which may be nil, contains for the keys whose answers have changed.
// Measurements that differ from run to run are left out.
func (r *Report) changedSince(earlier *Report) map[string]string {
	was := map[string]string{}
	if earlier == nil {
		return was
	}
	now := map[string]string{}
	for _, item := range r.Items {
		now[item.Key] = item.Seen
	}
	for _, before := range earlier.Items {
		seen, isAsked := now[before.Key]
		isChange := isAsked && seen != before.Seen
		if isChange && !measured[before.Key] {
			was[before.Key] = before.Seen
		}
	}
	return was
}

//go:embed report.html
var pageText string

var page = template.Must(template.New("gaps").Parse(pageText))
