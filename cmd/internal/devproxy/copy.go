package devproxy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// maxInline is how long a body may be that stands in a command itself.
const maxInline = 16 << 10

// curl returns a command that sends exactly this request once more, with the token of the environment. A body that is
// long, or no text, is fetched from the inspector.
func (rec *record) curl(id int64) string {
	content, whole := rec.requestBody.bytes()
	if !whole { // what is left of it would be another request
		return "# the request's body was not kept completely: it cannot be sent again"
	}
	command := []string{"curl", "--path-as-is", "--globoff"}
	switch {
	case rec.method == http.MethodGet && len(content) == 0:
	case rec.method == http.MethodHead:
		command = append(command, "--head")
	default:
		command = append(command, "-X "+quoted(rec.method))
	}
	command = append(command, rec.curlHeaders()...)
	before := ""
	switch {
	case len(content) == 0:
	case fitsInline(content):
		command = append(command, "--data-binary "+quoted(string(content)))
	default:
		address := fmt.Sprintf("http://%s%srequests/%d/request/body?raw", rec.host, pagePath, id)
		before = "curl --silent " + quoted(address) + " | "
		command = append(command, "--data-binary @-")
	}
	return before + strings.Join(append(command, quoted(rec.scheme+"://"+rec.host+rec.uri)), " ")
}

// curlHeaders are the arguments for the request's headers. They also remove headers that curl would add.
func (rec *record) curlHeaders() (arguments []string) {
	for _, line := range headerLines(rec.requestHeader) {
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case name == "Content-Length":
		case name == "Authorization" && strings.HasPrefix(strings.Join(rec.authorization, ""), "Bearer "):
			arguments = append(arguments, `-H "Authorization: Bearer $CLINICALDOC_TOKEN"`)
		case value == "":
			arguments = append(arguments, "-H "+quoted(name+";")) // an empty one
		default:
			arguments = append(arguments, "-H "+quoted(line))
		}
	}
	for _, added := range []string{"Accept", "User-Agent", "Content-Type", "Expect"} {
		if _, sent := rec.requestHeader[added]; !sent {
			arguments = append(arguments, "-H "+quoted(added+":"))
		}
	}
	if rec.chunked {
		arguments = append(arguments, "-H 'Transfer-Encoding: chunked'")
	}
	return arguments
}

// fitsInline reports whether a body is short text that curl does not take for the name of a file.
func fitsInline(content []byte) bool {
	isText := utf8.Valid(content) && !strings.ContainsRune(string(content), 0)
	return isText && len(content) <= maxInline && content[0] != '@'
}

// quoted puts a text into a shell's single quotes.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// goCall is what is known of a call of the SDK that makes a request; what is not known is a variable's name.
type goCall struct {
	id, method, path string
	query            url.Values // by the names that the SDK has if it is told no other
	fields           map[string]string
	recording        string
}

// callOf reads the arguments of a call from a request to a service with these names.
func callOf(route string, rec *record, names clinicaldoctest.QueryNames) goCall {
	path, rawQuery, _ := strings.Cut(rec.uri, "?")
	sent, _ := url.ParseQuery(rawQuery)
	query := url.Values{
		"patient_id": sent[names.PatientID], "per_page": sent[names.PerPage], "sort": sent[names.Sort],
		"page": sent[names.Page], "cursor": sent[names.Cursor],
	}
	call := goCall{id: idIn(path), method: rec.method, path: rec.uri, query: query, fields: map[string]string{}}
	content, _ := rec.requestBody.bytes()
	switch route {
	case clinicaldoctest.RouteCreateNote:
		for _, p := range partsOf(rec.requestHeader, content) {
			if p.File != "" {
				call.recording = p.File
			} else {
				call.fields[p.Name] = p.Text
			}
		}
	case clinicaldoctest.RouteUpdateNote:
		var texts map[string]any
		_ = json.Unmarshal(content, &texts) // what is no JSON has no fields
		for name, value := range texts {
			if text, isText := value.(string); isText {
				call.fields[name] = text
			}
		}
	}
	return call
}

