package devproxy

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// The HTTP Archive format 1.2, as other tools read and write it. Members that begin with _ are ours.
type (
	harFile struct {
		Log harLog `json:"log"`
	}
	harLog struct {
		Version string     `json:"version"`
		Creator harCreator `json:"creator"`
		Entries []harEntry `json:"entries"`
	}
	harCreator struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	harEntry struct {
		Started    time.Time   `json:"startedDateTime"`
		Time       float64     `json:"time"`
		Request    harRequest  `json:"request"`
		Response   harResponse `json:"response"`
		Cache      struct{}    `json:"cache"`
		Timings    harTimings  `json:"timings"`
		Connection string      `json:"connection,omitempty"`
		Route      string      `json:"_route,omitempty"`
		Fault      string      `json:"_fault,omitempty"`
		NoteID     int64       `json:"_note,omitempty"`
	}
	harTimings struct {
		Send    float64 `json:"send"`
		Wait    float64 `json:"wait"`
		Receive float64 `json:"receive"`
	}
	harRequest struct {
		Method      string      `json:"method"`
		URL         string      `json:"url"`
		HTTPVersion string      `json:"httpVersion"`
		Cookies     []harPair   `json:"cookies"`
		Headers     []harPair   `json:"headers"`
		QueryString []harPair   `json:"queryString"`
		PostData    *harContent `json:"postData,omitempty"`
		HeadersSize int         `json:"headersSize"`
		BodySize    int64       `json:"bodySize"`
	}
	harResponse struct {
		Status      int        `json:"status"`
		StatusText  string     `json:"statusText"`
		HTTPVersion string     `json:"httpVersion"`
		Cookies     []harPair  `json:"cookies"`
		Headers     []harPair  `json:"headers"`
		Content     harContent `json:"content"`
		RedirectURL string     `json:"redirectURL"`
		HeadersSize int        `json:"headersSize"`
		BodySize    int64      `json:"bodySize"`
	}
	harPair struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	// harContent is the body of a request, which has no size, or of a response.
	harContent struct {
		Size        *int64 `json:"size,omitempty"`
		MimeType    string `json:"mimeType"`
		Text        string `json:"text"`
		Encoding    string `json:"encoding,omitempty"`
		EncodingOwn string `json:"_encoding,omitempty"` // of a request, where the format has none
		Cut         bool   `json:"_cut,omitempty"`      // it is not whole
	}
)

// archive returns requests as they are saved to a file. Tokens in headers are withheld. For a real service, tokens in
// addresses are withheld too.
func archive(requests []*request) harFile {
	file := harFile{harLog{
		Version: "1.2", Creator: harCreator{"clinicaldoc-devproxy", version()}, Entries: []harEntry{},
	}}
	for _, r := range requests {
		if r.record != nil && !r.Pending {
			file.Log.Entries = append(file.Log.Entries, r.entry())
		}
	}
	return file
}

func (r *request) entry() harEntry {
	rec := r.record
	path, rawQuery, _ := strings.Cut(rec.uri, "?")
	query := []harPair{}
	for pair := range strings.SplitSeq(rawQuery, "&") {
		if name, value, _ := strings.Cut(pair, "="); pair != "" {
			query = append(query, harPair{unescaped(name), unescaped(value)})
		}
	}
	entry := harEntry{
		Started: time.UnixMilli(r.At).UTC(), Time: r.Millis, Timings: harTimings{Wait: r.Millis}, Connection: r.Conn,
		Route: r.Route, Fault: r.Fault, NoteID: r.NoteID,
		Request: harRequest{
			Method: rec.method, URL: rec.scheme + "://" + rec.host + path, HTTPVersion: r.Proto, Cookies: []harPair{},
			Headers:     pairs(rec.requestHeader),
			QueryString: query, HeadersSize: -1, BodySize: r.Received,
		},
		Response: harResponse{
			Status: r.Status, StatusText: http.StatusText(r.Status), HTTPVersion: r.Proto, Cookies: []harPair{},
			Headers: pairs(rec.responseHeader),
			Content: contentOf(rec.responseBody, rec.responseHeader), RedirectURL: rec.responseHeader.Get("Location"),
			HeadersSize: -1, BodySize: r.Sent,
		},
	}
	if rawQuery != "" {
		entry.Request.URL += "?" + rawQuery
	}
	if sent := contentOf(rec.requestBody, rec.requestHeader); sent.Text != "" || sent.Cut {
		sent.EncodingOwn, sent.Encoding, sent.Size = sent.Encoding, "", nil
		entry.Request.PostData = &sent
	}
	return entry
}

