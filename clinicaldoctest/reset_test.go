package clinicaldoctest_test

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

// A request belongs to the state that it found: what began before a reset does nothing after it.
func TestReset_DuringAnUpload_DropsTheNote(t *testing.T) {
	t.Parallel()
	c := start(t)
	req := c.createRequest(validForm())
	body, err := io.ReadAll(req.Body)
	require.NoError(t, err)
	reader, writer := io.Pipe()
	req.Body, req.GetBody = reader, nil
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
