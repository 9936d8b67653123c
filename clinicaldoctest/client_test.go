package clinicaldoctest_test

import (
	"testing"
	"testing/synctest"

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

func TestOptions_OwnClientWorksOnEveryVariant(t *testing.T) {
	t.Parallel()
	for _, variant := range clinicaldoctest.Variants() {
		t.Run(variant.Name, func(t *testing.T) {
			t.Parallel()
			srv := clinicaldoctest.NewServer(clinicaldoctest.WithVariant(variant))
			t.Cleanup(srv.Close)
			listOwnClient(t, srv, srv.Options()...)
		})
	}
}

func TestOptions_OwnClientReachesTLSServer(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithTLS())
	t.Cleanup(srv.Close)
	listOwnClient(t, srv, srv.Options()...)
}

func TestOptions_OwnClientReachesServerInProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess())
		defer srv.Close()
		listOwnClient(t, srv, srv.Options()...)
	})
}

// A program configured by environment variables reads the base URL and the token there.
func TestOptions_WorkWithNewClientFromEnv(t *testing.T) {
	variant, ok := clinicaldoctest.VariantNamed("flat")
	require.True(t, ok)
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithVariant(variant))
	t.Cleanup(srv.Close)
	t.Setenv(clinicaldoc.EnvBaseURL, srv.URL)
	t.Setenv(clinicaldoc.EnvToken, srv.Token)
	client, err := clinicaldoc.NewClientFromEnv(srv.Options()...)
	require.NoError(t, err)
	_, err = client.Notes.List(t.Context(), clinicaldoc.ListNotesParams{PerPage: 10})
	require.NoError(t, err)
}
