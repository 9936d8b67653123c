package integration

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/gaps"
)

// TestIntegration runs the suite against the address that the environment names, or else against the fake server.
func TestIntegration(t *testing.T) {
	t.Parallel()
	tg := fromEnvironment(t)
	if tg == nil {
		tg = newTargetOf(t, newFakeServer(t))
	}
	tg.runSuite(t, publishedReport(t, tg))
}

// The suite passes on every way in which a service may fill the description's gaps, although it is passed only an
// address and a token. It leaves nothing behind and changes nothing of others.
func TestSuite_EveryVariant_PassesAndCleansUp(t *testing.T) {
	t.Parallel()
	for _, variant := range clinicaldoctest.Variants() {
		t.Run(variant.Name, func(t *testing.T) {
			t.Parallel()
			srv := newFakeServer(t, clinicaldoctest.WithVariant(variant))
			tg := newTargetOf(t, srv)
			colleague := srv.AddPatient(clinicaldoctest.Patient{})
			var others []int64
			for _, patient := range []int64{tg.patientID, colleague.ID, colleague.ID} {
				hourAgo := srv.Now().Add(-time.Hour)
				others = append(others, srv.AddNote(clinicaldoctest.Note{PatientID: patient, CreatedAt: hourAgo}))
			}
			before := srv.Notes()
			tokens := tokensOf(t, tg)
			t.Cleanup(func() {
				assertCleanedUp(t, srv, variant, before, others)
				assert.Equal(t, tokens, tokensOf(t, tg), "no token was revoked")
			})
			tg.runSuite(t, tg.probe(t))
		})
	}
}

// Limits of rate and of size do not fail the suite.
func TestSuite_ServiceWithLimits_PassesAndCleansUp(t *testing.T) {
	t.Parallel()
	srv := newFakeServer(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{MaxUploadSize: 2000}))
	srv.Inject("", clinicaldoctest.TooManyRequests(0).Every(3))
	t.Cleanup(func() { assert.Empty(t, srv.Notes(), "nothing is left") })
	tg := newTargetOf(t, srv)
	tg.retry = clinicaldoc.RetryPolicy{MaxRetries: 5, MinWait: time.Millisecond, MaxWait: time.Second}
	tg.client = tg.newClient(t, tg.token)
	tg.runSuite(t, tg.probe(t))
}

// A shell may have the variables of another program, whose service go test must not write to.
func TestFromEnvironment_WithoutConsent_NamesNoTarget(t *testing.T) {
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	t.Setenv(clinicaldoc.EnvBaseURL, srv.URL)
	t.Setenv(clinicaldoc.EnvToken, srv.Token)
	t.Setenv(envOptIn, "")
	assert.Nil(t, fromEnvironment(t))
	t.Setenv(envOptIn, "1")
	assert.NotNil(t, fromEnvironment(t))
	assert.Empty(t, srv.Requests(), "a target by itself sends no requests")
}

// newFakeServer starts a fake server that processes a note within milliseconds.
func newFakeServer(t *testing.T, opts ...clinicaldoctest.Option) *clinicaldoctest.Server {
	t.Helper()
	const stay = 3 * time.Millisecond
	delays := clinicaldoctest.Delays{Uploaded: stay, Transcribing: stay, Transcribed: stay, Analysing: stay}
	srv := clinicaldoctest.NewServer(append(opts, clinicaldoctest.WithDelays(delays))...)
	t.Cleanup(srv.Close)
	return srv
}

// newTargetOf returns a fake server as a target, with a patient of its own and small pages.
func newTargetOf(t *testing.T, srv *clinicaldoctest.Server) *target {
	t.Helper()
	tg := newTarget(t, srv.URL, srv.Token)
	tg.patientID = srv.AddPatient(clinicaldoctest.Patient{}).ID
	tg.promptID = 1
	tg.interval = 50 * time.Millisecond
	tg.pageSize = 2
	return tg
}

func tokensOf(t *testing.T, tg *target) []int64 {
	t.Helper()
	tokens, err := tg.client.Tokens.List(context.WithoutCancel(t.Context()))
	require.NoError(t, err)
	var ids []int64
	for _, token := range tokens {
		ids = append(ids, token.ID)
	}
	return ids
}

// assertCleanedUp finds the notes of others as they were. Of the suite's own there are at most two signed ones, if the
// service keeps them.
func assertCleanedUp(
	t *testing.T, srv *clinicaldoctest.Server, variant clinicaldoctest.Variant,
	before []clinicaldoctest.Note, others []int64,
) {
	t.Helper()
	var kept []clinicaldoctest.Note
	signed := 0
	for _, note := range srv.Notes() {
		switch {
		case slices.Contains(others, note.ID):
			kept = append(kept, note)
		case note.Stage == clinicaldoctest.StageSigned && variant.SignedChangeStatus != 0:
			signed++
		default:
			assert.Fail(t, "a note was left behind", "%d", note.ID)
		}
	}
	assert.Equal(t, before, kept, "notes of others are untouched")
	assert.LessOrEqual(t, signed, 2)
}

// runSuite runs every test of the suite with what the report has found.
func (tg *target) runSuite(t *testing.T, report *gaps.Report) {
	t.Helper()
	tg.trustFilter = report.TrustPatientFilter
	tg.client = tg.newClient(t, tg.token, clinicaldoc.WithQueryNames(report.QueryNames))
	for _, test := range []struct {
		name string
		run  func(*testing.T, *target)
	}{
		{"incomplete sign", testIncompleteSign},
		{"user", testUser},
		{"tokens", testTokens},
		{"create from each source", testCreateSources},
		{"life of a note", testLife},
		{"watch and wait for many", testWatching},
		{"update", testUpdate},
		{"list", testList},
		{"audio", testAudio},
		{"delete", testDelete},
		{"wrong token", testWrongToken},
		{"invalid data", testInvalidData},
		{"undescribed endpoints", testDo},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, tg) })
	}
	t.Run("sign", func(t *testing.T) { testSign(t, tg, report.SignedNote) })
}
