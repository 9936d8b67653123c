package clinicaldoctest_test

import (
	"bytes"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestVariants_EverySwitch_IsUsed(t *testing.T) {
	t.Parallel()
	variants := clinicaldoctest.Variants()
	require.Equal(t, "default", variants[0].Name)
	values := func(index []int) (distinct []any) {
		for _, v := range variants {
			value := reflect.ValueOf(v).FieldByIndex(index).Interface()
			if !slices.ContainsFunc(distinct, func(other any) bool { return reflect.DeepEqual(value, other) }) {
				distinct = append(distinct, value)
			}
		}
		return distinct
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[clinicaldoctest.Variant]()) {
		assert.Greater(t, len(values(field.Index)), 1, "no variant sets %s", field.Name)
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[clinicaldoctest.QueryNames]()) {
		query, _ := reflect.TypeFor[clinicaldoctest.Variant]().FieldByName("Query")
		assert.Greater(t, len(values(append(slices.Clone(query.Index), field.Index...))), 1, "no variant sets %s", field.Name)
	}
	for name, count := range map[string]int{
		"Pagination": 7, "Empty": 3, "Times": 5, "Patient": 3, "TooLarge": 3, "ListTexts": 3, "Audio": 2,
		"IncompleteSignStatus": 5, "SignedChangeStatus": 3, "CreateStatus": 3,
	} {
		field, _ := reflect.TypeFor[clinicaldoctest.Variant]().FieldByName(name)
		assert.Len(t, values(field.Index), count, "some value of %s is in no variant", name)
	}
}

func TestVariantNamed_EachVariant_IsFound(t *testing.T) {
	t.Parallel()
	for _, v := range clinicaldoctest.Variants() {
		found, known := clinicaldoctest.VariantNamed(v.Name)
		assert.True(t, known)
		assert.Equal(t, v, found)
		assert.NotEmpty(t, v.Query.PatientID)
	}
	_, known := clinicaldoctest.VariantNamed("no such")
	assert.False(t, known)
}

// A note can go through its whole life in every variant.
func TestVariants_EachVariant_CarriesNoteThroughItsLife(t *testing.T) {
	t.Parallel()
	for _, v := range clinicaldoctest.Variants() {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			c := start(t, clinicaldoctest.WithVariant(v), clinicaldoctest.WithFrozenClock(noon))
			c.srv.AddPatient(clinicaldoctest.Patient{ID: 7})
			created := c.create(validForm())
			require.Equal(t, v.CreateStatus, created.StatusCode, created.text)
			unfinished := c.send(c.request(http.MethodPut, "/v1/progress-notes/1/sign", nil))
			assert.Equal(t, v.IncompleteSignStatus, unfinished.StatusCode)
			assert.Equal(t, !v.IncompleteSignGeneric, strings.Contains(unfinished.text, "cannot be signed"))
			c.srv.Advance(time.Hour)
			assert.Equal(t, http.StatusOK, c.put("/v1/progress-notes/1", `{"analysis":"Edited."}`).StatusCode)
			address := c.audioURL()
			assert.True(t, strings.HasPrefix(c.as("").get(address).text, string(validForm().file)))
			c.expect(http.StatusOK, http.MethodPut, "/v1/progress-notes/1/sign")
			change := c.put("/v1/progress-notes/1", `{"analysis":"Edited after signing."}`)
			deletion := c.send(c.request(http.MethodDelete, "/v1/progress-notes/1", nil))
			if v.SignedChangeStatus != 0 {
				assert.Equal(t, v.SignedChangeStatus, change.StatusCode)
				assert.Equal(t, v.SignedChangeStatus, deletion.StatusCode)
			} else {
				assert.Equal(t, http.StatusOK, change.StatusCode)
				assert.Equal(t, v.DeleteStatus, deletion.StatusCode)
				assert.Equal(t, v.DeleteStatus == http.StatusNoContent, deletion.text == "")
			}
			me := c.expect(http.StatusOK, http.MethodGet, "/user")
			if v.WrapObjects {
				me = field[object](t, me, "data")
			}
			assert.InDelta(t, 1, me["id"], 0)
			c.expect(http.StatusOK, http.MethodGet, "/v1/auth/tokens")
			c.list("")
		})
	}
}

// variantNote is a note that is being transcribed, as a variant shows it.
func variantNote(t *testing.T, v clinicaldoctest.Variant) object {
	t.Helper()
	c := start(t, clinicaldoctest.WithVariant(v), clinicaldoctest.WithFrozenClock(noon))
	c.srv.AddNote(clinicaldoctest.Note{Stage: clinicaldoctest.StageTranscribing})
	return c.expect(http.StatusOK, http.MethodGet, "/v1/progress-notes/1")
}

