package transports

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// selfSigned returns a certificate for 127.0.0.1 and a pool that trusts it.
func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	lender := httptest.NewTLSServer(http.NotFoundHandler())
	defer lender.Close()
	roots := x509.NewCertPool()
	roots.AddCert(lender.Certificate())
	return lender.TLS.Certificates[0], roots
}

// http3Server is a fake server whose service and storage speak HTTP/3 alone: QUIC listens on the UDP ports whose numbers the fake
// server's addresses have.
func http3Server(t *testing.T, opts ...clinicaldoctest.Option) (*clinicaldoctest.Server, *http3.Transport) {
	t.Helper()
	srv := clinicaldoctest.NewServer(append(opts, clinicaldoctest.WithTLS())...)
	t.Cleanup(srv.Close)
	certificate, roots := selfSigned(t)
	for _, address := range []string{srv.URL, srv.StorageURL} {
		parsed, err := url.Parse(address)
		require.NoError(t, err)
		udp, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp4", parsed.Host)
		require.NoError(t, err)
		server := &http3.Server{
			Handler:   srv.Handler(),
			TLSConfig: http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{certificate}}),
		}
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(udp) })
		t.Cleanup(func() {
			_ = server.Close()
			_ = udp.Close()
			serving.Wait()
		})
	}
	transport := &http3.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(func() { _ = transport.Close() })
	return srv, transport
}

func http3Client(t *testing.T, opts ...clinicaldoctest.Option) (*clinicaldoctest.Server, *clinicaldoc.Client) {
	t.Helper()
	srv, transport := http3Server(t, opts...)
	client, err := clinicaldoc.NewClient(srv.URL, srv.Token,
		clinicaldoc.WithHTTPClient(&http.Client{Transport: transport}),
		clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 3, MinWait: time.Millisecond}))
	require.NoError(t, err)
	return srv, client
}

func recording(size int) clinicaldoc.CreateNoteParams {
	audio := clinicaldoc.AudioBytes("visit.wav", bytes.Repeat([]byte{1}, size))
	return clinicaldoc.CreateNoteParams{Name: "synthetic visit", PatientID: 7, PromptID: 1, Audio: audio}
}

func minute(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestHTTP3_NoteLife(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"small": 100, "announced": 2 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, client := http3Client(t)
			var response clinicaldoc.Response
			_, err := client.Users.Me(minute(t), clinicaldoc.WithResponse(&response))
			require.NoError(t, err)
			id := visit(t, client, size)
			var audio bytes.Buffer
			n, err := client.Notes.DownloadAudio(minute(t), id, &audio, clinicaldoc.DownloadParams{})
			require.NoError(t, err)
			assert.EqualValues(t, size, n)
			assert.Equal(t, bytes.Repeat([]byte{1}, size), audio.Bytes())
		})
	}
}

// Each create after the first gets a connection that was used before.
func TestHTTP3_Create_ReusesTheConnection(t *testing.T) {
	t.Parallel()
	_, client := http3Client(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 5 {
				_, err := client.Notes.Create(minute(t), recording(1000))
				assert.NoError(t, err)
			}
		})
	}
	all.Wait()
	notes, err := clinicaldoc.Collect(client.Notes.All(minute(t), clinicaldoc.ListNotesParams{PatientID: 7}))
	require.NoError(t, err)
	assert.Len(t, notes, 20)
}

func TestHTTP3_RefusedCreate_IsRetried(t *testing.T) {
	t.Parallel()
	srv, client := http3Client(t)
	_, err := client.Notes.Create(minute(t), recording(10))
	require.NoError(t, err)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.TooManyRequests(0))
	var response clinicaldoc.Response
	_, err = client.Notes.Create(minute(t), recording(1<<20), clinicaldoc.WithResponse(&response))
	require.NoError(t, err)
	assert.Equal(t, 2, response.Attempts)
	assert.Len(t, srv.Notes(), 2)
}

