package integration

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// TestIntegration runs the suite against the address that the environment names, or else against the box.
func TestIntegration(t *testing.T) {
	t.Parallel()
	tg := fromEnvironment(t)
	if tg == nil {
		runSuite(t, newBox(t, clinicaldoctest.Variant{}), nil)
		return
	}
	report := publishedReport(t, tg)
	tg.learn(t, report)
	runSuite(t, tg, report.SignedNote)
}

// TestVariants runs the suite on every way in which a service may fill the description's gaps.
func TestVariants(t *testing.T) {
	t.Parallel()
	for _, variant := range clinicaldoctest.Variants() {
		t.Run(variant.Name, func(t *testing.T) {
			t.Parallel()
			tg := newBox(t, variant)
			t.Cleanup(func() { assertNothingLeft(t, tg.box, variant) })
			runSuite(t, tg, nil)
		})
	}
}

// TestForeignServer runs the suite as against a foreign server. Only an address and a token are known, and the
// query names are those that the report has found.
func TestForeignServer(t *testing.T) {
	t.Parallel()
	for _, variant := range clinicaldoctest.Variants() {
		t.Run(variant.Name, func(t *testing.T) {
			t.Parallel()
			stay := 3 * time.Millisecond
			box := clinicaldoctest.NewServer(clinicaldoctest.WithVariant(variant), clinicaldoctest.WithDelays(
				clinicaldoctest.Delays{Uploaded: stay, Transcribing: stay, Transcribed: stay, Analysing: stay}))
			t.Cleanup(box.Close)
			patient, other := box.AddPatient(clinicaldoctest.Patient{}), box.AddPatient(clinicaldoctest.Patient{})
			var others []int64
			for _, id := range []int64{patient.ID, other.ID, other.ID} {
				others = append(others, box.AddNote(clinicaldoctest.Note{PatientID: id, CreatedAt: box.Now().Add(-time.Hour)}))
			}
			before := box.Notes()
			tokens := len(tokensOf(t, box))

			tg := newForeign(t, box.URL, box.Token)
			tg.patientID, tg.promptID, tg.interval = patient.ID, 1, 50*time.Millisecond
			t.Cleanup(func() {
				var kept []clinicaldoctest.Note
				signed := 0
				for _, note := range box.Notes() {
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
				assert.Len(t, tokensOf(t, box), tokens, "no token was revoked")
			})
			report := tg.probe(t)
			tg.learn(t, report)
			runSuite(t, tg, report.SignedNote)
		})
	}
}

// TestForeignServerThatRefusesNowAndThen: limits of rate and of size are a service's good right.
func TestForeignServerThatRefusesNowAndThen(t *testing.T) {
	t.Parallel()
	box := clinicaldoctest.NewServer(clinicaldoctest.WithDelays(clinicaldoctest.Delays{}),
		clinicaldoctest.WithVariant(clinicaldoctest.Variant{MaxUploadSize: 2000}))
	t.Cleanup(box.Close)
	box.Inject("", clinicaldoctest.TooManyRequests(0).Every(3))
	t.Cleanup(func() { assert.Empty(t, box.Notes(), "nothing is left") })
	tg := newForeign(t, box.URL, box.Token)
	patient := tg.newClient
	tg.newClient = func(t *testing.T, token string, opts ...clinicaldoc.Option) *clinicaldoc.Client {
		t.Helper()
		return patient(t, token, append(opts, clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 5, MinWait: time.Millisecond, MaxWait: time.Second}))...)
	}
	tg.client = tg.newClient(t, tg.token)
	tg.patientID, tg.promptID, tg.interval = 1, 1, 50*time.Millisecond
	report := tg.probe(t)
	tg.learn(t, report)
	runSuite(t, tg, report.SignedNote)
}

// TestEnvironmentAlonePointsNowhere: a shell that has the variables for a program of its own must not have its service
// written to by go test.
func TestEnvironmentAlonePointsNowhere(t *testing.T) {
	box := clinicaldoctest.NewServer()
	t.Cleanup(box.Close)
	t.Setenv(clinicaldoc.EnvBaseURL, box.URL)
	t.Setenv(clinicaldoc.EnvToken, box.Token)
	t.Setenv(envOptIn, "")
	assert.Nil(t, fromEnvironment(t))
	t.Setenv(envOptIn, "1")
	assert.NotNil(t, fromEnvironment(t))
	assert.Empty(t, box.Requests(), "a target by itself asks nothing")
}

func tokensOf(t *testing.T, box *clinicaldoctest.Server) []clinicaldoc.Token {
	t.Helper()
	client := box.Client(clinicaldoc.WithHTTPClient(&http.Client{Transport: box.Transport()}))
	tokens, err := client.Tokens.List(context.WithoutCancel(t.Context()))
	require.NoError(t, err)
	return tokens
}

// assertNothingLeft finds no note but signed ones, and those only where the service keeps them.
func assertNothingLeft(t *testing.T, box *clinicaldoctest.Server, variant clinicaldoctest.Variant) {
	t.Helper()
	for _, note := range box.Notes() {
		assert.Equal(t, clinicaldoctest.StageSigned, note.Stage)
		assert.NotZero(t, variant.SignedChangeStatus)
	}
}

// runSuite runs every test of the suite. A note that was signed already spares the service another one.
func runSuite(t *testing.T, tg *target, signed *clinicaldoc.ProgressNote) {
	t.Helper()
	// First, because the other tests let the box's time pass.
	refuseIncompleteSign(t, tg)

	for _, test := range []struct {
		name string
		run  func(*testing.T, *target)
	}{
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
		{"unknown note", testUnknownNote},
		{"invalid data", testInvalidData},
		{"undescribed endpoints", testDo},
	} {
		t.Run(test.name, func(t *testing.T) {
			tg.parallel(t)
			test.run(t, tg.withPatient())
		})
	}
	t.Run("sign", func(t *testing.T) {
		tg.parallel(t)
		testSign(t, tg.withPatient(), signed)
	})
}
