package devproxy

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

// target is a request's path and query as a page shows them. Of a request to a real service only the query's names are
// shown: its path is told by its route, and all else may be data.
func target(r *http.Request, namesOnly bool) string {
	if !namesOnly {
		return r.URL.RequestURI()
	}
	var names []string
	query, _ := url.ParseQuery(r.URL.RawQuery)
	for name := range query {
		names = append(names, printableQuery(name))
	}
	slices.Sort(names)
	if len(names) == 0 {
		return ""
	}
	return "?" + strings.Join(slices.Compact(names), "&")
}

// printableQuery is printable for names such as filter[patient_id].
func printableQuery(name string) string {
	if fieldName.MatchString(strings.NewReplacer("[", "_", "]", "", ".", "_").Replace(name)) {
		return name
	}
	return "(name withheld)"
}

// describe says what a page shows of an exchange with a real service: names and types.
func describe(e *exchange, r *http.Request) detail {
	header := e.sent.Header()
	_, start, _ := e.received.seen()
	_, path, _ := strings.Cut(e.route, " ")
	return detail{
		RequestHeader:  headerNames(r.Header),
		RequestShape:   shape(r.Header, start),
		ResponseHeader: headerNames(header),
		ResponseShape:  shape(header, e.sent.start),
		Curl: "curl -X " + method(r.Method) + " -H 'Accept: application/json' -H \"Authorization: Bearer " +
			"$CLINICALDOC_TOKEN\" " + quoted(
			"http://"+r.Host+path+e.request.Target,
		),
		Go: goCall{}.text(e.route),
	}
}

func headerNames(header http.Header) []string {
	names := []string{}
	for name := range header {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// newRecord begins to keep a request as it is.
func newRecord(r *http.Request, kept *bodies) *record {
	rec := &record{
		method: r.Method, scheme: "http", host: r.Host, uri: r.URL.RequestURI(),
		requestHeader: withoutSecrets(r.Header),
		authorization: r.Header["Authorization"], requestBody: kept.new(), responseBody: kept.new(), announced: -1,
	}
	rec.requestHeader.Del(replayHeader)
	rec.chunked = r.ContentLength < 0
	return rec
}

// answered returns the record with a response's header, as a new value: pages may be reading the old one.
func (rec *record) answered(header http.Header) *record {
	whole := *rec
	whole.responseHeader = withoutSecrets(header)
	if length, err := strconv.ParseInt(
		header.Get("Content-Length"), 10, 64,
	); err == nil && rec.method != http.MethodHead {
		whole.announced = length
	}
	return &whole
}

const withheld = "(withheld)"

// withoutSecrets copies a header without what lets others in.
func withoutSecrets(header http.Header) http.Header {
	kept := header.Clone()
	for name, values := range kept {
		for i := range values {
			if boxlink.IsSecretHeader(name) {
				values[i] = withheld
			}
		}
	}
	return kept
}

// open returns what a page shows of a request that was kept as it was. What the SDK makes of it has values only of the
// box.
func (rec *record) open(r *request, names clinicaldoctest.QueryNames, ofBox bool) detail {
	content, _ := rec.requestBody.bytes()
	d := detail{
		RequestID:     rec.responseHeader.Get("X-Request-Id"),
		RequestHeader: headerLines(rec.requestHeader), RequestBody: rec.requestBody.shown(rec.requestHeader),
		ResponseHeader: headerLines(rec.responseHeader), ResponseBody: rec.responseBody.shown(rec.responseHeader),
		Parts: partsOf(rec.requestHeader, content), Curl: rec.curl(r.ID), Go: callOf(r.Route, rec, names).text(r.Route),
	}
	if !r.Pending {
		d.Verdict = think(r, names, ofBox)
	}
	return d
}

// headerLines lists a header by name.
func headerLines(header http.Header) []string {
	lines := []string{}
	for name, values := range header {
		for _, value := range values {
			lines = append(lines, name+": "+value)
		}
	}
	slices.Sort(lines)
	return lines
}
