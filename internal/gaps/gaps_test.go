package gaps

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // the heap is small, so that the collector would run without end
	goleak.VerifyTestMain(m)
}

const step = time.Second

// startBox starts a box whose notes go one stage further at each look.
func startBox(t *testing.T, variant clinicaldoctest.Variant) (*clinicaldoctest.Server, Options) {
	t.Helper()
	box := clinicaldoctest.NewServer(
		clinicaldoctest.WithVariant(variant), clinicaldoctest.WithFrozenClock(time.Now()),
		clinicaldoctest.WithDelays(
			clinicaldoctest.Delays{Uploaded: step, Transcribing: step, Transcribed: step, Analysing: step},
		),
	)
	t.Cleanup(box.Close)
	patient := box.AddPatient(clinicaldoctest.Patient{Name: "Secretname Sampleton"})
	client := func(token string) *clinicaldoc.Client {
		c, err := clinicaldoc.NewClient(box.URL, token, clinicaldoc.WithHTTPClient(&http.Client{Transport: box.Transport()}))
		require.NoError(t, err)
		return c
	}
	return box, Options{
		Client: client(box.Token), Stranger: client("synthetic-wrong-token"), BaseURL: box.URL,
		PatientID: patient.ID, PromptID: 1, NamePrefix: "Secretnote", Audio: bytes.Repeat([]byte("audio"), 100),
		WaitFor: time.Minute, Interval: time.Millisecond, OnPoll: func() { box.Advance(step) },
		SpareTokenID: box.AddToken(1, "spare").ID,
	}
}

// The report on each variant of the server must say what the variant does.
func TestProbe_EachVariant_IsReported(t *testing.T) {
	t.Parallel()
	for _, variant := range clinicaldoctest.Variants() {
		t.Run(variant.Name, func(t *testing.T) {
			t.Parallel()
			box, options := startBox(t, variant)
			// More than a default page, of another patient and in part of another time.
			other := box.AddPatient(clinicaldoctest.Patient{})
			for range variant.DefaultPageSize + 2 {
				box.AddNote(
					clinicaldoctest.Note{PatientID: other.ID, Name: "Secretnote of another", CreatedAt: box.Now().Add(-time.Hour)},
				)
			}
			report, err := Probe(t.Context(), options)
			require.NoError(t, err)

			for key, want := range expected(variant) {
				assert.Equal(t, want, report.Item(key).Seen, key)
			}
			assert.Equal(t, variant.Patient == clinicaldoctest.PatientUnnamed, report.TrustPatientFilter)
			assert.False(t, report.PagesUnreachable)
			assert.Equal(t, variant.NumbersAsStrings || variant.PageSizeAsString, report.Item("number.strings").Seen != "none")
			assertNothingLeft(t, box, variant, report)
			assertNoData(t, box, report)
		})
	}
}

