package command

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/gaps"
)

// The check says only as much about TLS as it has seen: a host that is slow may support TLS well.
func TestCheckTLS_EachFailure_SaysWhatWasSeen(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		host func(net.Conn)
		want string
	}{
		"silent":    {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, "the TLS handshake did not end in time"},
		"plain":     {func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }, "the server does not speak TLS"},
		"cut":       {func(net.Conn) {}, "the connection ended during the TLS handshake"},
		"unwilling": {func(c net.Conn) { _, _ = c.Write([]byte{21, 3, 3, 0, 2, 2, 40}) }, "the TLS handshake was refused: tls: handshake failure"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer func() { assert.NoError(t, listener.Close()) }()
			go func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					hello := make([]byte, 1<<10)
					_, _ = conn.Read(hello)
					one.host(conn)
					_ = conn.Close()
				}
			}()
			limit := time.Minute
			if name == "silent" {
				limit = 100 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			d := &doctor{visit: visit{base: &url.URL{Scheme: "https", Host: listener.Addr().String()}, address: listener.Addr().String()}}
			got := d.checkTLS(ctx)
			assert.Equal(t, bad, got.State)
			assert.Equal(t, one.want, got.Detail)
		})
	}
}

// Nothing listens at the address. Behind a proxy, the check does not connect to it.
func TestCheckTLS_Proxy_IsLeftToTheNextStep(t *testing.T) {
	t.Parallel()
	d := &doctor{visit: visit{
		base: &url.URL{Scheme: "https", Host: "service.example"}, address: "127.0.0.1:1",
		proxy: &url.URL{Scheme: "http", Host: "127.0.0.1:1"},
	}}
	got := d.checkTLS(t.Context())
	assert.Equal(t, good, got.State)
	assert.Equal(t, "not checked separately: the next step connects through the proxy", got.Detail)
}

// A proxy that NO_PROXY excludes can be read, so it is not reported.
func TestUnreadableProxy_URLWithoutHost_IsUnreadable(t *testing.T) {
	t.Setenv("https_proxy", "")
	for text, want := range map[string]bool{
		"": false, "http://proxy.example:3128": false, "proxy.example": false, "http://": true, ":3128": true,
		"::nonsense::": true,
	} {
		t.Setenv("HTTPS_PROXY", text)
		assert.Equal(t, want, unreadableProxy("https"), text)
	}
}

func TestResponds_SlowService_IsDoubtful(t *testing.T) {
	t.Parallel()
	assert.Equal(t, good, responds("service.example", time.Second).State)
	slow := responds("service.example", 7*time.Second+30*time.Millisecond)
	assert.Equal(t, doubtful, slow.State)
	assert.Contains(t, slow.Detail, "needs 7s for")
}

func TestCertified_EndIsNear_IsDoubtful(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for left, want := range map[time.Duration]check{
		day + time.Hour: {
			State: doubtful, Detail: "the certificate of service.example expires in 1 day",
			Remedy: "tell whoever runs the service",
		},
		14*day - time.Second: {
			State: doubtful, Detail: "the certificate of service.example expires in 13 days",
			Remedy: "tell whoever runs the service",
		},
		14 * day: {State: good, Detail: "certificate of service.example, 14 days left"},
	} {
		assert.Equal(t, want, certified("service.example", left))
	}
}

// A check that gets no response ends, so that the checks after it are made.
func TestStep_EachCheck_HasADeadline(t *testing.T) {
	t.Parallel()
	env, _ := newEnv(nil)
	d := &doctor{doctorOptions: &doctorOptions{Env: env}, broken: map[string]bool{}}
	d.step(t.Context(), "tcp", nil, func(ctx context.Context) check {
		end, bounded := ctx.Deadline()
		assert.True(t, bounded)
		assert.LessOrEqual(t, time.Until(end), checkLimit)
		return check{State: good}
	})
	assert.Len(t, d.checks, 1)
}

// The service sent its time while the response was on its way, so a slow response does not make a clock wrong.
func TestCheckClock_SlowResponse_IsNoDifference(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	for ahead, want := range map[time.Duration]string{10 * time.Second: good, 50 * time.Second: doubtful} {
		d := &doctor{visit: visit{begun: at, took: 20 * time.Second, response: clinicaldoc.Response{}}}
		d.response.Header = http.Header{"Date": {at.Add(ahead).Format(http.TimeFormat)}}
		assert.Equal(t, want, d.checkClock(t.Context()).State, ahead)
	}
	d := &doctor{visit: visit{begun: at, took: 40 * time.Second, response: clinicaldoc.Response{}}}
	d.response.Header = http.Header{"Date": {at.Add(20 * time.Second).Format(http.TimeFormat)}}
	assert.Equal(t, "within 1s of the service's", d.checkClock(t.Context()).Detail)
}

// A host name may have several addresses. One that refuses connections costs no time, and a silent one delays every
// program by seconds.
func TestConnected_SilentAddress_IsDoubtful(t *testing.T) {
	t.Parallel()
	refused, silent := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
	for _, one := range []struct {
		state, detail string
		errs          []error
	}{
		{good, "connected to service.example:443 in 3 ms", []error{nil}},
		{good, "connected to service.example:443 in 3 ms", []error{refused, nil}},
		{doubtful, "1 of the 2 addresses of service.example:443 is silent", []error{silent, nil}},
		{bad, "no connection to service.example:443", []error{silent, refused}},
	} {
		got := connected("service.example:443", 3*time.Millisecond, one.errs)
		assert.Equal(t, one.state, got.State)
		assert.Equal(t, one.detail, got.Detail)
		assert.Equal(t, one.state != good, got.Remedy != "")
	}
}

// Notes that may have been left behind are told, also if it is not known which.
func TestTellLeft_EachCount_IsTold(t *testing.T) {
	t.Parallel()
	for want, report := range map[string]gaps.Report{
		"": {},
		"not be deleted: [5], and perhaps 0 more": {LeftBehind: []int64{5}},
		"not be deleted: [], and perhaps 1 more":  {Uncertain: 1},
	} {
		env, shown := newEnv(nil)
		d := &doctor{doctorOptions: &doctorOptions{Env: env}, broken: map[string]bool{}}
		d.tellLeft(t.Context(), &report)
		assert.Contains(t, shown.out.String(), want)
		assert.Equal(t, want == "", shown.out.String() == "")
	}
}

// The exit code depends on whether a check is bad.
func TestCheckToken_EachResponse_HasItsState(t *testing.T) {
	t.Parallel()
	base := &url.URL{Scheme: "https", Host: "service.example"}
	for state, errs := range map[string][]error{
		good: {nil}, bad: {clinicaldoc.ErrUnauthorized, clinicaldoc.ErrForbidden}, doubtful: {clinicaldoc.ErrRateLimited},
	} {
		for _, err := range errs {
			d := &doctor{visit: visit{base: base, meErr: err}}
			assert.Equal(t, state, d.checkToken(t.Context()).State, err)
		}
	}
}
