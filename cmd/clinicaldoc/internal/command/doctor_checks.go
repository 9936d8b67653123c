package command

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

// visit is what the checks hand on to each other.
type visit struct {
	sdk      *clinicaldoc.Client
	base     *url.URL
	proxy    *url.URL
	address  string   // of the proxy or the service
	found    []string // what its name leads to
	meErr    error
	response clinicaldoc.Response
	begun    time.Time
	took     time.Duration
}

func (d *doctor) all(ctx context.Context) {
	d.step(ctx, "settings", nil, d.checkSettings)
	d.step(ctx, "proxy", []string{"settings"}, d.checkProxy)
	d.step(ctx, "dns", []string{"settings"}, d.checkDNS)
	d.step(ctx, "tcp", []string{"dns"}, d.checkTCP)
	d.step(ctx, "tls", []string{"tcp"}, d.checkTLS)
	d.step(ctx, "base-path", []string{"tls"}, d.checkBasePath)
	d.step(ctx, "clock", []string{"base-path"}, d.checkClock)
	d.step(ctx, "token", []string{"base-path"}, d.checkToken)
	d.step(ctx, "list", []string{"token"}, d.checkList)
}

func (d *doctor) checkSettings(context.Context) check {
	a, err := d.account()
	if err != nil {
		return found(bad, kindOf(err).do, "%s", errorText(err))
	}
	client, err := d.client(clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{}))
	if err != nil {
		return found(bad, "clinicaldoc login URL", "%s", errorText(err))
	}
	base, err := url.Parse(client.BaseURL())
	if err != nil {
		return found(bad, "clinicaldoc login URL", "the base URL cannot be read")
	}
	d.sdk, d.base = client, base
	port := base.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[base.Scheme]
	}
	d.address = net.JoinHostPort(base.Hostname(), port)
	return found(good, "", "%s, base URL from %s, token from %s", base.Host, a.URLFrom, strings.Fields(a.TokenFrom)[0])
}

func (d *doctor) checkProxy(context.Context) check {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: d.base})
	switch {
	case err != nil, proxy == nil && unreadableProxy(d.base.Scheme):
		return found(
			bad, "correct HTTPS_PROXY or HTTP_PROXY, such as http://proxy.example:3128, or unset it",
			"the proxy's URL cannot be read",
		)
	case proxy == nil:
		return found(good, "", "none")
	}
	d.proxy = proxy
	port := proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080"}[proxy.Scheme]
	}
	d.address = net.JoinHostPort(proxy.Hostname(), port)
	return found(good, "", "through %s", proxy.Host)
}

// unreadableProxy reports whether a proxy is set that no program can read, and that is passed over in silence.
func unreadableProxy(scheme string) bool {
	text := firstSet(strings.ToUpper(scheme)+"_PROXY", scheme+"_proxy")
	if text == "" {
		return false
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	return err != nil || u.Hostname() == ""
}

func (d *doctor) checkDNS(ctx context.Context) check {
	host, _, err := net.SplitHostPort(d.address)
	if err != nil {
		return found(bad, "clinicaldoc login URL", "the address cannot be read")
	}
	if d.found, err = net.DefaultResolver.LookupHost(ctx, host); err != nil {
		return found(bad, "check the name, and whether this machine is online", "%s has no address", host)
	}
	return found(good, "", "%s has %s", host, output.Count(len(d.found), "address", "addresses"))
}

// silentOf is how many addresses of a host are silent, with the verb for it.
func silentOf(silent, all int, name string) string {
	verb := "are"
	if silent == 1 {
		verb = "is"
	}
	return fmt.Sprintf("%d of the %d addresses of %s %s", silent, all, name, verb)
}

// checkTCP tries each address of the name by itself: a silent one among them holds every program up before it tries
// the next.
func (d *doctor) checkTCP(ctx context.Context) check {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	_, port, _ := net.SplitHostPort(d.address)
	begun, errs := time.Now(), make([]error, len(d.found))
	var dials sync.WaitGroup
	for i, address := range d.found {
		dials.Go(func() {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(address, port))
			if errs[i] = err; err == nil {
				_ = conn.Close()
			}
		})
	}
	dials.Wait()
	return connected(d.address, time.Since(begun), errs)
}