// expected is what the report has to say of a variant.
func expected(v clinicaldoctest.Variant) map[string]string {
	paged := v.Pagination != clinicaldoctest.PaginationNone
	byCursor := v.Pagination == clinicaldoctest.PaginationCursor || v.Pagination == clinicaldoctest.PaginationCursorInLinks
	linked := v.Pagination != clinicaldoctest.PaginationBare && paged
	choose := func(condition bool, yes, no string) string {
		if condition {
			return yes
		}
		return no
	}
	refused := func(status int) string { return "refused with " + strconv.Itoa(status) }
	required := slices.DeleteFunc([]string{"name", "patient_id", "file", "prompt_id"}, func(part string) bool {
		return slices.Contains(v.OptionalParts, part)
	})
	want := map[string]string{
		"code.create": strconv.Itoa(v.CreateStatus), "code.delete": strconv.Itoa(v.DeleteStatus),
		"code.revoke": strconv.Itoa(v.DeleteStatus),
		"code.list":   "200", "code.get": "200", "code.update": "200", "code.sign": "200", "code.audio_url": "200",
		"code.me": "200", "code.tokens": "200",
		"list.patient": v.Query.PatientID, "list.sort": v.Query.Sort,
		"list.default_sort": choose(v.OldestFirst, "oldest", "latest"),
		"list.unknown":      choose(v.RefuseUnknownQuery, refused(http.StatusBadRequest), "ignored"),
		"list.unknown_filter": choose(
			v.RefuseUnknownQuery || v.RefuseUnknownFilter, refused(http.StatusBadRequest), "ignored",
		),
		"list.texts":      []string{"as in the note", "shortened", "left out"}[v.ListTexts],
		"create.chunked":  "accepted at 8 kB, accepted at 256 kB",
		"number.large":    "none",
		"list.shape":      shapes[v.Pagination],
		"object.wrapping": choose(v.WrapObjects, "in data", "bare"),
		"sign.incomplete": strconv.Itoa(v.IncompleteSignStatus) + ", " +
			choose(v.IncompleteSignGeneric, "message does not say so", "message says so"),
		"sign.again":         "allowed",
		"sign.update":        choose(v.SignedChangeStatus == 0, "allowed", refused(v.SignedChangeStatus)),
		"sign.delete":        choose(v.SignedChangeStatus == 0, "allowed", refused(v.SignedChangeStatus)),
		"sign.still_signed":  "stays",
		"create.required":    strings.Join(required, ", "),
		"update.trims":       choose(v.KeepOuterSpace, "kept", "trimmed"),
		"update.empties":     choose(v.RefuseEmptyText, refused(http.StatusUnprocessableEntity), "clears it"),
		"audio.origin":       choose(v.LocalDisk, ownOrigin, otherOrigin),
		"audio.form":         choose(v.LocalDisk, "expires and signature, as an application signs", "S3 signature version 4"),
		"audio.lifetime":     choose(v.LocalDisk, "about ", "") + v.AudioURLLifetime.String(),
		"audio.size":         choose(v.Audio == clinicaldoctest.AudioAsSent, "as sent", "another than was sent"),
		"audio.wav":          kept(v.Audio == clinicaldoctest.AudioAsSent),
		"audio.mp3":          kept(v.Audio == clinicaldoctest.AudioAsSent),
		"note.name":          kept(true),
		"limits.retention":   v.AudioRetention.String(),
		"processing.stages":  "uploaded, transcribing, transcribed, analysing, complete",
		"processing.time":    (4 * step).String(),
		"note.error_state":   "null",
		"note.patient_named": []string{patientInObject, patientBeside, patientUnnamed}[v.Patient],
		"note.user_fields":   "id, name",
		"error.401":          "401, " + choose(v.FrameworkTexts, "another message", "message as described"),
		"error.404":          "404, " + choose(v.FrameworkTexts, "another message", "message as described"),
		"token.fields":       choose(v.ExtraFields, "undescribed_list, undescribed_object, undescribed_text", "none"),
		"missing_fields":     "none",
		"endpoints":          "none",
		"versioning.headers": "none",
	}
	if linked {
		want["list.links_query"] = choose(v.LinksKeepQuery, "kept", "dropped")
		want["list.links_origin"] = choose(v.LinkOrigin == "", ownOrigin, otherOrigin)
	}
	if paged {
		want["list.per_page"] = v.Query.PerPage
		want["list.default_size"] = strconv.Itoa(v.DefaultPageSize) + choose(linked, "", ", as the first page has")
		want["list.size_above"] = choose(v.ClampPageSize, "accepted as 100", refused(http.StatusUnprocessableEntity))
		want["list.size_below"] = choose(v.ClampPageSize, "accepted as 1", refused(http.StatusUnprocessableEntity))
		if byCursor {
			want["list.cursor"] = v.Query.Cursor
		} else {
			want["list.page"] = v.Query.Page
		}
	}
	if v.RateLimit == 0 {
		want["limits.rate"] = "none"
	}
	return want
}

func kept(unchanged bool) string {
	if unchanged {
		return "unchanged before, unchanged after"
	}
	return "changed before, changed after"
}

