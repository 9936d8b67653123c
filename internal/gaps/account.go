package gaps

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/description"
)

// askAccount reads the user and the tokens, and revokes the spare token if there is one.
func (p *prober) askAccount(ctx context.Context) {
	var r clinicaldoc.Response
	_, err := p.Client.Users.Me(ctx, clinicaldoc.WithResponse(&r))
	p.observe("code.me", r, err)
	if err == nil {
		user, wrapped := record(r.Body)
		p.seen.wrapping(wrapped)
		p.seen.compare("user", user, description.Schemas["User"])
	}

	r = clinicaldoc.Response{}
	_, err = p.Client.Tokens.List(ctx, clinicaldoc.WithResponse(&r))
	p.observe("code.tokens", r, err)
	if err == nil {
		p.observeTokens(r.Body)
	}

	if p.SpareTokenID == 0 {
		p.report.unseen("code.revoke", "there is no token that may be revoked")
		return
	}
	r = clinicaldoc.Response{}
	_, err = p.Client.Tokens.Revoke(ctx, p.SpareTokenID, clinicaldoc.WithResponse(&r))
	p.observe("code.revoke", r, err)
}

// observeTokens compares the tokens of a response with their description.
func (p *prober) observeTokens(body []byte) {
	var records []fields
	if json.Unmarshal(asObject(body)["tokens"], &records) != nil {
		return
	}
	described := description.Schemas["Token"]
	for _, token := range records {
		p.seen.compare("token", token, described)
		for name := range token {
			if described.Fields[name] == nil {
				p.seen.tokenFields.add(name)
			}
		}
	}
	p.report.set("token.fields", "%s", names(p.seen.tokenFields.sorted()))
}

// askErrors causes refusals that do no harm, and reports how they look.
func (p *prober) askErrors(ctx context.Context) {
	reportRefusal := func(key, described string, r clinicaldoc.Response, err error) {
		p.observe(key, r, err)
		refusal := (*clinicaldoc.Error)(nil)
		if errors.As(err, &refusal) {
			p.report.set(key, "%d, %s", refusal.StatusCode, wording(refusal, described))
		}
	}
	var r clinicaldoc.Response
	_, err := p.Client.Notes.Get(ctx, absentID, clinicaldoc.WithResponse(&r))
	reportRefusal("error.404", "Resource not found", r, err)
	if p.Stranger == nil {
		return
	}
	_, err = p.Stranger.Users.Me(ctx, clinicaldoc.WithResponse(&r))
	reportRefusal("error.401", "Unauthorized", r, err)
}

// undescribedPaths are where services of this kind have endpoints that the description mentions but does not show. The
// methods are those that it shows.
var undescribedPaths = []struct{ path, methods string }{
	{"/login", ""},
	{"/logout", ""},
	{"/v1/auth/login", ""},
	{"/v1/auth/logout", ""},
	{"/v1/auth/tokens", "GET"},
	{"/user", "GET"},
	{"/v1/user", ""},
	{"/v1/permissions", ""},
	{"/v1/roles", ""},
	{"/v1/practices", ""},
	{"/v1/patients", ""},
	{"/v1/prompts", ""},
	{"/v1/webhooks", ""},
	{"/v1/progress-notes", "GET, POST"},
}

// askEndpoints finds endpoints that are not described: paths that exist, or methods that a described path allows.
func (p *prober) askEndpoints(ctx context.Context) {
	_, exists := p.allowedMethods(ctx, "/v1/synthetic-path-that-does-not-exist")
	if exists {
		p.report.unseen("endpoints", "the service answers OPTIONS on any path")
		return
	}
	var found []string
	for _, candidate := range undescribedPaths {
		allowed, exists := p.allowedMethods(ctx, candidate.path)
		undescribed := slices.DeleteFunc(allowed, func(method string) bool {
			return strings.Contains(candidate.methods, method)
		})
		isNew := len(undescribed) > 0 || candidate.methods == ""
		if exists && isNew {
			found = append(found, strings.TrimSpace(strings.Join(undescribed, " ")+" "+candidate.path))
		}
	}
	p.report.set("endpoints", "%s", orNone(found, ", "))
}

// allowedMethods asks with OPTIONS, which changes nothing, whether a path exists and which methods it allows. It leaves
// out HEAD and OPTIONS.
func (p *prober) allowedMethods(ctx context.Context, path string) (methods []string, exists bool) {
	var r clinicaldoc.Response
	opts := []clinicaldoc.CallOption{clinicaldoc.WithResponse(&r), clinicaldoc.WithoutRetry()}
	err := p.Client.Do(ctx, http.MethodOptions, path, nil, nil, opts...)
	p.seen.headers(r.Header)
	usual := []string{"", http.MethodHead, http.MethodOptions}
	for method := range strings.SplitSeq(r.Header.Get("Allow"), ",") {
		method = strings.TrimSpace(method)
		if !slices.Contains(usual, method) {
			methods = append(methods, method)
		}
	}
	return methods, err == nil
}
