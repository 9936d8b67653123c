package main

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var baseURL string

func TestMain(m *testing.M) {
	playRole()
	url, stop, err := startServer(context.Background())
	if err != nil {
		panic(err)
	}
	baseURL = url
	code := m.Run()
	stop()
	os.Exit(code)
}

// as reads what a client returned in the form of the service.
func as[T any](t *testing.T, returned any, err error) T {
	t.Helper()
	require.NoError(t, err)
	encoded, err := json.Marshal(returned)
	require.NoError(t, err)
	var value T
	require.NoError(t, json.Unmarshal(encoded, &value), string(encoded))
	return value
}

func assertNote(t *testing.T, want, got note) {
	t.Helper()
	assert.JSONEq(t, string(want.Patient), string(got.Patient))
	assert.JSONEq(t, string(want.User), string(got.User))
	got.Patient = want.Patient
	got.User = want.User
	assert.Equal(t, want, got)
}

// What every client sends arrives, and every client returns the same values. Otherwise costs would not compare.
func TestClients_DoTheSameWork(t *testing.T) {
	t.Parallel()
	for name, newClient := range newClients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := newClient(baseURL, token)
			require.NoError(t, err)

			got, err := c.get(t.Context(), 42)
			assertNote(t, newNote(42), as[note](t, got, err))

			got, err = c.page(t.Context(), 3, 100)
			page := as[notePage](t, got, err)
			assert.Equal(t, []int{3, pages, 100, 100 * pages},
				[]int{page.Meta.CurrentPage, page.Meta.LastPage, page.Meta.PerPage, page.Meta.Total})
			require.Len(t, page.Data, 100)
			for i := range page.Data {
				assertNote(t, newNote(int64(201+i)), page.Data[i])
			}

			edited := newNote(7)
			edited.Name = edit.Name
			edited.Analysis = edit.Analysis
			got, err = c.update(t.Context(), 7, edit)
			assertNote(t, edited, as[note](t, got, err))

			signed := newNote(7)
			signed.Has.Signed = true
			got, err = c.sign(t.Context(), 7)
			assertNote(t, signed, as[note](t, got, err))

			got, err = c.remove(t.Context(), 7)
			assert.Equal(t, deleted, as[string](t, got, err))

			created := newNote(1)
			created.Name = "Uploaded synthetic note"
			created.Audio.Size = 3_000_001
			got, err = c.upload(t.Context(), created.Name, recording{created.Audio.Size})
			assertNote(t, created, as[note](t, got, err))

			other, err := newClient(baseURL, "another-token")
			require.NoError(t, err)
			_, err = other.get(t.Context(), 42)
			require.Error(t, err)
		})
	}
}

// The README names these sizes.
func TestNote_HasTheSizesOfTheReadme(t *testing.T) {
	t.Parallel()
	n := newNote(1)
	assert.InDelta(t, 3000, len(n.Transcription), 10)
	assert.InDelta(t, 2000, len(n.Analysis), 10)
	assert.InDelta(t, 6700, len(n.json()), 100)
}

// BenchmarkRequests is for profiles; the report measures.
func BenchmarkRequests(b *testing.B) {
	for name, newClient := range newClients {
		c, err := newClient(baseURL, token)
		require.NoError(b, err)
		for _, op := range operations {
			b.Run(op.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := op.do(b.Context(), c); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
