package faultmatrix

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

const tenantHeader = "X-Synthetic-Team"

// gateway picks the tenant by a header, and now and then loses what the service said: every third change, and every fifth
// read.
type gateway struct {
	tenants  map[string]*httputil.ReverseProxy
	requests atomic.Int64
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tenant, known := g.tenants[r.Header.Get(tenantHeader)]
	if !known {
		tenant = g.tenants["alpha"] // the first one is everybody's
	}
	n, lost := g.requests.Add(1), int64(3)
	if r.Method == http.MethodGet {
		lost = 5
	}
	if n%lost != 0 {
		tenant.ServeHTTP(w, r)
		return
	}
	tenant.ServeHTTP(httptest.NewRecorder(), r)
	w.WriteHeader(http.StatusServiceUnavailable)
}

// Two tenants have notes of the same ids behind one address. Whatever is lost and read again, nobody sees the other's.
func TestTenantsByHeader(t *testing.T) {
	t.Parallel()
	g := &gateway{tenants: map[string]*httputil.ReverseProxy{}}
	const notes, token = 8, "synthetic-token-of-both-tenants"
	for _, tenant := range []string{"alpha", "beta"} {
		box := clinicaldoctest.NewServer()
		t.Cleanup(box.Close)
		user := box.AddUser(clinicaldoctest.User{Name: tenant, Token: token})
		for id := range int64(notes) {
			box.AddNote(clinicaldoctest.Note{ID: 1000 + id, UserID: user.ID, PatientID: patientID, Name: tenant, Transcription: tenant, Analysis: tenant})
		}
		address, err := url.Parse(box.URL)
		require.NoError(t, err)
		g.tenants[tenant] = httputil.NewSingleHostReverseProxy(address)
		pool := &http.Transport{MaxIdleConnsPerHost: 64}
		t.Cleanup(pool.CloseIdleConnections)
		g.tenants[tenant].Transport = pool
	}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	client, err := clinicaldoc.NewClient(server.URL, token, clinicaldoc.WithRetry(quickly))
	require.NoError(t, err)
	var all sync.WaitGroup
	for tenant, other := range map[string]string{"alpha": "beta", "beta": "alpha"} {
		for id := range int64(notes) {
			all.Go(func() { visitTenant(t, client, 1000+id, tenant, other) })
		}
	}
	all.Wait()
}

// visitTenant reads, changes and signs a note, and looks at everything that comes back.
func visitTenant(t *testing.T, client *clinicaldoc.Client, id int64, tenant, other string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var response clinicaldoc.Response
	opts := []clinicaldoc.CallOption{clinicaldoc.WithHeader(tenantHeader, tenant), clinicaldoc.WithResponse(&response)}
	check := func(note *clinicaldoc.ProgressNote, err error) {
		assert.NotContains(t, string(response.Body), other)
		assert.NotContains(t, fmt.Sprint(err), other)
		if conflict, ok := errors.AsType[*clinicaldoc.ConflictError](err); ok && conflict.Current != nil {
			note = conflict.Current
		}
		if note != nil {
			assert.True(t, strings.HasPrefix(note.Name, tenant), note.Name)
			assert.Equal(t, tenant, note.Transcription)
		}
	}
	for i := range 10 {
		check(client.Notes.Get(ctx, id, opts...))
		check(client.Notes.Update(ctx, id, clinicaldoc.UpdateNoteParams{Name: new(fmt.Sprint(tenant, i))}, opts...))
		note, err := client.Notes.Get(ctx, id, opts...)
		check(note, err)
		if note != nil {
			check(client.Notes.Update(ctx, id, clinicaldoc.UpdateNoteParams{Name: new(tenant)}, append(opts, clinicaldoc.IfUnchanged(note))...))
		}
		for note, err := range client.Notes.All(ctx, clinicaldoc.ListNotesParams{PatientID: patientID, PerPage: 3}, opts...) {
			check(note, err)
		}
	}
	check(client.Notes.Sign(ctx, id, opts...))
}
