package clinicaldoctest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	audioPath  = "/audio/"
	amzTime    = "20060102T150405Z"
	credential = "SYNTHETIC/test/s3/aws4_request"
)

// signedURL returns a temporary address for a recording, in the form of S3 or
// of the application's own disk.
func (s *state) signedURL(key string, now time.Time) string {
	path := audioPath + key
	if s.variant().LocalDisk {
		expires := strconv.FormatInt(now.Add(s.variant().AudioURLLifetime).Unix(), 10)
		query := url.Values{"expires": {expires}, "signature": {s.signature(path, expires)}}
		return s.srv.URL + path + "?" + query.Encode()
	}
	date := now.UTC().Format(amzTime)
	lifetime := strconv.FormatInt(int64(s.variant().AudioURLLifetime/time.Second), 10)
	query := url.Values{
		"X-Amz-Algorithm":     {"AWS4-HMAC-SHA256"},
		"X-Amz-Credential":    {credential},
		"X-Amz-Date":          {date},
		"X-Amz-Expires":       {lifetime},
		"X-Amz-SignedHeaders": {"host"},
		"X-Amz-Signature":     {s.signature(path, credential, date, lifetime)},
	}
	return s.srv.StorageURL + path + "?" + query.Encode()
}

func (s *state) signature(parts ...string) string {
	mac := hmac.New(sha256.New, s.srv.signingKey)
	mac.Write([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(mac.Sum(nil))
}

func (s *state) validSignature(given string, parts ...string) bool {
	return hmac.Equal([]byte(given), []byte(s.signature(parts...)))
}

// serveStorage is the storage origin's handler. It refuses what S3 refuses.
func (s *state) serveStorage(w http.ResponseWriter, r *http.Request) {
	s.record(w, r, RouteAudio, func(w http.ResponseWriter, r *http.Request) {
		s.withFaults(RouteAudio, w, r, nil, func(w http.ResponseWriter, r *http.Request) {
			if refusal := s.refuseStorage(r); refusal != nil {
				refusal.write(w)
				return
			}
			file, a, found := s.openAudio(strings.TrimPrefix(r.URL.Path, audioPath))
			if !found {
				storageRefusal{http.StatusNotFound, "NoSuchKey", "The specified key does not exist."}.write(w)
				return
			}
			defer closeRead(file)
			w.Header().Set("Content-Type", a.contentType)
			w.Header().Set("ETag", strconv.Quote(a.sha256[:32])) // as long as S3's, which is an MD5
			http.ServeContent(&rangeRefuser{ResponseWriter: w}, r, "", a.uploadedAt, file)
		})
	})
}

// refuseStorage checks a request as S3 checks one with a signed query. Expiry
// is looked at here only: a download that has begun runs to its end.
func (s *state) refuseStorage(r *http.Request) *storageRefusal {
	query := r.URL.Query()
	date := query.Get("X-Amz-Date")
	lifetime := query.Get("X-Amz-Expires")
	signature := query.Get("X-Amz-Signature")
	switch {
	case r.Header.Get("Authorization") != "" && query.Has("X-Amz-Signature"):
		return &storageRefusal{
			http.StatusBadRequest, "InvalidArgument",
			"Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, " +
				"Signature query string parameter or the Authorization header should be specified",
		}
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return &storageRefusal{
			http.StatusMethodNotAllowed, "MethodNotAllowed",
			"The specified method is not allowed against this resource.",
		}
	case !query.Has("X-Amz-Signature"):
		return &storageRefusal{http.StatusForbidden, "AccessDenied", "Access Denied"}
	case r.Method != http.MethodGet, // the signature is for GET
		!s.validSignature(signature, r.URL.Path, query.Get("X-Amz-Credential"), date, lifetime):
		return &storageRefusal{
			http.StatusForbidden, "SignatureDoesNotMatch",
			"The request signature we calculated does not match the signature you provided.",
		}
	}
	signed, dateErr := time.Parse(amzTime, date)
	seconds, lifetimeErr := strconv.Atoi(lifetime)
	if dateErr != nil || lifetimeErr != nil || !s.now().Before(signed.Add(time.Duration(seconds)*time.Second)) {
		return &storageRefusal{http.StatusForbidden, "AccessDenied", "Request has expired"}
	}
	return nil
}

// storageRefusal is an error of the storage, in its XML.
type storageRefusal struct {
	status        int
	code, message string
}

func (e storageRefusal) write(w http.ResponseWriter) {
	body := fmt.Sprintf("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"+
		"<Error><Code>%s</Code><Message>%s</Message></Error>", e.code, e.message)
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(e.status)
	_, _ = w.Write([]byte(body))
}

// rangeRefuser says in the storage's words that there is no such range.
type rangeRefuser struct {
	http.ResponseWriter
	refused bool
}

func (w *rangeRefuser) WriteHeader(status int) {
	if status != http.StatusRequestedRangeNotSatisfiable {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.refused = true
	storageRefusal{status, "InvalidRange", "The requested range is not satisfiable"}.write(w.ResponseWriter)
}

func (w *rangeRefuser) Write(p []byte) (int, error) {
	if w.refused {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// serveLocalDisk serves audio from the API's own origin. It knows neither
// ranges nor tags and hides a bad or expired signature behind 404.
func (s *state) serveLocalDisk(w http.ResponseWriter, r *http.Request) {
	s.withFaults(RouteAudio, w, r, nil, func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, s.variant().BasePath)
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			writeAnswer(w, s.variant().wrongMethod(r.Method, path, []string{http.MethodGet, http.MethodHead}))
			return
		}
		query := r.URL.Query()
		expires, err := strconv.ParseInt(query.Get("expires"), 10, 64)
		isSigned := err == nil && s.validSignature(query.Get("signature"), path, query.Get("expires"))
		isExpired := !s.now().Before(time.Unix(expires, 0))
		notFound := answer{status: http.StatusNotFound, body: htmlPage("Not Found")}
		if !isSigned || isExpired {
			writeAnswer(w, notFound)
			return
		}
		file, a, found := s.openAudio(strings.TrimPrefix(path, audioPath))
		if !found {
			writeAnswer(w, notFound)
			return
		}
		defer closeRead(file)
		w.Header().Set("Content-Type", a.contentType)
		w.Header().Set("Content-Length", strconv.FormatInt(a.stored, 10))
		w.WriteHeader(http.StatusOK)
		if r.Method == http.MethodGet {
			_, _ = io.Copy(w, file) // a client that went away is no concern of the storage
		}
	})
}

// openAudio opens a recording that is still kept; the caller closes it.
func (s *state) openAudio(key string) (io.ReadSeekCloser, *audio, bool) {
	s.commitDue(s.now())
	a := s.findAudio(key)
	switch {
	case a == nil || !s.now().Before(a.expiresAt):
		return nil, nil, false
	case a.silent:
		return nopCloser{silence(a.size, a.stored)}, a, true
	case s.srv.dir == "": // recordings are kept in memory
		return nopCloser{bytes.NewReader(a.content)}, a, true
	}
	file, err := os.Open(s.srv.audioFile(a))
	return file, a, err == nil // an error means it was deleted meanwhile
}

// nopCloser is a recording that needs no Close, because it is not a file.
type nopCloser struct{ io.ReadSeeker }

func (nopCloser) Close() error { return nil }

// closeRead closes a file that was only read, which loses nothing.
func closeRead(file io.Closer) { file.Close() }