// compressing is a service that stores MP3 recordings as they were sent and changes them once they are processed.
type compressing struct {
	http.RoundTripper

	storage string
	looks   *atomic.Int64 // at a note since the latest upload
}

func (c compressing) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodPost {
		c.looks.Store(0)
	}
	resp, err := c.RoundTripper.RoundTrip(req)
	isMP3 := strings.HasPrefix(req.URL.String(), c.storage) && strings.HasSuffix(req.URL.Path, ".mp3")
	isProcessed := c.looks.Load() >= 4
	if err != nil || !isMP3 || !isProcessed {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	body[len(body)-1] ^= 0xff
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

func TestRecordings_AreReportedByFormatBeforeAndAfterProcessing(t *testing.T) {
	t.Parallel()
	box, options := startBox(t, clinicaldoctest.Variant{})
	looks := new(atomic.Int64)
	client, err := clinicaldoc.NewClient(box.URL, box.Token, clinicaldoc.WithHTTPClient(&http.Client{
		Transport: compressing{RoundTripper: box.Transport(), storage: box.StorageURL, looks: looks},
	}))
	require.NoError(t, err)
	options.Client = client
	options.OnPoll = func() {
		looks.Add(1)
		box.Advance(step)
	}
	report, err := Probe(t.Context(), options)
	require.NoError(t, err)
	assert.Equal(t, "unchanged before, unchanged after", report.Item("audio.wav").Seen)
	assert.Equal(t, "unchanged before, changed after", report.Item("audio.mp3").Seen)
}

// renaming is a service that renames the notes of WAV recordings.
type renaming struct{ http.RoundTripper }

func (r renaming) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.RoundTripper.RoundTrip(req)
	if err != nil || !strings.Contains(req.URL.Path, "/progress-notes/") {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(body, []byte(".wav")) {
		body = bytes.ReplaceAll(body, []byte(`"Secretnote`), []byte(`"Renamed`))
		resp.ContentLength = int64(len(body))
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

func TestNames_AreReportedByFormatIfTheyDiffer(t *testing.T) {
	t.Parallel()
	box, options := startBox(t, clinicaldoctest.Variant{})
	client, err := clinicaldoc.NewClient(box.URL, box.Token, clinicaldoc.WithHTTPClient(&http.Client{
		Transport: renaming{box.Transport()},
	}))
	require.NoError(t, err)
	options.Client = client
	report, err := Probe(t.Context(), options)
	require.NoError(t, err)
	const want = "wav: unchanged before, changed after; mp3: unchanged before, unchanged after"
	assert.Equal(t, want, report.Item("note.name").Seen)
}

var shapes = map[clinicaldoctest.Pagination]string{
	clinicaldoctest.PaginationLengthAware: shapeLengthAware, clinicaldoctest.PaginationSimple: shapeSimple,
	clinicaldoctest.PaginationCursor: shapeCursor, clinicaldoctest.PaginationCursorInLinks: shapeCursorInLinks,
	clinicaldoctest.PaginationFlat: shapeFlat, clinicaldoctest.PaginationBare: shapeBare,
	clinicaldoctest.PaginationNone: shapeEverything,
}

// assertNothingLeft holds what is in the box against what the report admits to have left there.
func assertNothingLeft(t *testing.T, box *clinicaldoctest.Server, variant clinicaldoctest.Variant, report *Report) {
	t.Helper()
	var left []int64
	others := 0
	for _, note := range box.Notes() {
		if note.Name == "Secretnote of another" {
			others++
			continue
		}
		left = append(left, note.ID)
		assert.Equal(t, clinicaldoctest.StageSigned, note.Stage)
	}
	assert.Equal(t, variant.DefaultPageSize+2, others, "notes that were not the probe's are still there")
	assert.ElementsMatch(t, left, report.LeftBehind)
	assert.Equal(t, variant.SignedChangeStatus != 0, len(left) > 0)
}

// assertNoData looks for what was sent and seeded in everything the report prints.
func assertNoData(t *testing.T, box *clinicaldoctest.Server, report *Report) {
	t.Helper()
	var text, encoded bytes.Buffer
	require.NoError(t, report.WriteText(&text))
	require.NoError(t, report.WriteJSON(&encoded))
	assert.True(t, json.Valid(encoded.Bytes()))
	for _, printed := range []string{text.String(), encoded.String()} {
		for _, secret := range []string{
			"Secret", "Sampleton", "Synthetic trans", "Synthetic ana", "User 1", "@example.test", box.Token, "X-Amz-Signature=",
			box.StorageURL,
		} {
			assert.NotContains(t, printed, secret)
		}
		assert.Contains(t, printed, "WithQueryNames(clinicaldoc.QueryNames{")
	}
}

func TestProbe_DefaultServer_AnswersEveryQuestion(t *testing.T) {
	t.Parallel()
	_, options := startBox(t, clinicaldoctest.Variant{})
	report, err := Probe(t.Context(), options)
	require.NoError(t, err)
	var open []string
	for _, item := range report.Items {
		if !item.Known {
			open = append(open, item.Key)
			assert.Contains(t, item.Seen, "not seen: ", item.Key)
		}
	}
	assert.ElementsMatch(t, []string{"list.cursor", "limits.window", "events"}, open)
	assert.Equal(t,
		`clinicaldoc.WithQueryNames(clinicaldoc.QueryNames{`+
			`PatientID: "patient_id", PerPage: "per_page", Sort: "sort", Page: "page"})`,
		report.NamesLine())
}

// The report must not advise to loosen a safety check without need: a note that was created without a patient does not
// name one, which is not a reason.
func TestProbe_NotesWithoutAPatient_AreNotAdvice(t *testing.T) {
	t.Parallel()
	_, options := startBox(t, clinicaldoctest.Variant{OptionalParts: []string{"patient_id", "name", "file", "prompt_id"}})
	report, err := Probe(t.Context(), options)
	require.NoError(t, err)
	assert.False(t, report.TrustPatientFilter)
	assert.Equal(t, patientInObject, report.Item("note.patient_named").Seen)
	assert.Equal(t, "none", report.Item("create.required").Seen)
	var text bytes.Buffer
	require.NoError(t, report.WriteText(&text))
	assert.NotContains(t, text.String(), "TrustPatientFilter")
}

func TestProbe_IncompleteSign_ReportsItsWording(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"The transcription is not complete yet, so this note cannot be signed.": "message says so",
		"Analysis pending": "message says so",
		"Conflict":         "message does not say so",
		"":                 "no message",
	} {
		box, options := startBox(t, clinicaldoctest.Variant{})
		box.Inject(clinicaldoctest.RouteSignNote, clinicaldoctest.Answer(http.StatusConflict, `{"message":"`+message+`"}`))
		report, err := Probe(t.Context(), options)
		require.NoError(t, err)
		assert.Equal(t, "409, "+want, report.Item("sign.incomplete").Seen, message)
	}
}

func TestProbe_UnreachablePages_AreReported(t *testing.T) {
	t.Parallel()
	for name, variant := range map[string]clinicaldoctest.Variant{
		"bare": {Pagination: clinicaldoctest.PaginationBare, Query: clinicaldoctest.QueryNames{Page: "zz_page"}},
		"empty meta": {
			Pagination: clinicaldoctest.PaginationBare, Empty: clinicaldoctest.EmptyArray,
			Query: clinicaldoctest.QueryNames{Page: "zz_page"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, options := startBox(t, variant)
			report, err := Probe(t.Context(), options)
			require.NoError(t, err)
			assert.True(t, report.PagesUnreachable)
			var text bytes.Buffer
			require.NoError(t, report.WriteText(&text))
			assert.Contains(t, text.String(), "Later pages cannot be reached")
		})
	}
}

func TestProbe_ShortLifetime_IsNotRounded(t *testing.T) {
	t.Parallel()
	_, options := startBox(t, clinicaldoctest.Variant{LocalDisk: true, AudioURLLifetime: 5 * time.Second})
	report, err := Probe(t.Context(), options)
	require.NoError(t, err)
	assert.Equal(t, "about 5s", report.Item("audio.lifetime").Seen)
}

// A note that was complete when the probe tried to sign it early is signed. The probe did that, so it is not a stage
// of processing.
func TestProbe_OwnSignature_IsNotAStage(t *testing.T) {
	t.Parallel()
	box, options := startBox(t, clinicaldoctest.Variant{})
	box.SetDelays(clinicaldoctest.Delays{})
	report, err := Probe(t.Context(), options)
	require.NoError(t, err)
	assert.Equal(t, "allowed, or the note was complete by then", report.Item("sign.incomplete").Seen)
	assert.Equal(t, "uploaded, complete", report.Item("processing.stages").Seen)
	assert.Equal(t, "200", report.Item("code.sign").Seen)
}

func TestProbe_ChunkedUpload_IsReported(t *testing.T) {
	t.Parallel()
	box, options := startBox(t, clinicaldoctest.Variant{})
	box.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(http.StatusLengthRequired, "").After(5).Times(2))
	report, err := Probe(t.Context(), options)
	require.NoError(t, err)
	assert.Equal(t, "refused with 411 at 8 kB, refused with 411 at 256 kB", report.Item("create.chunked").Seen)
	for _, request := range box.Requests() {
		if request.Status == http.StatusLengthRequired {
			assert.EqualValues(t, -1, request.ContentLength)
		}
	}
}

func TestProbe_UnusualNumbers_AreReported(t *testing.T) {
	t.Parallel()
	box, options := startBox(t, clinicaldoctest.Variant{NumbersAsStrings: true})
	box.AddNote(clinicaldoctest.Note{ID: 1 << 53})
	report, err := Probe(t.Context(), options)
	require.NoError(t, err)
	assert.Equal(t, "note.id", report.Item("number.large").Seen)
	assert.Contains(t, report.Item("number.strings").Seen, "audio.bitrate, audio.duration, audio.size, meta.current_page")
	assert.Equal(t, "none", report.Item("other_types").Seen, "a number as text is told once")
}

func TestProbe_RateWindow_IsReported(t *testing.T) {
	t.Parallel()
	box, options := startBox(t, clinicaldoctest.Variant{})
	reset := strconv.FormatInt(box.Now().Add(time.Minute).Unix(), 10)
	box.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Delay(0).WithHeader("X-RateLimit-Reset", reset).Always())
	report, err := Probe(t.Context(), options)
	require.NoError(t, err)
	assert.Regexp(t, `^at least (5\ds|1m0s), as X-Ratelimit-Reset tells$`, report.Item("limits.window").Seen)
}