// connected tells what came of a connection to each address of a name.
func connected(name string, took time.Duration, errs []error) check {
	some, silent := false, 0
	for _, err := range errs {
		some = some || err == nil
		if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			silent++
		}
	}
	switch {
	case !some:
		return found(bad, "check that the service is running, the port, and firewalls", "no connection to %s", name)
	case silent > 0:
		return found(doubtful, "tell whoever runs the service: programs wait for seconds before they try the next "+
			"address",
			"%s silent", silentOf(silent, len(errs), name))
	}
	return found(good, "", "connected to %s in %d ms", name, took.Milliseconds())
}

func (d *doctor) checkTLS(ctx context.Context) check {
	switch {
	case d.base.Scheme != "https" && exchange.Loopback(d.base):
		return found(good, "", "none, on this machine")
	case d.base.Scheme != "https":
		return found(doubtful, "use https: without it, the network can read the token and patients' data", "none")
	case d.proxy != nil:
		return found(good, "", "not checked separately: the next step connects through the proxy")
	}
	conn, err := (&tls.Dialer{}).DialContext(ctx, "tcp", d.address)
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain {
		return found(
			bad, "check the port; for a service on this machine, use http:// instead of https://", "%s", tlsReason(err),
		)
	}
	if err != nil {
		return found(
			bad, "check the clock, the host, and whether this system trusts the certificate's authority", "%s",
			tlsReason(err),
		)
	}
	defer func() { _ = conn.Close() }()
	state := conn.(*tls.Conn).ConnectionState() //nolint:errcheck,forcetypeassert // that is what tls.Dialer returns
	return certified(d.base.Host, time.Until(state.PeerCertificates[0].NotAfter))
}

// expiresSoon is the time before its end from which on a certificate should have been renewed.
const expiresSoon = 14 * 24 * time.Hour

// certified is the result for a certificate that is trusted.
func certified(host string, left time.Duration) check {
	days := output.Count(int(left.Hours()/24), "day", "days")
	if left < expiresSoon {
		return found(
			doubtful, "tell whoever runs the service", "the certificate of %s expires in %s", host, days,
		)
	}
	return found(good, "", "certificate of %s, %s left", host, days)
}

func tlsReason(err error) string {
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the certificate is not trusted: " + e.Err.Error()
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the server does not speak TLS"
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" {
		return "the TLS handshake was refused: " + e.Err.Error()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return "the TLS handshake did not end in time"
	}
	return "the connection ended during the TLS handshake"
}

// checkBasePath makes the one request that the checks after it look at, too.
func (d *doctor) checkBasePath(ctx context.Context) check {
	d.begun = time.Now()
	_, d.meErr = d.sdk.Users.Me(ctx, clinicaldoc.WithResponse(&d.response))
	d.took = time.Since(d.begun)
	below := d.base.Host + d.base.Path
	switch {
	case d.meErr == nil, errors.Is(d.meErr, clinicaldoc.ErrUnauthorized), errors.Is(d.meErr, clinicaldoc.ErrForbidden):
		return responds(below, d.took)
	case d.base.Scheme == "http" && d.proxy == nil && d.speaksTLS(ctx):
		return found(
			bad, "clinicaldoc login https://"+below, "the server speaks TLS, but the base URL begins with http://",
		)
	case errors.Is(d.meErr, clinicaldoc.ErrNotFound), errors.Is(d.meErr, clinicaldoc.ErrUnexpectedResponse):
		remedy := "ask whoever runs the service for its base URL"
		if other := d.otherBase(ctx); other != "" {
			remedy = "clinicaldoc login " + other
		}
		return found(bad, remedy, "%s", d.notTheService(below))
	case errors.Is(d.meErr, clinicaldoc.ErrRateLimited):
		return found(doubtful, "wait a minute, and run the command again", "the service limits requests (429)")
	case errors.Is(d.meErr, clinicaldoc.ErrServer):
		return found(bad, "the service fails: run the command again later, or tell whoever runs it", "%s", d.meErr)
	}
	return found(bad, "run the command again later", "%s", d.meErr)
}

// maxWait is how long a small request may take.
const maxWait = 3 * time.Second

