package clinicaldoctest_test

import (
	"bytes"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

func TestSetVariant_WhileRunning_Applies(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{BasePath: "/api"}))
	c.srv.AddNote(clinicaldoctest.Note{})
	assert.Contains(t, c.expect(http.StatusOK, http.MethodGet, "/v1/progress-notes/1"), "id")
	v := c.srv.Variant()
	v.WrapObjects, v.BasePath = true, "/elsewhere"
	c.srv.SetVariant(v)
	assert.Contains(t, c.expect(http.StatusOK, http.MethodGet, "/v1/progress-notes/1"), "data", "below the same base path")
	assert.Equal(t, "/api", c.srv.Variant().BasePath)
}

// The lists of a variant that a test passes or gets are its own: it may change them for its next server.
func TestVariant_ListChangedByACaller_StaysInForce(t *testing.T) {
	t.Parallel()
	given := clinicaldoctest.Variant{OptionalParts: []string{"name"}}
	c := start(t, clinicaldoctest.InProcess(), clinicaldoctest.WithVariant(given))
	given.OptionalParts[0] = "prompt_id"
	unnamed := validForm()
	delete(unnamed.fields, "name")
	inForce := func(when string) {
		assert.Equal(t, []string{"name"}, c.srv.Variant().OptionalParts, when)
		assert.Equal(t, http.StatusCreated, c.create(unnamed).StatusCode, when)
	}
	inForce("after the option")
	c.srv.Reset()
	inForce("after a reset")
	got := c.srv.Variant()
	got.OptionalParts[0] = "prompt_id"
	inForce("after it was read")
	got.OptionalParts[0] = "name"
	c.srv.SetVariant(got)
	got.OptionalParts[0] = "prompt_id"
	inForce("after it was set")
}

func TestSetTime_FrozenOrRunning_SetsTheClock(t *testing.T) {
	t.Parallel()
	c := start(t)
	for _, target := range []time.Time{noon, noon.Add(-time.Hour)} {
		c.srv.Freeze()
		c.srv.SetTime(target)
		assert.Equal(t, target, c.srv.Now())
		c.srv.Advance(time.Minute)
		assert.Equal(t, target.Add(time.Minute), c.srv.Now(), "standing")
	}
	c.srv.Unfreeze()
	assert.WithinDuration(t, noon.Add(-59*time.Minute), c.srv.Now(), time.Minute, "on from where it stood")
	before := c.srv.Now()
	require.Eventually(t, func() bool { return c.srv.Now().After(before) }, time.Second, time.Millisecond)
}

func TestFreeze_AdvancedClock_KeepsTheAdvance(t *testing.T) {
	t.Parallel()
	c := start(t)
	before := c.srv.Now()
	c.srv.Advance(time.Hour)
	c.srv.Freeze()
	assert.WithinDuration(t, before.Add(time.Hour), c.srv.Now(), time.Minute)
	c.srv.Unfreeze()
	assert.WithinDuration(t, before.Add(time.Hour), c.srv.Now(), time.Minute)
}

func TestSetDelays_NoteInProcessing_KeepsItsStage(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon), clinicaldoctest.WithDelays(clinicaldoctest.Delays{
		Uploaded: time.Minute, Transcribing: time.Minute, Transcribed: time.Minute, Analysing: time.Minute,
	}))
	c.create(validForm())
	c.srv.Advance(150 * time.Second)
	require.Equal(t, clinicaldoctest.StageTranscribed, c.srv.Notes()[0].Stage)
	c.srv.SetDelays(clinicaldoctest.Delays{Uploaded: time.Hour, Transcribing: time.Hour, Transcribed: time.Hour})
	assert.Equal(t, clinicaldoctest.StageTranscribed, c.srv.Notes()[0].Stage)
	c.srv.SetDelays(clinicaldoctest.Delays{})
	assert.Equal(t, clinicaldoctest.StageComplete, c.srv.Notes()[0].Stage)
}

