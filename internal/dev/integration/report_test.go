package integration

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/outside"
	"github.com/clinicaldoc/clinicaldoc-go/internal/gaps"
)

// TestGapReport finds out what the service does where its description is silent. The report is printed at the end of
// the run; see the package documentation.
func TestGapReport(t *testing.T) {
	t.Parallel()
	tg := fromEnvironment(t)
	if tg == nil {
		tg = newTargetOf(t, newFakeServer(t))
	}
	report := publishedReport(t, tg)
	if len(report.LeftBehind) > 0 {
		t.Logf("the service refused to delete its signed notes %v", report.LeftBehind)
	}
	for _, key := range []string{"code.create", "code.list", "code.get", "code.update", "code.delete", "code.me", "code.tokens", "list.shape"} {
		assert.True(t, report.Item(key).Known, key)
	}
	if *against != "" {
		earlier, err := earlierReport()
		require.NoError(t, err)
		for _, change := range report.Changes(earlier) {
			t.Errorf("the service's manners have changed: %s", change)
		}
	}
}

// The line is pasted into a program of another module, which must compile.
func TestNamesLine_OtherModule_Compiles(t *testing.T) {
	t.Parallel()
	program := "package user\n\nimport clinicaldoc \"github.com/clinicaldoc/clinicaldoc-go\"\n\n" +
		"var _ = []clinicaldoc.Option{\n"
	program += "\t" + new(gaps.Report).NamesLine() + ",\n" // nothing was found
	for _, name := range []string{"default", "cursor-in-links", "flat"} {
		variant, known := clinicaldoctest.VariantNamed(name)
		require.True(t, known)
		report := newTargetOf(t, newFakeServer(t, clinicaldoctest.WithVariant(variant))).probe(t)
		program += "\t" + report.NamesLine() + ",\n"
	}
	program += "}\n"
	for _, name := range []string{"per_page", "filter[patient_id]", "page[cursor]", "order"} {
		require.Contains(t, program, strconv.Quote(name))
	}
	require.NoError(t, outside.Go(t.Context(), "../../..", map[string]string{"user.go": program}, "build", "./..."), program)
}

// published is the report of this run's target. It is made once: one signed note is enough.
var published struct {
	sync.Mutex
	report *gaps.Report
}

// publishedReport makes the report of the run's target, or returns the one that was made already.
func publishedReport(t *testing.T, tg *target) *gaps.Report {
	t.Helper()
	published.Lock()
	defer published.Unlock()
	if published.report == nil {
		published.report = tg.probe(t)
	}
	return published.report
}

func (tg *target) probe(t *testing.T) *gaps.Report {
	t.Helper()
	tg.fitTone(t)
	options := gaps.Options{
		Client: tg.client, Stranger: tg.newClient(t, wrongToken), BaseURL: tg.baseURL,
		PatientID: tg.patientID, PromptID: tg.promptID, NamePrefix: tg.namePrefix, Audio: tg.audio,
		WaitFor: *waitFor, Interval: min(tg.interval, time.Second), SkipSign: tg.skipSign,
	}
	ctx := t.Context()
	if end, limited := t.Deadline(); limited { // before go test would end everything and leave the notes behind
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-2*cleanUpFor))
		defer cancel()
	}
	report, err := gaps.Probe(ctx, options)
	require.NoError(t, err, hint(err))
	return report
}

// publishReport prints the report, if one was made and somebody is looking, and writes it as JSON if asked to.
func publishReport() error {
	published.Lock()
	defer published.Unlock()
	report := published.report
	if report == nil {
		return nil
	}
	if testing.Verbose() || os.Getenv(envOptIn) == "1" {
		if err := report.WriteText(os.Stdout); err != nil {
			return err
		}
	}
	return errors.Join(
		writeReport(*gapsJSON, report.WriteJSON),
		writeReport(*gapsHTML, func(w io.Writer) error {
			earlier, err := earlierReport()
			if err != nil {
				return err
			}
			return report.WriteHTML(w, cmp.Or(os.Getenv("CLINICALDOC_BASE_URL"), "the fake server"), earlier)
		}))
}

// writeReport writes a report to a file, if one is named.
func writeReport(name string, write func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := write(file); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

// earlierReport reads the report to compare with, nil if none is named.
func earlierReport() (*gaps.Report, error) {
	if *against == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	file, err := os.Open(*against)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return gaps.ReadJSON(file)
}
