package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

type apiOptions struct {
	*Env
	method, path string
	fields       []string
	headers      []string
	input        string
	jq           output.Filter
	include      bool
}

func newAPI(e *Env) *cobra.Command {
	o := &apiOptions{Env: e}
	c := &cobra.Command{
		Use: "api METHOD PATH", Short: "Call any endpoint and print the response", Args: exactly(2, "a method and a path such as /v1/progress-notes/42"),
		Long: `Call any endpoint of the service and print its response as it comes: with texts, names and signed URLs, which you have
asked for by this. The token is sent to the service and nowhere else; retries are those of the SDK.`,
		Example: `  clinicaldoc api GET /user
  clinicaldoc api GET '/v1/progress-notes?per_page=5' --jq '.data[].id'
  clinicaldoc api PUT /v1/progress-notes/42 --field name="Follow-up"
  clinicaldoc api PUT /v1/progress-notes/42 --input note.json`,
		RunE: func(c *cobra.Command, args []string) error {
			o.method, o.path = strings.ToUpper(args[0]), args[1]
			return o.run(c.Context())
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete}, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
	f := c.Flags()
	f.StringArrayVar(&o.fields, "field", nil, "a member of the JSON body, `NAME=VALUE`: true, false, null and numbers are taken as such")
	f.StringArrayVar(&o.headers, "header", nil, "a header to add, `NAME:VALUE`")
	f.StringVar(&o.input, "input", "", "the JSON body is in this `FILE`; - is standard input")
	f.Var(&o.jq, "jq", "print what this jq `EXPRESSION` makes of the response")
	f.BoolVar(&o.include, "include", false, "print the status line first")
	return c
}

func (o *apiOptions) run(ctx context.Context) error {
	u, err := url.Parse(o.path)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(u.Path, "/") {
		return usagef("the path starts with a slash and holds no host: the token belongs to one service")
	}
	body, err := o.body()
	if err != nil {
		return err
	}
	var response clinicaldoc.Response
	options := []clinicaldoc.CallOption{clinicaldoc.WithResponse(&response)}
	query := u.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		for _, value := range query[name] {
			options = append(options, clinicaldoc.WithQuery(name, value))
		}
	}
	for _, header := range o.headers {
		name, value, ok := strings.Cut(header, ":")
		if !ok {
			return usagef("--header wants NAME:VALUE")
		}
		options = append(options, clinicaldoc.WithHeader(strings.TrimSpace(name), strings.TrimSpace(value)))
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	callErr := client.Do(ctx, o.method, u.EscapedPath(), body, nil, options...)
	if err := o.show(ctx, &response); err != nil {
		return err
	}
	return callErr
}

// show prints what came back, also of a refusal: it was asked for.
func (o *apiOptions) show(ctx context.Context, response *clinicaldoc.Response) error {
	if o.include && response.StatusCode != 0 {
		if err := o.outf("%d %s\n", response.StatusCode, http.StatusText(response.StatusCode)); err != nil {
			return err
		}
	}
	if len(response.Body) == 0 {
		return nil
	}
	value, err := output.Decode(response.Body)
	if err == nil && (o.jq.IsSet() || o.IO.OutTTY) {
		return o.IO.JSON(ctx, value, &o.jq)
	}
	text := o.IO.Text(string(response.Body))
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	_, err = io.WriteString(o.IO.Out, text)
	return err
}

// body returns what to send: nil for nothing.
func (o *apiOptions) body() (body any, err error) {
	switch {
	case o.input != "" && len(o.fields) > 0:
		return nil, usagef("--field and --input exclude each other")
	case len(o.fields) > 0:
		members := map[string]any{}
		for _, field := range o.fields {
			name, value, ok := strings.Cut(field, "=")
			if !ok || name == "" {
				return nil, usagef("--field wants NAME=VALUE")
			}
			members[name] = fieldValue(value)
		}
		return members, nil
	case o.input == "":
		return body, nil
	}
	var text []byte
	if o.input == "-" {
		text, err = io.ReadAll(o.IO.In)
	} else {
		text, err = os.ReadFile(o.input)
	}
	if err != nil {
		return nil, fmt.Errorf("--input: %w", err)
	}
	if !json.Valid(bytes.TrimSpace(text)) {
		return nil, usagef("--input holds no JSON")
	}
	return json.RawMessage(text), nil
}

func fieldValue(text string) any {
	switch text {
	case "true":
		return true
	case "false":
		return false
	case "null":
		return nil
	}
	if value, err := output.Decode([]byte(text)); err == nil {
		if number, ok := value.(json.Number); ok && number.String() == text {
			return number
		}
	}
	return text
}