// text is the call in Go.
func (c goCall) text(route string) string {
	id := cmp.Or(c.id, "id")
	switch route {
	case clinicaldoctest.RouteListTokens:
		return "tokens, err := client.Tokens.List(ctx)"
	case clinicaldoctest.RouteRevokeToken:
		return "confirmation, err := client.Tokens.Revoke(ctx, " + id + ")"
	case clinicaldoctest.RouteCreateNote:
		return "note, err := client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{" + c.createParams() + "})"
	case clinicaldoctest.RouteListNotes:
		return "page, err := client.Notes.List(ctx, clinicaldoc.ListNotesParams{" + c.listParams() + "})"
	case clinicaldoctest.RouteGetNote:
		return "note, err := client.Notes.Get(ctx, " + id + ")"
	case clinicaldoctest.RouteUpdateNote:
		return "note, err := client.Notes.Update(ctx, " + id + ", clinicaldoc.UpdateNoteParams{" + c.updateParams() +
			"})"
	case clinicaldoctest.RouteDeleteNote:
		return "confirmation, err := client.Notes.Delete(ctx, " + id + ")"
	case clinicaldoctest.RouteSignNote:
		return "note, err := client.Notes.Sign(ctx, " + id + ")"
	case clinicaldoctest.RouteAudioURL:
		return "address, err := client.Notes.AudioURL(ctx, " + id + ")"
	case clinicaldoctest.RouteMe:
		return "user, err := client.Users.Me(ctx)"
	case clinicaldoctest.RouteAudio:
		return "n, err := client.Notes.DownloadAudio(ctx, id, w, clinicaldoc.DownloadParams{})"
	}
	if c.path == "" {
		return "err := client.Do(ctx, method, path, nil, &out)"
	}
	return fmt.Sprintf("err := client.Do(ctx, %q, %q, nil, &out)", c.method, c.path)
}

func (c goCall) createParams() string {
	if c.fields == nil {
		return "Name: name, PatientID: patientID, PromptID: promptID, Audio: audio"
	}
	params := []string{"Audio: audio"}
	if c.recording != "" {
		params[0] = "Audio: audio /* " + strings.ReplaceAll(strconv.Quote(c.recording), "*/", "* /") + " */"
	}
	for _, field := range [][2]string{{"prompt_id", "PromptID"}, {"patient_id", "PatientID"}} {
		if number, err := strconv.ParseInt(c.fields[field[0]], 10, 64); err == nil {
			params = append(params, field[1]+": "+strconv.FormatInt(number, 10))
		}
	}
	if name := c.fields["name"]; name != "" {
		params = append(params, "Name: "+strconv.Quote(name))
	}
	slices.Reverse(params)
	return strings.Join(params, ", ")
}

func (c goCall) updateParams() string {
	if c.fields == nil {
		return "Name: &name"
	}
	var params []string
	update := reflect.ValueOf(c.update())
	for _, field := range reflect.VisibleFields(update.Type()) {
		if field.Type != reflect.TypeFor[*string]() {
			continue
		}
		if text := update.FieldByIndex(field.Index); !text.IsNil() {
			params = append(params, field.Name+": new("+strconv.Quote(text.Elem().String())+")")
		}
	}
	return strings.Join(params, ", ")
}

// listParams returns the fields of ListNotesParams, as Go source, that request the same list.
func (c goCall) listParams() string {
	var params []string
	number := func(name, field string) {
		if n, err := strconv.ParseInt(c.query.Get(name), 10, 64); err == nil {
			params = append(params, field+": "+strconv.FormatInt(n, 10))
		}
	}
	number("patient_id", "PatientID")
	number("per_page", "PerPage")
	number("page", "Page")
	if sort := c.query.Get("sort"); sort != "" {
		params = append(params, "Sort: "+strconv.Quote(sort))
	}
	if cursor := c.query.Get("cursor"); cursor != "" {
		params = append(params, "Cursor: "+strconv.Quote(cursor))
	}
	return strings.Join(params, ", ")
}

// idIn returns the number in a path.
func idIn(path string) string {
	for segment := range strings.SplitSeq(path, "/") {
		if _, err := strconv.ParseInt(segment, 10, 64); err == nil {
			return segment
		}
	}
	return "id"
}
