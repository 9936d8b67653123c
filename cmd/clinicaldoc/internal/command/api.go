package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

type apiOptions struct {
	*Env
	method, path string
	fields, raws []string
	headers      []string
	input        string
	jq           output.Filter
	template     output.Template
	include      bool
	paginate     bool
}

func newAPI(e *Env) *cobra.Command {
	o := &apiOptions{Env: e}
	c := &cobra.Command{
		Use: "api [METHOD] PATH", Short: "Call any endpoint and print the response",
		Args: between(1, 2, "an optional method and a path such as /v1/progress-notes/42"),
		Long: `Call any endpoint of the service and print its response, including texts, names and signed URLs. The
token is sent only to the service. The default method is GET, or POST if there is a body. Safe requests are retried. A
query is sent as typed, or rejected.

If the service refuses the request, its response is printed unchanged, also with --jq and --template, and the exit code
depends on the status. --paginate requests and prints all following pages.`,
		Example: `  clinicaldoc api /user
  clinicaldoc api '/v1/progress-notes?per_page=100' --paginate --jq '.data[].id'
  clinicaldoc api PUT /v1/progress-notes/42 -F name="Follow-up" -F analysis=@analysis.txt
  clinicaldoc api PUT /v1/progress-notes/42 --input note.json`,
		RunE: func(c *cobra.Command, args []string) error {
			o.path = args[len(args)-1]
			if len(args) == 2 {
				o.method = strings.ToUpper(args[0])
			}
			return o.run(c.Context())
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete},
					cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
	f := c.Flags()
	f.StringArrayVarP(
		&o.fields, "field", "F", nil,
		"a member of the JSON body, `NAME=VALUE`: true, false, null and numbers are sent as JSON, @FILE is a file's "+
			"text, @- is standard input",
	)
	f.StringArrayVarP(&o.raws, "raw-field", "f", nil, "a member of the JSON body, `NAME=TEXT`, always sent as a string")
	f.StringArrayVarP(&o.headers, "header", "H", nil, "a header to add, `NAME:VALUE`")
	f.StringVar(&o.input, "input", "", "the JSON body is in this `FILE`; - is standard input")
	f.VarP(&o.jq, "jq", "q", "filter the response with this jq `EXPRESSION`")
	f.Var(&o.template, "template", "format the response with this Go `TEMPLATE`")
	f.BoolVarP(&o.include, "include", "i", false, "print the status line and the headers first")
	f.BoolVar(&o.paginate, "paginate", false, "request all following pages too (only with GET)")
	return c
}

func (o *apiOptions) run(ctx context.Context) error {
	path, query, err := o.target()
	if err != nil {
		return err
	}
	if o.jq.IsSet() && o.template.IsSet() {
		return errTwoForms
	}
	body, err := o.body(ctx)
	if err != nil {
		return err
	}
	if o.method == "" && body != nil {
		o.method = http.MethodPost
	}
	o.method = cmp.Or(o.method, http.MethodGet)
	if o.paginate && (o.method != http.MethodGet || body != nil) {
		return usagef("--paginate is for GET without a body")
	}
	options, err := o.headerOptions()
	if err != nil {
		return err
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	return o.pages(query, func(query url.Values) (*clinicaldoc.Response, error) {
		return o.call(ctx, client, path, query, body, options)
	})
}

// target returns the path and the query that were typed.
func (o *apiOptions) target() (path string, query url.Values, err error) {
	u, err := url.Parse(o.path)
	if err != nil {
		return "", nil, errWrongPath
	}
	elsewhere := u.Scheme != "" || u.Host != ""
	if elsewhere || !strings.HasPrefix(u.Path, "/") || strings.Contains(o.path, "#") {
		return "", nil, errWrongPath
	}
	query, err = url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", nil, usagef("the query cannot be sent as typed: " +
			"write %%3B for ; and %%25 for %%, and separate parameters with &")
	}
	return u.EscapedPath(), query, nil
}

