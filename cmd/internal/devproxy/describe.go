package devproxy

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// target is a request's path and query as a page shows them. Of a request to a real service only the query's names are
// shown: its path is told by its route, and all else may be data.
func target(r *http.Request, upstream bool) string {
	if !upstream {
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

// describe says what a page shows of an exchange when it is opened.
func describe(e *exchange, r *http.Request, upstream bool) detail {
	header := e.sent.Header()
	_, start, _ := e.received.seen()
	return detail{
		RequestHeader:  headerLines(r.Header, upstream),
		RequestShape:   shape(r.Header, start),
		ResponseHeader: headerLines(header, upstream),
		ResponseShape:  shape(header, e.sent.start),
		Curl:           asCurl(e, r, upstream),
		Go:             asGo(e.route, r, upstream),
	}
}

const maxHeaderValue = 200

// headerLines lists a header by name, with its values where they are synthetic; a token's value never.
func headerLines(header http.Header, upstream bool) []string {
	lines := []string{}
	for name, values := range header {
		for _, value := range values {
			switch {
			case upstream:
				value = ""
			case name == "Authorization" || name == "Proxy-Authorization" || name == "Cookie":
				value = "(withheld)"
			case len(value) > maxHeaderValue:
				value = value[:maxHeaderValue] + "..."
			}
			lines = append(lines, strings.TrimSuffix(name+": "+value, ": "))
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// asCurl returns a command that sends the request once more, with the token of the environment.
func asCurl(e *exchange, r *http.Request, upstream bool) string {
	address := "http://" + r.Host + r.URL.RequestURI()
	if upstream {
		_, path, _ := strings.Cut(e.route, " ")
		address = "http://" + r.Host + path + e.request.Target
	}
	command := "curl"
	if r.Method != http.MethodGet {
		command += " -X " + method(r.Method)
	}
	command += " -H 'Accept: application/json'"
	if r.Header.Get("Authorization") != "" {
		command += ` -H "Authorization: Bearer $CLINICALDOC_TOKEN"`
	}
	switch e.route {
	case clinicaldoctest.RouteCreateNote:
		command += " -F name=NAME -F patient_id=PATIENT -F prompt_id=PROMPT -F file=@RECORDING"
	case clinicaldoctest.RouteUpdateNote:
		command += ` -H 'Content-Type: application/json' -d '{"name":"NAME"}'`
	}
	return command + " " + quoted(address)
}

// quoted puts a text into a shell's single quotes.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// goCalls are the SDK's calls by route; %s stands for the id.
var goCalls = map[string]string{
	clinicaldoctest.RouteListTokens:  "tokens, err := client.Tokens.List(ctx)",
	clinicaldoctest.RouteRevokeToken: "confirmation, err := client.Tokens.Revoke(ctx, %s)",
	clinicaldoctest.RouteCreateNote:  "note, err := client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{Name: name, PatientID: patientID, PromptID: promptID, Audio: audio})",
	clinicaldoctest.RouteListNotes:   "page, err := client.Notes.List(ctx, clinicaldoc.ListNotesParams{})",
	clinicaldoctest.RouteGetNote:     "note, err := client.Notes.Get(ctx, %s)",
	clinicaldoctest.RouteUpdateNote:  "note, err := client.Notes.Update(ctx, %s, clinicaldoc.UpdateNoteParams{Name: &name})",
	clinicaldoctest.RouteDeleteNote:  "confirmation, err := client.Notes.Delete(ctx, %s)",
	clinicaldoctest.RouteSignNote:    "note, err := client.Notes.Sign(ctx, %s)",
	clinicaldoctest.RouteAudioURL:    "address, err := client.Notes.AudioURL(ctx, %s)",
	clinicaldoctest.RouteMe:          "user, err := client.Users.Me(ctx)",
	clinicaldoctest.RouteAudio:       "n, err := client.Notes.DownloadAudio(ctx, id, w, clinicaldoc.DownloadParams{})",
}

// asGo returns the SDK's call that makes such a request.
func asGo(route string, r *http.Request, upstream bool) string {
	call, known := goCalls[route]
	switch {
	case !known:
		return "err := client.Do(ctx, method, path, nil, &out)"
	case !strings.Contains(call, "%s"):
		return call
	case upstream:
		return fmt.Sprintf(call, "id")
	}
	return fmt.Sprintf(call, idIn(r.URL.Path))
}

// idIn returns the number in a path.
func idIn(path string) string {
	for segment := range strings.SplitSeq(path, "/") {
		if segment != "" && strings.Trim(segment, "0123456789") == "" {
			return segment
		}
	}
	return "id"
}