func TestProbe_503_AdvisesAboutProxies(t *testing.T) {
	t.Parallel()
	box, options := startBox(t, clinicaldoctest.Variant{})
	box.Inject(clinicaldoctest.RouteListTokens, clinicaldoctest.Answer(http.StatusServiceUnavailable, "").Always())
	options.Client = box.Client(
		clinicaldoc.WithHTTPClient(&http.Client{Transport: box.Transport()}),
		clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{}),
	)
	report, err := Probe(t.Context(), options)
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, report.WriteText(&text))
	assert.Contains(t, text.String(), "limit_req_status 429")
}

func TestProbe_RateLimitHeaders_AreReported(t *testing.T) {
	t.Parallel()
	_, options := startBox(t, clinicaldoctest.Variant{RateLimit: 1000})
	report, err := Probe(t.Context(), options)
	require.NoError(t, err)
	assert.Contains(t, report.Item("limits.rate").Seen, "X-Ratelimit-Limit: 1000")
}

// If the service uses names that nobody would guess, the report says that they were not seen.
func TestProbe_UnknownNames_AreReportedAsNotSeen(t *testing.T) {
	t.Parallel()
	_, options := startBox(t, clinicaldoctest.Variant{Query: clinicaldoctest.QueryNames{
		PatientID: "zz_patient", PerPage: "zz_size", Sort: "zz_sort", Page: "zz_page",
	}})
	report, err := Probe(t.Context(), options)
	require.NoError(t, err)
	assert.Equal(t,
		clinicaldoc.QueryNames{},
		clinicaldoc.QueryNames{
			PatientID: report.QueryNames.PatientID, PerPage: report.QueryNames.PerPage, Sort: report.QueryNames.Sort,
		},
	)
	for _, key := range []string{"list.patient", "list.per_page", "list.sort"} {
		assert.False(t, report.Item(key).Known, key)
		assert.Contains(t, report.Item(key).Seen, "none of these works", key)
	}
	assert.Equal(t, "latest, as the rows' created_at tell", report.Item("list.default_sort").Seen)
}

