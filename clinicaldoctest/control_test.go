package clinicaldoctest_test

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestSwitchesChangeWhileTheServerRuns(t *testing.T) {
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

func TestTimeCanBeSet(t *testing.T) {
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

func TestDelaysCanBeSet(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon))
	c.create(validForm())
	c.srv.SetDelays(clinicaldoctest.Delays{})
	assert.Equal(t, clinicaldoctest.StageComplete, c.srv.Notes()[0].Stage)
}

func TestResetLeavesNothingButTheFirstUser(t *testing.T) { //nolint:paralleltest // sets a variable of the environment
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
