package gaps

import (
	"html/template"
	"io"
	"time"
)

// WriteHTML writes the report as one page that needs nothing else, to be kept beside a contract with the service. With
// an earlier report it tells what is otherwise now; nil is none.
func (r *Report) WriteHTML(w io.Writer, service string, earlier *Report) error {
	was := map[string]string{}
	if earlier != nil {
		for _, item := range r.Items {
			for _, before := range earlier.Items {
				if before.Key == item.Key && before.Seen != item.Seen && !measured[item.Key] {
					was[item.Key] = before.Seen
				}
			}
		}
	}
	known := 0
	for _, item := range r.Items {
		if item.Known {
			known++
		}
	}
	return page.Execute(w, map[string]any{
		"Report": r, "Service": service, "When": time.Now().UTC().Format("2 January 2006, 15:04 UTC"),
		"Was": was, "Compared": earlier != nil, "Known": known, "Names": r.NamesLine(),
	})
}

var page = template.Must(template.New("gaps").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Gap report of {{.Service}}</title>
<style>
:root { color-scheme: light dark; --line: light-dark(#dde1e8, #2d343f); --quiet: light-dark(#566173, #9da8b8); --soft: light-dark(#eff2f6, #222831); --warn: light-dark(#8a5200, #f2b866); font: 15px/1.5 system-ui, sans-serif; }
body { margin: 2rem auto; padding: 0 1rem; max-width: 62rem; background: light-dark(#fff, #15181e); color: light-dark(#1a1f27, #e6e9ee); }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.05rem; margin-top: 2rem; }
p.about { color: var(--quiet); margin-top: .2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; font-weight: 500; color: var(--quiet); white-space: nowrap; }
th, td { padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td { overflow-wrap: anywhere; } td:nth-child(2) { width: 40%; }
code { font: .85em ui-monospace, monospace; color: var(--quiet); display: block; }
pre { background: var(--soft); padding: .8rem; border-radius: .4rem; white-space: pre-wrap; overflow-wrap: anywhere; font: .85rem ui-monospace, monospace; }
.open { color: var(--quiet); } .changed { color: var(--warn); }
@media print { body { margin: 0; max-width: none; } tr { break-inside: avoid; } }
</style>
</head>
<body>
<h1>What {{.Service}} does where its description is silent</h1>
<p class="about">Seen on {{.When}}: {{.Known}} of {{len .Report.Items}} questions are answered.{{if .Compared}} {{len .Was}} answers differ from the earlier report.{{end}}</p>
<div class="wide"><table>
<thead><tr><th>Section</th><th>Question</th><th>Seen</th></tr></thead>
<tbody>
{{- range .Report.Items}}
<tr><td>{{.Section}}</td><td>{{.Question}}<code>{{.Key}}</code></td><td{{if not .Known}} class="open"{{end}}>{{.Seen}}{{with index $.Was .Key}}<div class="changed">was {{.}}</div>{{end}}</td></tr>
{{- end}}
</tbody>
</table></div>
<h2>For the client</h2>
<pre>{{.Names}}</pre>
{{- if .Report.TrustPatientFilter}}<p>Rows name no patient: lists filtered by patient need TrustPatientFilter: true.</p>{{end}}
{{- if .Report.PagesUnreachable}}<p>Later pages cannot be reached: no known parameter leads to them, and All ends with ErrIncompleteList.</p>{{end}}
{{- if .Report.Advice}}
<h2>To ask of those who run the service</h2>
<ul>{{range .Report.Advice}}<li>{{.}}</li>{{end}}</ul>
{{- end}}
{{- if .Report.LeftBehind}}<p>Left behind, because the service refused to delete them: the synthetic notes {{.Report.LeftBehind}}.</p>{{end}}
{{- if .Report.Uncertain}}<p>Creations without a clear answer, which may have left a synthetic note behind: {{.Report.Uncertain}}.</p>{{end}}
</body>
</html>
`))