var errWrongPath = usagef(
	"the path must start with a slash and must not contain a host or #: the token belongs to one service",
)

// headerOptions are the headers that were given.
func (o *apiOptions) headerOptions() (options []clinicaldoc.CallOption, err error) {
	for _, header := range o.headers {
		name, value, ok := strings.Cut(header, ":")
		if !ok {
			return nil, usagef("--header needs NAME:VALUE")
		}
		options = append(options, clinicaldoc.WithHeader(strings.TrimSpace(name), strings.TrimSpace(value)))
	}
	return options, nil
}

// pages calls for one page after the other, for as long as there is one.
func (o *apiOptions) pages(query url.Values, call func(url.Values) (*clinicaldoc.Response, error)) error {
	seen := map[string]bool{}
	for {
		response, err := call(query)
		if err != nil {
			return err
		}
		seen[query.Encode()] = true
		next, err := o.next(query, response)
		if err != nil || next == nil {
			return err
		}
		if seen[next.Encode()] {
			return refusedf(
				"--paginate: the service repeated a page instead of sending the next one, so later pages are missing",
			)
		}
		query = next
	}
}

// call makes one request and prints its response. The status comes first: what a refusal holds is not what an
// expression is meant for.
func (o *apiOptions) call(
	ctx context.Context, client *clinicaldoc.Client, path string, query url.Values, body any,
	options []clinicaldoc.CallOption,
) (*clinicaldoc.Response, error) {
	var response clinicaldoc.Response
	options = append(slices.Clone(options), clinicaldoc.WithResponse(&response))
	for _, name := range slices.Sorted(maps.Keys(query)) {
		for _, value := range query[name] {
			options = append(options, clinicaldoc.WithQuery(name, value))
		}
	}
	callErr := client.Do(ctx, o.method, path, body, nil, options...)
	if o.include && response.StatusCode != 0 {
		if err := o.showHeader(&response); err != nil {
			return nil, err
		}
	}
	if callErr != nil || !o.jq.IsSet() && !o.template.IsSet() {
		if err := o.show(ctx, response.Body); err != nil {
			return nil, err
		}
		return &response, callErr
	}
	value, err := output.Decode(response.Body)
	switch {
	case err != nil:
		return nil,
			fmt.Errorf("the response (%d) is not JSON: %w", response.StatusCode, clinicaldoc.ErrUnexpectedResponse)
	case o.template.IsSet():
		err = o.IO.Template(value, &o.template)
	default:
		err = o.IO.JSON(ctx, value, &o.jq)
	}
	return &response, err
}

func (o *apiOptions) showHeader(response *clinicaldoc.Response) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%d %s\n", response.StatusCode, http.StatusText(response.StatusCode))
	for _, name := range slices.Sorted(maps.Keys(response.Header)) {
		for _, value := range response.Header[name] {
			fmt.Fprintf(&text, "%s: %s\n", name, output.Cell(value))
		}
	}
	_, err := io.WriteString(o.IO.Out, o.IO.Text(text.String())+"\n")
	return err
}

// show prints a body: JSON as JSON, anything else as a text.
func (o *apiOptions) show(ctx context.Context, body []byte) error {
	if len(body) == 0 {
		return nil
	}
	if value, err := output.Decode(body); err == nil && !o.IO.Raw {
		return o.IO.JSON(ctx, value, &output.Filter{})
	}
	text := o.IO.Text(string(body))
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	_, err := io.WriteString(o.IO.Out, text)
	return err
}