func responds(below string, took time.Duration) check {
	if took > maxWait {
		return found(
			doubtful, "tell whoever runs the service, or the network",
			"the service responds below %s, but needs %s for a small request", below, took.Round(100*time.Millisecond),
		)
	}
	return found(good, "", "the service responds below %s", below)
}

// speaksTLS reports whether something responds to TLS there. Nothing is sent over it.
func (d *doctor) speaksTLS(ctx context.Context) bool {
	conn, err := (&tls.Dialer{}).DialContext(ctx, "tcp", d.address)
	if err == nil {
		_ = conn.Close()
	}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return err == nil || untrusted
}

// notTheService says what responds instead, as far as that can be told.
func (d *doctor) notTheService(below string) string {
	to, err := url.Parse(d.response.Header.Get("Location"))
	kind, _, _ := mime.ParseMediaType(d.response.Header.Get("Content-Type"))
	switch code := d.response.StatusCode; {
	case code >= 300 && code < 400 && err == nil && to.Host != "" && to.Host != d.base.Host:
		return fmt.Sprintf(
			"%s redirects to another host, %s, which does not receive the token (%d)", below, to.Host, code,
		)
	case code >= 300 && code < 400:
		return fmt.Sprintf("%s redirects to another page on the same host, such as a login page (%d)", below, code)
	case kind == "text/html" && code < 300:
		return "a web page responds below " + below + ", such as a login page, and not the service"
	}
	return "what responds below " + below + " is not the service"
}

// otherBase looks, without the token, for a base path at which the service asks for one.
func (d *doctor) otherBase(ctx context.Context) string {
	plain := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, path := range []string{"", "/api"} {
		if path == strings.TrimRight(d.base.Path, "/") {
			continue
		}
		other := url.URL{Scheme: d.base.Scheme, Host: d.base.Host, Path: path}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, other.String()+"/user", http.NoBody)
		if err != nil {
			return ""
		}
		request.Header.Set("Accept", "application/json")
		response, err := plain.Do(request)
		if err != nil {
			return ""
		}
		_, _ = io.CopyN(io.Discard, response.Body, 4096)
		_ = response.Body.Close()
		if response.StatusCode == http.StatusUnauthorized {
			return other.String()
		}
	}
	return ""
}

// maxSkew is how far two clocks may be apart.
const maxSkew = 30 * time.Second

func (d *doctor) checkClock(context.Context) check {
	date, err := http.ParseTime(d.response.Header.Get("Date"))
	if err != nil {
		return found(doubtful, "", "the service does not send its time")
	}
	skew := d.begun.Add(d.took / 2).Sub(date.Add(500 * time.Millisecond)).Round(time.Second)
	if skew.Abs() > maxSkew {
		return found(
			doubtful, "set this machine's clock, or tell whoever runs the service",
			"this machine's clock and the service's are %s apart", skew.Abs(),
		)
	}
	return found(good, "", "within %s of the service's", max(skew.Abs(), time.Second))
}

func (d *doctor) checkToken(context.Context) check {
	switch {
	case d.meErr == nil:
		return found(good, "", "accepted")
	case errors.Is(d.meErr, clinicaldoc.ErrUnauthorized):
		return found(bad, "clinicaldoc login "+d.base.Scheme+"://"+d.base.Host+d.base.Path, "refused (401)")
	case errors.Is(d.meErr, clinicaldoc.ErrForbidden):
		return found(bad, "ask whoever gave you the token", "known, but not allowed (403)")
	}
	return found(doubtful, "run the command again later", "cannot tell")
}

func (d *doctor) checkList(ctx context.Context) check {
	page, err := d.sdk.Notes.List(ctx, clinicaldoc.ListNotesParams{PerPage: 1, Sort: clinicaldoc.SortLatest})
	switch {
	case err != nil:
		return found(bad, kindOf(err).do, "%s", errorText(err))
	case page.Meta.PerPageIgnored:
		return found(
			doubtful, "clinicaldoc doctor --gaps --patient ID --prompt ID finds the right name",
			"the service ignores the requested page size",
		)
	case len(page.Items) == 0:
		return found(good, "", "empty")
	}
	return found(good, "", "%d note on a page of one", len(page.Items))
}