func TestProbe_ProcessingFails_LeavesSigningOut(t *testing.T) {
	t.Parallel()
	box, options := startBox(t, clinicaldoctest.Variant{})
	box.ScriptNext(clinicaldoctest.Script{TranscriptionError: "audio_unreadable"})
	report, err := Probe(t.Context(), options)
	require.NoError(t, err)
	assert.Equal(t, "uploaded, transcribing, failed", report.Item("processing.stages").Seen)
	assert.Equal(t,
		"not seen: the note ended as failed", report.Item("processing.time").Seen, "nobody waits for what has failed",
	)
	assert.Equal(t, "not seen: no note was completed", report.Item("code.sign").Seen)
	assert.Equal(t, `"audio_unreadable", null`, report.Item("note.error_state").Seen)
	assert.Empty(t, box.Notes())
}

func TestProbe_SkipSign_SignsNothing(t *testing.T) {
	t.Parallel()
	box, options := startBox(t, clinicaldoctest.Variant{SignedChangeStatus: http.StatusConflict})
	options.SkipSign = true
	report, err := Probe(t.Context(), options)
	require.NoError(t, err)
	assert.Equal(t, "not seen: signing was left out", report.Item("sign.delete").Seen)
	assert.Nil(t, report.SignedNote)
	assert.Empty(t, box.Notes())
	for _, request := range box.Requests() {
		assert.NotEqual(t, clinicaldoctest.RouteSignNote, request.Route)
	}
}