func TestReset_UsedServer_KeepsOnlyTheFirstUser(t *testing.T) { //nolint:paralleltest // sets a variable of the environment
	temporary := t.TempDir()
	setTemporary(t, temporary)
	c := start(t, clinicaldoctest.WithFrozenClock(noon), clinicaldoctest.WithVariant(clinicaldoctest.Variant{RateLimit: 20}))
	c.create(validForm())
	c.srv.AddNote(clinicaldoctest.Note{})
	second := c.srv.AddUser(clinicaldoctest.User{})
	c.srv.SetVariant(clinicaldoctest.Variant{WrapObjects: true})
	c.srv.SetDelays(clinicaldoctest.Delays{})
	c.srv.Advance(time.Hour)
	c.srv.ScriptNext(clinicaldoctest.Script{TranscriptionError: "no speech"})
	c.srv.Inject("", clinicaldoctest.Answer(http.StatusTeapot, "").Always())
	c.srv.Reset()

	assert.Empty(t, c.srv.Notes())
	assert.Empty(t, c.srv.Created())
	assert.Empty(t, c.srv.Requests())
	assert.Empty(t, c.srv.Faults())
	assert.Equal(t, noon, c.srv.Now())
	files, err := filepath.Glob(filepath.Join(temporary, "*", "*"))
	require.NoError(t, err)
	assert.Empty(t, files)
	c.as(second.Token).expect(http.StatusUnauthorized, http.MethodGet, "/user")
	a := c.create(validForm())
	assert.Equal(t, "19", a.Header.Get("X-RateLimit-Remaining"), "the limit counts anew")
	note := a.object(t)
	assert.InDelta(t, 1, note["id"], 0)
	assert.NotContains(t, note, "transcription")
	c.srv.Advance(time.Hour)
	assert.Equal(t, clinicaldoctest.StageComplete, c.srv.Notes()[0].Stage, "without the old script")
}

// A request that began before a reset has no effect after it.
func TestReset_DuringAnUpload_DropsNoteAndFile(t *testing.T) {
	t.Parallel()
	c := start(t)
	req := c.createRequest(validForm())
	body, err := io.ReadAll(req.Body)
	require.NoError(t, err)
	reader, writer := io.Pipe()
	req.Body = reader
	req.GetBody = nil
	done := make(chan answer)
	go func() { done <- c.send(req) }()
	_, err = writer.Write(body[:len(body)/2])
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(c.srv.Requests()) == 1 }, 5e9, 1e6)
	c.srv.Reset()
	_, err = io.Copy(writer, bytes.NewReader(body[len(body)/2:]))
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	<-done
	assert.Empty(t, c.srv.Notes())
	assert.Empty(t, c.files())
	assert.Empty(t, c.srv.Created())
	assert.Empty(t, c.srv.Requests())
	assert.Empty(t, ids(t, c.list("")))
}

// Reset may run in parallel with any other use of the server: every request finds the server's first user.
func TestReset_Concurrent_KeepsTheFirstUser(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.InProcess())
	var group sync.WaitGroup
	each := func(act func()) {
		group.Go(func() {
			for range 200 {
				act()
			}
		})
	}
	each(c.srv.Reset)
	each(func() { c.srv.AddNote(clinicaldoctest.Note{}) })
	each(func() { boxlink.Plant(c.srv, 3) })
	each(func() { c.srv.AddToken(1, "another") })
	each(func() {
		created, err := c.try(c.createRequest(formOf("synthetic")))
		if assert.NoError(t, err) {
			assert.Equal(t, http.StatusCreated, created.StatusCode, created.text)
		}
	})
	each(func() {
		listed, err := c.try(c.request(http.MethodGet, "/v1/progress-notes", nil))
		if assert.NoError(t, err) {
			assert.Equal(t, http.StatusOK, listed.StatusCode, listed.text)
		}
	})
	group.Wait()
	c.srv.Reset()
	assert.Empty(t, c.srv.Notes())
	assert.Equal(t, c.srv.AddNote(clinicaldoctest.Note{}), c.srv.Notes()[0].ID)
}