// next is the query of the page after this one, nil where there is none: by the link that the service gives, by its
// cursor, or by the page's number.
func (o *apiOptions) next(query url.Values, response *clinicaldoc.Response) (url.Values, error) {
	if !o.paginate {
		return nil, nil //nolint:nilnil // there is none
	}
	var page struct {
		Links struct {
			Next string `json:"next"`
		} `json:"links"`
		NextURL string `json:"next_page_url"`
		pageMeta
		Meta pageMeta `json:"meta"`
	}
	if err := json.Unmarshal(response.Body, &page); err != nil {
		return nil, refusedf("--paginate: the response is not a page of a list")
	}
	a, err := o.account()
	if err != nil {
		return nil, err
	}
	names := a.Context.Query
	meta := page.Meta
	if meta == (pageMeta{}) {
		meta = page.pageMeta
	}
	next := maps.Clone(query)
	link, _ := url.Parse(cmp.Or(page.Links.Next, page.NextURL))
	switch {
	case link != nil && link.RawQuery != "":
		// Only its query is taken: the token goes nowhere else.
		maps.Copy(next, link.Query())
	case meta.NextCursor != "":
		next.Set(cmp.Or(names.Cursor, "cursor"), meta.NextCursor)
	case meta.CurrentPage > 0 && meta.CurrentPage < meta.LastPage:
		next.Set(cmp.Or(names.Page, "page"), strconv.Itoa(meta.CurrentPage+1))
	default:
		return nil, nil //nolint:nilnil // this was the last one
	}
	return next, nil
}

type pageMeta struct {
	CurrentPage int    `json:"current_page"`
	LastPage    int    `json:"last_page"`
	NextCursor  string `json:"next_cursor"`
}

// body returns what to send: nil for nothing.
func (o *apiOptions) body(ctx context.Context) (any, error) {
	hasFields := len(o.fields)+len(o.raws) > 0
	switch {
	case o.input != "" && hasFields:
		return nil, usagef("--input cannot be combined with --field and --raw-field")
	case hasFields:
		return o.fieldsBody(ctx)
	case o.input == "":
		return nil, nil //nolint:nilnil // there is none
	}
	text, err := o.readInput(ctx, o.input)
	if err != nil {
		return nil, inputError(ctx, "--input cannot be read", err)
	}
	if !json.Valid(bytes.TrimSpace(text)) || !utf8.Valid(text) {
		return nil, usagef("--input is not valid JSON in UTF-8")
	}
	return json.RawMessage(text), nil
}

// fieldsBody is the object that --raw-field and --field describe, of which the latter win.
func (o *apiOptions) fieldsBody(ctx context.Context) (map[string]any, error) {
	members := map[string]any{}
	for i, field := range append(slices.Clone(o.raws), o.fields...) {
		name, text, ok := strings.Cut(field, "=")
		if !ok || name == "" {
			return nil, usagef("--field and --raw-field need NAME=VALUE")
		}
		var value any = text
		if i >= len(o.raws) {
			var err error
			value, err = o.fieldValue(ctx, text)
			if err != nil {
				return nil, err
			}
		}
		// encoding/json would put other letters in their place without a word, and that into a patient's note.
		if text, ok := value.(string); ok && !utf8.ValidString(text) {
			return nil, usagef("--field and --raw-field must be UTF-8, but one value is not")
		}
		members[name] = value
	}
	return members, nil
}

// readInput reads a file, or standard input for "-". It ends with the context and at the bound.
func (o *apiOptions) readInput(ctx context.Context, path string) ([]byte, error) {
	if path == "-" {
		return output.ReadAll(ctx, o.IO.In, output.MaxText)
	}
	return output.ReadFile(ctx, path, output.MaxText)
}

// inputError says that an input cannot be read, unless a signal ended the read.
func inputError(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return usagef("%s: %s", what, reason(err))
}

func (o *apiOptions) fieldValue(ctx context.Context, text string) (any, error) {
	switch text {
	case "true":
		return true, nil
	case "false":
		return false, nil
	case "null":
		return nil, nil //nolint:nilnil // that is the value
	}
	if path, ok := strings.CutPrefix(text, "@"); ok {
		content, err := o.readInput(ctx, path)
		if err != nil {
			return nil, inputError(ctx, "--field: the file cannot be read", err)
		}
		return string(content), nil
	}
	if value, err := output.Decode([]byte(text)); err == nil {
		if number, ok := value.(json.Number); ok && number.String() == text {
			return number, nil
		}
	}
	return text, nil
}
