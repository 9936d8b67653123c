package jetstream

import (
	"context"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// doubled returns how many recordings have more than one note.
func doubled(srv *clinicaldoctest.Server) (count int) {
	notes := map[string]int{}
	for _, note := range srv.Notes() {
		if notes[note.AudioSHA256]++; notes[note.AudioSHA256] == 2 {
			count++
		}
	}
	return count
}

// If a store loses data while a fleet works, Work ends with an error that says what to do, and nothing is uploaded
// twice.
func TestWork_StoreHarmed_EndsAndDoublesNothing(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(*Fleet) error{
		"a bucket is deleted":   func(f *Fleet) error { return f.store.js.DeleteStream(t.Context(), f.store.streams()[2].Name) },
		"the queue is deleted":  func(f *Fleet) error { return f.store.js.DeleteStream(t.Context(), f.store.queueName()) },
		"the header is deleted": func(f *Fleet) error { return f.store.js.DeleteStream(t.Context(), f.store.streams()[0].Name) },
		"a bucket expires": func(f *Fleet) error {
			config := f.store.streams()[2]
			config.MaxAge = time.Second
			_, err := f.store.js.UpdateStream(t.Context(), config)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, dir := clinicaldoctest.NewServer(), t.TempDir()
			t.Cleanup(srv.Close)
			f := openFleet(t, connect(t, startServer(t)), Params{})
			publish(t, f, dir, 60)
			taken := 0
			var failure error
			u := &ingest.Uploader{Client: srv.Client(), Workers: 2, Until: clinicaldoc.StageUploaded}
			for result, err := range f.Work(t.Context(), u) {
				if failure = err; err != nil {
					break
				}
				require.NotEqual(t, Dead, result.Ending, result)
				if taken++; taken == 10 {
					require.NoError(t, harm(f))
					require.NoError(t, f.store.turn.take(t.Context()))
					f.store.verified = time.Time{} // as ten seconds later
					f.store.turn.leave()
				}
			}
			require.ErrorIs(t, failure, ErrStore)
			assert.Zero(t, doubled(srv))
			assert.Less(t, len(srv.Notes()), 60)
		})
	}
}

// A worker that uploads notices a deleted stream within 30 seconds, also during one long upload.
func TestWork_DeletedStream_EndsWithin30Seconds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, upload := range map[string]time.Duration{"short uploads": 3 * time.Second, "long upload": time.Hour} {
		for _, deleted := range newEngine().store.streams() {
			t.Run(name+", "+deleted.Name, func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
					srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Delay(upload).Always())
					begun := time.Now()
					const after = 61 * time.Second // soon after the store was verified
					e.before = func(_ context.Context, op, key string) error {
						if op == "stream" && key == deleted.Name && time.Since(begun) >= after {
							return jetstream.ErrStreamNotFound
						}
						return nil
					}
					f := e.fleet(defaultLease)
					publish(t, f, dir, 60)
					u := uploader(srv)
					u.Workers = 1
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
					defer cancel()
					var failure error
					for _, err := range f.Work(ctx, u) {
						failure = err
					}
					require.ErrorIs(t, failure, ErrStore)
					require.ErrorContains(t, failure, deleted.Name)
					assert.LessOrEqual(t, time.Since(begun)-after, 30*time.Second)
				})
			})
		}
	}
}

// If a dead letter cannot be stored, the recording stays in the queue.
func TestWork_NoRoomForADeadLetter_KeepsTheRecording(t *testing.T) {
	t.Parallel()
	srv, dir := clinicaldoctest.NewServer(), t.TempDir()
	t.Cleanup(srv.Close)
	f := openFleet(t, connect(t, startServer(t)), Params{})
	config := f.queue.dead.CachedInfo().Config
	config.MaxMsgs = 1
	_, err := f.store.js.UpdateStream(t.Context(), config)
	require.NoError(t, err)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, "{}").Always())
	publish(t, f, dir, 3)
	endings := map[Ending]int{}
	for result, err := range f.Work(t.Context(), &ingest.Uploader{Client: srv.Client()}) {
		require.NoError(t, err)
		if endings[result.Ending]++; endings[Dead]+endings[Later] == 3 {
			break
		}
	}
	assert.Equal(t, map[Ending]int{Dead: 1, Later: 2}, endings)
	assert.Len(t, letters(t, f), 1)
	assert.Equal(t, 2, messages(t, f))
}

// lastingPort returns a free port on which a server can be started again. It is below those that systems choose
// themselves, so no connection of another test gets it meanwhile.
func lastingPort(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 20_000 + rand.IntN(10_000)
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			require.NoError(t, listener.Close())
			return port
		}
	}
	t.Fatal("no free port was found")
	return 0
}

// Drain continues after the server was restarted or the consumers were deleted.
func TestDrain_ServerRestarted_GoesOn(t *testing.T) {
	t.Parallel()
	srv, dir, share := clinicaldoctest.NewServer(), t.TempDir(), t.TempDir()
	t.Cleanup(srv.Close)
	port := lastingPort(t)
	s := startServerWith(t, &server.Options{Port: port, StoreDir: dir})
	f := openFleet(t, connect(t, s), Params{Lease: 5 * time.Second})
	const count = 60
	publish(t, f, share, count)
	taken, joined := 0, make(chan error, 1)
	u := &ingest.Uploader{Client: srv.Client(), Find: clinicaldoc.FindCreatedParams{Settle: time.Second}} // a commit may be without an answer
	for result, err := range f.Drain(t.Context(), u) {
		require.NoError(t, err)
		require.NotEqual(t, Dead, result.Ending, result)
		switch taken++; taken {
		case 10:
			require.NoError(t, f.queue.stream.DeleteConsumer(t.Context(), laneNames[0]))
			require.NoError(t, f.queue.stream.DeleteConsumer(t.Context(), laneNames[1]))
		case 20:
			s.Shutdown()
			s.WaitForShutdown()
			go func() {
				_, err := joinPatiently(t.Context(), f.store.conn, Params{})
				joined <- err
			}()
			s = startServerWith(t, &server.Options{Port: port, StoreDir: dir})
		}
	}
	require.NoError(t, <-joined, "who comes meanwhile waits too")
	require.NoError(t, srv.CreatedOnce(contents(count)...))
	assert.Empty(t, letters(t, f))
}