func unescaped(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}

func pairs(header http.Header) []harPair {
	list := []harPair{}
	for _, line := range headerLines(header) {
		name, value, _ := strings.Cut(line, ": ")
		list = append(list, harPair{name, value})
	}
	return list
}

func contentOf(kept *body, header http.Header) harContent {
	content, whole := kept.bytes()
	size := int64(len(content))
	c := harContent{Size: &size, MimeType: header.Get("Content-Type"), Text: string(content), Cut: !whole}
	if !utf8.Valid(content) {
		c.Text, c.Encoding = base64.StdEncoding.EncodeToString(content), "base64"
	}
	return c
}

// bytes returns the body as it was sent.
func (c harContent) bytes() ([]byte, error) {
	if c.Encoding != "base64" {
		return []byte(c.Text), nil
	}
	content, err := base64.StdEncoding.DecodeString(c.Text)
	if err != nil {
		return nil, errors.New("a body of the archive is not in base64")
	}
	return content, nil
}

// load reads a file of requests. If one of them is wrong, it keeps none.
func (t *traffic) load(text []byte) (count int, err error) {
	var file harFile
	if err := json.Unmarshal(text, &file); err != nil || file.Log.Version == "" {
		return 0, errors.New("the file is not an HTTP archive (HAR)")
	}
	loaded := make([]*request, len(file.Log.Entries))
	for i, entry := range file.Log.Entries {
		if loaded[i], err = t.fromEntry(entry); err != nil {
			t.dropBodies(loaded[:i])
			return 0, err
		}
	}
	for _, r := range loaded {
		t.add(r)
	}
	t.events.publish("reset", struct{}{})
	return len(loaded), nil
}

func (t *traffic) fromEntry(entry harEntry) (*request, error) {
	address, err := url.Parse(entry.Request.URL)
	if err != nil || address.Host == "" || entry.Request.Method == "" {
		return nil, errors.New("an entry of the archive is not a request")
	}
	rec := &record{
		method: entry.Request.Method, scheme: address.Scheme, host: address.Host, uri: address.RequestURI(),
		announced:     -1,
		requestHeader: headerOf(entry.Request.Headers), requestBody: t.bodies.new(), responseBody: t.bodies.new(),
	}
	rec = rec.answered(headerOf(entry.Response.Headers))
	t.withholdAddresses(rec)
	contents := []harContent{{}, entry.Response.Content}
	if entry.Request.PostData != nil {
		contents[0] = *entry.Request.PostData
		contents[0].Encoding = entry.Request.PostData.EncodingOwn
	}
	for i, into := range []*body{rec.requestBody, rec.responseBody} {
		content, err := contents[i].bytes()
		if err != nil {
			t.bodies.drop(rec.requestBody)
			return nil, err
		}
		_, _ = into.Write(content) // which keeps what it can
		into.cut = into.cut || contents[i].Cut
	}
	rec.storage = entry.Route == clinicaldoctest.RouteAudio
	if entry.Route == "" {
		entry.Route = t.routeOf(&http.Request{Method: rec.method, URL: address, Host: address.Host})
	}
	return &request{
		At: entry.Started.UnixMilli(), Method: method(entry.Request.Method), Route: entry.Route, Target: rec.uri,
		Status: entry.Response.Status, Fault: entry.Fault, NoteID: entry.NoteID, Proto: entry.Request.HTTPVersion,
		Conn:   entry.Connection,
		Millis: entry.Time, Received: max(entry.Request.BodySize, 0), Sent: max(entry.Response.BodySize, 0),
		Loaded: true, record: rec,
	}, nil
}

func headerOf(list []harPair) http.Header {
	header := http.Header{}
	for _, p := range list {
		header.Add(p.Name, p.Value)
	}
	return withoutSecrets(header)
}
