package clinicaldoctest_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// listOwnClient lists a patient's notes with a client that the caller made itself, as programs under test do.
func listOwnClient(t *testing.T, srv *clinicaldoctest.Server, opts ...clinicaldoc.Option) {
	t.Helper()
	srv.AddPatient(clinicaldoctest.Patient{ID: 7})
	srv.AddPatient(clinicaldoctest.Patient{ID: 8})
	want := srv.AddNote(clinicaldoctest.Note{PatientID: 7})
	srv.AddNote(clinicaldoctest.Note{PatientID: 8})
	client, err := clinicaldoc.NewClient(srv.URL, srv.Token, opts...)
	require.NoError(t, err)
	params := clinicaldoc.ListNotesParams{PatientID: 7, PerPage: 10, Sort: clinicaldoc.SortOldest, TrustPatientFilter: true}
	notes, err := clinicaldoc.Collect(client.Notes.All(t.Context(), params))
	require.NoError(t, err)
	require.Len(t, notes, 1)
	assert.Equal(t, want, notes[0].ID)
}

func TestOptions_OwnClient_WorksOnEveryVariant(t *testing.T) {
	t.Parallel()
	servers := map[string][]clinicaldoctest.Option{"TLS": {clinicaldoctest.WithTLS()}, "pipes": {clinicaldoctest.InProcess()}}
	for _, variant := range clinicaldoctest.Variants() {
		servers[variant.Name] = []clinicaldoctest.Option{clinicaldoctest.WithVariant(variant)}
	}
	for name, opts := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := start(t, opts...).srv
			listOwnClient(t, srv, srv.Options()...)
		})
	}
}

// A test passes its own HTTP client to see or change the traffic.
func TestClient_OptionOfTheCaller_ReplacesTheServers(t *testing.T) {
	t.Parallel()
	srv := start(t, clinicaldoctest.InProcess()).srv
	sent := 0
	own := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		sent++
		return srv.Transport().RoundTrip(r)
	})}
	_, err := srv.Client(clinicaldoc.WithHTTPClient(own)).Users.Me(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, sent)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOptions_ClientFromEnvironment_WorksOnVariant(t *testing.T) {
	variant, ok := clinicaldoctest.VariantNamed("flat")
	require.True(t, ok)
	srv := start(t, clinicaldoctest.WithVariant(variant)).srv
	t.Setenv(clinicaldoc.EnvBaseURL, srv.URL)
	t.Setenv(clinicaldoc.EnvToken, srv.Token)
	client, err := clinicaldoc.NewClientFromEnv(srv.Options()...)
	require.NoError(t, err)
	_, err = client.Notes.List(t.Context(), clinicaldoc.ListNotesParams{PerPage: 10})
	require.NoError(t, err)
}