func TestProbe_BreaksOff_LeavesNoNotes(t *testing.T) {
	t.Parallel()
	box, options := startBox(t, clinicaldoctest.Variant{})
	box.Inject(
		clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(http.StatusForbidden, `{"message":"Secret words"}`).After(1),
	)
	_, err := Probe(t.Context(), options)
	require.ErrorIs(t, err, clinicaldoc.ErrForbidden)
	assert.NotContains(t, err.Error(), "Secret")
	assert.Empty(t, box.Notes())
}

func TestProbe_LostResponse_DeletesItsNote(t *testing.T) {
	t.Parallel()
	box, options := startBox(t, clinicaldoctest.Variant{})
	box.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit().After(1))
	_, err := Probe(t.Context(), options)
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	assert.Empty(t, box.Notes())
}

func TestNames_PossibleData_IsOnlyCounted(t *testing.T) {
	t.Parallel()
	f := asObject([]byte(`{"id":1,"firstName":2,"Jane Sampleton":3,"1970-01-01":4}`))
	assert.Equal(t, "firstName, id, and 2 that may be data", f.names())
	assert.Equal(t, "1 that may be data", fields{"Jane Sampleton": nil}.names())
	assert.Equal(t, "a text (not printed)", errorStateForm(json.RawMessage(`"Recording of Jane Sampleton is broken"`)))
	assert.Equal(t, "another form (not printed)", timeForm(json.RawMessage(`"Jane Sampleton"`)))
	assert.Equal(t, "0000-00-00 00:00:00", timeForm(json.RawMessage(`"1970-01-01 10:11:12"`)))
}

func TestOutcome_StatusOrNone_InWords(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "allowed", outcome(nil))
	assert.Equal(t, "refused with 409", outcome(&clinicaldoc.Error{StatusCode: http.StatusConflict}))
	assert.Equal(t, "no answer", outcome(errors.New("cut off")))
}
