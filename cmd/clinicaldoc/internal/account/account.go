// Package account selects the service and the token. They come from the environment, or from a named context whose
// token is in the system's keyring or in a private file.
package account

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// Account is a service and a token for it. They are one pair: no token ever meets another base URL than its own.
type Account struct {
	Context Context
	Name    string // of the context; "" when the environment names the service
	Token   string
	// URLFrom and TokenFrom say where the values come from, in words.
	URLFrom, TokenFrom string
}

// ErrNone means that neither the environment nor a context names a service.
var ErrNone = errors.New("not logged in")

// AmbiguousError reports that the sources contradict each other, so a token might reach the wrong host.
type AmbiguousError struct {
	Text string
	Do   string // empty: the variables are to be set or unset
}

func (e *AmbiguousError) Error() string { return e.Text }

// Find returns the account to use. The settings are read only if the environment names no account.
func Find(named string) (*Account, error) {
	if os.Getenv(clinicaldoc.EnvBaseURL) != "" || os.Getenv(clinicaldoc.EnvToken) != "" {
		return (&Store{}).Find(named)
	}
	store, err := Open()
	if err != nil {
		return nil, err
	}
	return store.Find(named)
}

// Find returns the account to use. A context that was named on the command line must not meet the environment's values.
func (s *Store) Find(named string) (*Account, error) {
	baseURL, token := os.Getenv(clinicaldoc.EnvBaseURL), os.Getenv(clinicaldoc.EnvToken)
	switch {
	case baseURL == "" && token == "":
		return s.fromContext(named)
	case named != "":
		return nil,
			&AmbiguousError{Text: fmt.Sprintf("--context %s and %s contradict each other", named, set(baseURL, token))}
	case baseURL == "" || token == "":
		return nil,
			&AmbiguousError{Text: fmt.Sprintf(
				"only one of %s and %s is set: a token belongs to one service", clinicaldoc.EnvBaseURL,
				clinicaldoc.EnvToken,
			)}
	}
	query, err := ParseQueryNames(os.Getenv(EnvQueryNames))
	if err != nil {
		return nil, &AmbiguousError{EnvQueryNames + ": " + err.Error(), "correct " + EnvQueryNames + ", or unset it"}
	}
	return &Account{
		Context: Context{BaseURL: baseURL, Query: query}, Token: token,
		URLFrom: "variable " + clinicaldoc.EnvBaseURL, TokenFrom: "variable " + clinicaldoc.EnvToken,
	}, nil
}

func set(baseURL, token string) string {
	switch {
	case token == "":
		return clinicaldoc.EnvBaseURL
	case baseURL == "":
		return clinicaldoc.EnvToken
	}
	return clinicaldoc.EnvBaseURL + " with " + clinicaldoc.EnvToken
}

func (s *Store) fromContext(named string) (*Account, error) {
	config, err := s.Load()
	if err != nil {
		return nil, err
	}
	name := cmp.Or(named, config.Current)
	if name == "" {
		return nil, ErrNone
	}
	context, ok := config.Contexts[name]
	if !ok {
		return nil, fmt.Errorf("there is no context %q: %w", name, ErrNone)
	}
	token, from, err := s.token(name, context.BaseURL)
	if err != nil {
		return nil, err
	}
	return &Account{Context: context, Name: name, Token: token, URLFrom: "context " + name, TokenFrom: from}, nil
}

// EnvQueryNames sets the names of the list's parameters where the environment names the service.
const EnvQueryNames = "CLINICALDOC_QUERY_NAMES"

// QueryNames are the names of the list's query parameters, as the SDK's.
type QueryNames struct {
	PatientID string `json:"patient_id,omitempty"`
	PerPage   string `json:"per_page,omitempty"`
	Sort      string `json:"sort,omitempty"`
	Page      string `json:"page,omitempty"`
	Cursor    string `json:"cursor,omitempty"`
}

// ParseQueryNames reads names such as "patient_id=filter[patient_id],per_page=limit".
func ParseQueryNames(text string) (QueryNames, error) {
	var names QueryNames
	fields := map[string]*string{
		"patient_id": &names.PatientID, "per_page": &names.PerPage, "sort": &names.Sort, "page": &names.Page,
		"cursor": &names.Cursor,
	}
	for pair := range strings.SplitSeq(text, ",") {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		field := fields[key]
		if field == nil || value == "" {
			return names,
				errors.New("use patient_id=NAME, per_page=NAME, sort=NAME, page=NAME, cursor=NAME, with commas between")
		}
		*field = value
	}
	return names, nil
}

// String is what [ParseQueryNames] reads.
func (q QueryNames) String() string {
	var pairs []string
	for _, p := range []struct{ key, value string }{
		{"patient_id", q.PatientID}, {"per_page", q.PerPage}, {"sort", q.Sort}, {"page", q.Page}, {"cursor", q.Cursor},
	} {
		if p.value != "" {
			pairs = append(pairs, p.key+"="+p.value)
		}
	}
	return strings.Join(pairs, ",")
}

// Unusual leaves out the names that are the usual ones.
func (q QueryNames) Unusual() QueryNames {
	for name, usual := range map[*string]string{
		&q.PatientID: "patient_id", &q.PerPage: "per_page", &q.Sort: "sort", &q.Page: "page", &q.Cursor: "cursor",
	} {
		if *name == usual {
			*name = ""
		}
	}
	return q
}

// Client returns a client for the account.
func (a *Account) Client(options ...clinicaldoc.Option) (*clinicaldoc.Client, error) {
	options = append(options, clinicaldoc.WithQueryNames(clinicaldoc.QueryNames(a.Context.Query)))
	if a.Context.InsecureHTTP {
		options = append(options, clinicaldoc.WithInsecureHTTP())
	}
	return clinicaldoc.NewClient(a.Context.BaseURL, a.Token, options...)
}
