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

// askAccount reads the user and the tokens, and revokes the spare one.
func (p *prober) askAccount(ctx context.Context) {
	var r clinicaldoc.Response
	_, err := p.Client.Users.Me(ctx, clinicaldoc.WithResponse(&r))
	p.saw("code.me", r, err)
	if err == nil {
		user, wrapped := record(r.Body)
		p.seen.form(wrapped)
		p.seen.compare("user", user, description.Schemas["User"])
	}

	r = clinicaldoc.Response{}
	_, err = p.Client.Tokens.List(ctx, clinicaldoc.WithResponse(&r))
	p.saw("code.tokens", r, err)
	if err == nil {
		p.lookAtTokens(r.Body)
	}

	if p.SpareTokenID == 0 {
		p.report.unseen("code.revoke", "there is no token that may be revoked")
		return
	}
	r = clinicaldoc.Response{}
	_, err = p.Client.Tokens.Revoke(ctx, p.SpareTokenID, clinicaldoc.WithResponse(&r))
	p.saw("code.revoke", r, err)
}

func (p *prober) lookAtTokens(body []byte) {
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

// askErrors looks at the refusals that can be had without harm.
func (p *prober) askErrors(ctx context.Context) {
	tell := func(key, described string, r clinicaldoc.Response, err error) {
		p.saw(key, r, err)
		refusal := (*clinicaldoc.Error)(nil)
		if errors.As(err, &refusal) {
			p.report.set(key, "%d, %s", refusal.StatusCode, wording(refusal, described))
		}
	}
	var r clinicaldoc.Response
	_, err := p.Client.Notes.Get(ctx, absentID, clinicaldoc.WithResponse(&r))
	tell("error.404", "Resource not found", r, err)
	if p.Stranger == nil {
		return
	}
	_, err = p.Stranger.Users.Me(ctx, clinicaldoc.WithResponse(&r))
	tell("error.401", "Unauthorized", r, err)
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

// askEndpoints asks with OPTIONS, which changes nothing, which methods some paths know.
func (p *prober) askEndpoints(ctx context.Context) {
	usual := []string{"", http.MethodHead, http.MethodOptions}
	methods := func(path string) (allowed []string, exists bool) {
		var r clinicaldoc.Response
		opts := []clinicaldoc.CallOption{clinicaldoc.WithResponse(&r), clinicaldoc.WithoutRetry()}
		err := p.Client.Do(ctx, http.MethodOptions, path, nil, nil, opts...)
		p.seen.headers(r.Header)
		for method := range strings.SplitSeq(r.Header.Get("Allow"), ",") {
			method = strings.TrimSpace(method)
			if !slices.Contains(usual, method) {
				allowed = append(allowed, method)
			}
		}
		return allowed, err == nil
	}
	if _, exists := methods("/v1/synthetic-path-that-does-not-exist"); exists {
		p.report.unseen("endpoints", "the service answers OPTIONS on any path")
		return
	}
	var found []string
	for _, candidate := range undescribedPaths {
		allowed, exists := methods(candidate.path)
		var more []string
		for _, method := range allowed {
			if !strings.Contains(candidate.methods, method) {
				more = append(more, method)
			}
		}
		isNew := len(more) > 0 || candidate.methods == ""
		if exists && isNew {
			found = append(found, strings.TrimSpace(strings.Join(more, " ")+" "+candidate.path))
		}
	}
	p.report.set("endpoints", "%s", orNone(found, ", "))
}