func TestVariant_Empty_ShowsAbsentFields(t *testing.T) {
	t.Parallel()
	absent := variantNote(t, clinicaldoctest.Variant{Patient: clinicaldoctest.PatientUnnamed})
	assert.NotContains(t, absent, "analysis")
	assert.NotContains(t, absent, "patient")
	assert.Contains(t, absent, "error_state", "which the description gives as null")

	null := variantNote(t, clinicaldoctest.Variant{Patient: clinicaldoctest.PatientUnnamed, Empty: clinicaldoctest.EmptyNull})
	for _, field := range []string{"analysis", "analysis_started_at", "patient"} {
		assert.Contains(t, null, field)
		assert.Nil(t, null[field])
	}

	array := variantNote(t, clinicaldoctest.Variant{Patient: clinicaldoctest.PatientUnnamed, Empty: clinicaldoctest.EmptyArray})
	assert.Nil(t, array["analysis"])
	assert.Equal(t, []any{}, array["patient"])
}

func TestVariant_BodySwitches_ChangeTheNote(t *testing.T) {
	t.Parallel()
	wrapped := variantNote(t, clinicaldoctest.Variant{WrapObjects: true, ExtraFields: true})
	assert.Len(t, wrapped, 1)
	assert.Contains(t, wrapped["data"], "undescribed_object")

	beside := variantNote(t, clinicaldoctest.Variant{Patient: clinicaldoctest.PatientID, NumbersAsStrings: true})
	assert.InDelta(t, 1, beside["patient_id"], 0)
	assert.NotContains(t, beside, "patient")
	assert.Equal(t, "16044", field[string](t, beside, "audio", "size"))
	assert.Equal(t, "1", field[string](t, beside, "audio", "duration"))
	assert.InDelta(t, 1, beside["id"], 0, "numbers elsewhere stay numbers")

	for format, want := range map[clinicaldoctest.TimeFormat]string{
		clinicaldoctest.TimeMicroseconds: "2024-05-01T12:00:00.123456Z",
		clinicaldoctest.TimeWholeSeconds: "2024-05-01T12:00:00.000000Z",
		clinicaldoctest.TimeOffset:       "2024-05-01T14:00:00.123456+02:00",
		clinicaldoctest.TimeNoZone:       "2024-05-01 12:00:00",
		clinicaldoctest.TimeLocalNoZone:  "2024-05-01 14:00:00",
	} {
		assert.Equal(t, want, variantNote(t, clinicaldoctest.Variant{Times: format})["created_at"])
	}
}

func TestVariant_FrameworkTexts_AreLaravels(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{FrameworkTexts: true}))
	c.srv.AddNote(clinicaldoctest.Note{Stage: clinicaldoctest.StageUploaded, Stuck: true})
	message := func(a answer) any { return a.object(t)["message"] }

	assert.Equal(t, "Unauthenticated.", message(c.as("").get("/user")))
	assert.Equal(t, `No query results for model [App\Models\ProgressNote] 9`, message(c.get("/v1/progress-notes/9")))
	assert.Equal(t, "The route v1/nothing could not be found.", message(c.get("/v1/nothing")))
	assert.Equal(t, "The PUT method is not supported for route user. Supported methods: GET, HEAD.", message(c.put("/user", "")))
	assert.Equal(t, "The name must be a string.", message(c.put("/v1/progress-notes/1", `{"name":1}`)))
	assert.Equal(t, "The analysis must be a string. (and 1 more error)", message(c.put("/v1/progress-notes/1", `{"name":1,"analysis":1}`)))
	assert.Equal(t, "The file field is required. (and 3 more errors)", message(c.send(c.request(http.MethodPost, "/v1/progress-notes", nil))))
	colleague := c.as(c.srv.AddUser(clinicaldoctest.User{}).Token)
	assert.Equal(t, "This action is unauthorized.", message(colleague.put("/v1/progress-notes/1", `{}`)))
}

func TestCreate_AboveTheLimit_IsRefused(t *testing.T) {
	t.Parallel()
	for refusal, status := range map[clinicaldoctest.TooLarge]int{
		clinicaldoctest.TooLargeJSON:  http.StatusRequestEntityTooLarge,
		clinicaldoctest.TooLargeHTML:  http.StatusRequestEntityTooLarge,
		clinicaldoctest.TooLargeField: http.StatusUnprocessableEntity,
	} {
		c := start(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{MaxUploadSize: 10_000, TooLarge: refusal}))
		for _, chunked := range []bool{false, true} {
			req := c.createRequest(validForm())
			if chunked {
				req.ContentLength = -1
			}
			a := c.send(req)
			assert.Equal(t, status, a.StatusCode)
			assert.Equal(t, refusal == clinicaldoctest.TooLargeHTML, strings.HasPrefix(a.text, "<!DOCTYPE html>"))
			assert.Equal(t, refusal == clinicaldoctest.TooLargeField, strings.Contains(a.text, "The file failed to upload."))
		}
		small := validForm()
		small.file = bytes.Repeat([]byte("a"), 5_000)
		assert.Equal(t, http.StatusCreated, c.create(small).StatusCode)
		assert.Len(t, c.srv.Notes(), 1)

		exact := c.createRequest(small)
		variant := c.srv.Variant()
		variant.MaxUploadSize = exact.ContentLength
		c.srv.SetVariant(variant)
		assert.Equal(t, http.StatusCreated, c.send(exact).StatusCode, "not above the limit")
	}
}