func TestHTTP3_Reads_AreRetried(t *testing.T) {
	t.Parallel()
	srv, client := http3Client(t)
	id := visit(t, client, 100)
	for _, fault := range []clinicaldoctest.Fault{
		clinicaldoctest.Answer(503, "synthetic"), clinicaldoctest.Reset(), clinicaldoctest.Truncate(10),
	} {
		srv.Inject(clinicaldoctest.RouteGetNote, fault)
		var response clinicaldoc.Response
		_, err := client.Notes.Get(minute(t), id, clinicaldoc.WithResponse(&response))
		require.NoError(t, err, fault)
		assert.Equal(t, 2, response.Attempts, fault)
	}
}

func TestHTTP3_Create_LostResponse_MakesNoSecondNote(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault clinicaldoctest.Fault
		made  int
	}{
		"made":     {clinicaldoctest.ResetAfterCommit(), 1},
		"cut":      {clinicaldoctest.Truncate(5), 1},
		"not made": {clinicaldoctest.ResetAfterRequest(), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, client := http3Client(t)
			_, err := client.Users.Me(minute(t))
			require.NoError(t, err)
			srv.Inject(clinicaldoctest.RouteCreateNote, tc.fault)
			_, err = client.Notes.Create(minute(t), recording(1000))
			unknown, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](err)
			require.True(t, ok, "%v", err)
			assert.Len(t, srv.Notes(), tc.made)
			if tc.made > 0 {
				note, err := client.Notes.FindCreated(minute(t), unknown, clinicaldoc.FindCreatedParams{})
				require.NoError(t, err)
				assert.Equal(t, srv.Notes()[0].ID, note.ID)
			}
		})
	}
}

func TestHTTP3_Update_LostResponse(t *testing.T) {
	t.Parallel()
	srv, client := http3Client(t)
	id := visit(t, client, 100)
	srv.Inject(clinicaldoctest.RouteUpdateNote, clinicaldoctest.ResetAfterCommit())
	note, err := client.Notes.Update(minute(t), id, clinicaldoc.UpdateNoteParams{Name: new("synthetic, once more")})
	require.NoError(t, err)
	assert.Equal(t, "synthetic, once more", note.Name)
	updates := 0
	for _, request := range srv.Requests() {
		if request.Method == http.MethodPut && strings.HasPrefix(request.Path, "/v1/progress-notes/") {
			updates++
		}
	}
	assert.Equal(t, 2, updates, "the first of visit, and one whose response was lost")
}

func TestHTTP2WithoutTLS_NoteLife(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	var connections atomic.Int32
	front := httptest.NewUnstartedServer(srv.Handler())
	front.Config.Protocols = new(http.Protocols)
	front.Config.Protocols.SetUnencryptedHTTP2(true)
	front.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	front.Start()
	t.Cleanup(front.Close)
	transport := pool(t)
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetUnencryptedHTTP2(true)
	visit(t, through(t, transport, front.URL, srv.Token), 2<<20)
	for range 3 {
		_, err := through(t, transport, front.URL, srv.Token).Notes.Create(minute(t), recording(1000))
		require.NoError(t, err)
	}
	assert.EqualValues(t, 1, connections.Load())
}

// A client that gets a connection which another client has used cannot know yet what the server speaks.
func TestHTTP3_Create_OnAnotherClientsConnection(t *testing.T) {
	t.Parallel()
	srv, transport := http3Server(t)
	for range 3 {
		client := through(t, transport, srv.URL, srv.Token)
		_, err := client.Notes.Create(minute(t), recording(1000))
		require.NoError(t, err)
	}
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(http.StatusUnprocessableEntity, `{"message":"synthetic"}`))
	_, err := through(t, transport, srv.URL, srv.Token).Notes.Create(minute(t), recording(1<<20))
	require.ErrorIs(t, err, clinicaldoc.ErrValidation)
}