func TestCreate_OptionalParts_MayBeMissing(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon),
		clinicaldoctest.WithVariant(clinicaldoctest.Variant{OptionalParts: []string{"name", "patient_id", "prompt_id", "file"}}))
	note := c.send(c.request(http.MethodPost, "/v1/progress-notes", nil)).object(t)
	assert.Equal(t, "Note 1", note["name"])
	assert.NotContains(t, note, "audio")
	assert.NotContains(t, note, "template")
	assert.NotContains(t, note, "patient")
	c.expect(http.StatusNotFound, http.MethodGet, "/v1/progress-notes/1/audio-url")
	c.srv.Advance(time.Hour)
	assert.Equal(t, clinicaldoctest.StageUploaded, c.srv.Notes()[0].Stage, "there is nothing to transcribe")
}

func TestVariant_NoRequestID_SendsNone(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{NoRequestID: true}))
	assert.Empty(t, c.get("/user").Header.Get("X-Request-Id"))
	assert.NotEmpty(t, c.srv.Requests()[0].ID)
}

func TestVariant_Compress_PacksResponses(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon), clinicaldoctest.WithVariant(clinicaldoctest.Variant{Compress: true}))
	c.srv.AddNote(clinicaldoctest.Note{Transcription: strings.Repeat("Synthetic words. ", 100)})
	plain := c.get("/v1/progress-notes/1") // net/http asks for gzip and undoes it
	assert.True(t, plain.Uncompressed)
	assert.InDelta(t, 1, plain.object(t)["id"], 0)

	req := c.request(http.MethodGet, "/v1/progress-notes/1", nil)
	req.Header.Set("Accept-Encoding", "br, gzip;q=0.5")
	packed := c.send(req)
	assert.Equal(t, "gzip", packed.Header.Get("Content-Encoding"))
	assert.Equal(t, "Accept-Encoding", packed.Header.Get("Vary"))
	assert.Equal(t, int64(len(packed.text)), packed.ContentLength)
	assert.Less(t, len(packed.text), len(plain.text))

	for _, refused := range []string{"identity", "gzip;q=0", "br, gzip; q=0.0"} {
		req.Header.Set("Accept-Encoding", refused)
		assert.Equal(t, plain.text, c.send(req).text, refused)
	}
	_, err := c.srv.Client().Notes.Get(t.Context(), 1)
	require.NoError(t, err)
}

func TestVariant_ReencodedAudio_IsServed(t *testing.T) {
	t.Parallel()
	sent := validForm().file
	for stored, isReported := range map[clinicaldoctest.StoredAudio]bool{
		clinicaldoctest.AudioReencoded: true, clinicaldoctest.AudioReencodedUntold: false,
	} {
		for _, opts := range [][]clinicaldoctest.Option{nil, {clinicaldoctest.InProcess()}} {
			c := start(t, append(opts, clinicaldoctest.WithVariant(clinicaldoctest.Variant{Audio: stored}))...)
			c.create(validForm())
			got := c.as("").get(c.audioURL())
			assert.NotEqual(t, len(sent), len(got.text))
			size := len(sent)
			if isReported {
				size = len(got.text)
			}
			assert.InDelta(t, size, c.audio(1)["size"], 0)
			assert.Len(t, c.srv.CreatedFrom(sent), 1, "Created knows what was sent")
			assert.Equal(t, c.srv.Created()[0].AudioSHA256, c.srv.Notes()[0].AudioSHA256)
			part := c.as("").fetch(c.as(c.srv.Token).audioURL(), "Range", "bytes=-10")
			assert.Equal(t, got.text[len(got.text)-10:], part.text)
		}
	}
}

func TestUpdate_TextSwitches_KeepSpaceAndRefuseEmpty(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{KeepOuterSpace: true, RefuseEmptyText: true}))
	c.srv.AddNote(clinicaldoctest.Note{})
	assert.Equal(t, " kept\n", c.put("/v1/progress-notes/1", `{"analysis":" kept\n"}`).object(t)["analysis"])
	assert.Equal(t, http.StatusUnprocessableEntity, c.put("/v1/progress-notes/1", `{"analysis":""}`).StatusCode)
}
