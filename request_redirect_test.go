package clinicaldoc_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// witness is a server that notes what it was given.
type witness struct {
	*httptest.Server
	mu            sync.Mutex
	requests      []string
	authorization []string
	bodies        int
}

func newWitness(t *testing.T, secure bool, answer http.HandlerFunc) *witness {
	t.Helper()
	w := &witness{}
	handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		w.requests = append(w.requests, r.Method+" "+r.URL.Path)
		w.authorization = append(w.authorization, r.Header.Get("Authorization"))
		if len(body) > 0 {
			w.bodies++
		}
		w.mu.Unlock()
		answer(rw, r)
	})
	if secure {
		w.Server = httptest.NewTLSServer(handler)
	} else {
		w.Server = httptest.NewServer(handler)
	}
	t.Cleanup(w.Close)
	return w
}

// sockMethods is one call per method, each of which a redirect must not turn into something else.
var redirectMethods = map[string]func(*testing.T, *clinicaldoc.Client) error{
	http.MethodGet: func(t *testing.T, c *clinicaldoc.Client) error {
		_, err := c.Notes.Get(socketContext(t), 9)
		return err
	},
	http.MethodHead: func(t *testing.T, c *clinicaldoc.Client) error {
		return c.Do(socketContext(t), http.MethodHead, "/v1/progress-notes/9", nil, nil)
	},
	http.MethodPost: func(t *testing.T, c *clinicaldoc.Client) error {
		_, err := c.Notes.Create(socketContext(t), socketParams(64))
		return err
	},
	http.MethodPut: func(t *testing.T, c *clinicaldoc.Client) error {
		_, err := c.Notes.Update(socketContext(t), 9, clinicaldoc.UpdateNoteParams{Name: new("Synthetic")})
		return err
	},
	http.MethodPatch: func(t *testing.T, c *clinicaldoc.Client) error {
		return c.Do(socketContext(t), http.MethodPatch, "/v1/progress-notes/9", map[string]string{"name": "Synthetic"}, nil)
	},
	http.MethodDelete: func(t *testing.T, c *clinicaldoc.Client) error {
		_, err := c.Notes.Delete(socketContext(t), 9)
		return err
	},
	"GET with a body": func(t *testing.T, c *clinicaldoc.Client) error {
		return c.Do(socketContext(t), http.MethodGet, "/v1/progress-notes/9", map[string]string{"name": "Synthetic"}, nil)
	},
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	for method, call := range redirectMethods {
		for _, code := range []int{301, 302, 303, 307, 308} {
			for _, kind := range []string{"same origin", "relative", "other port", "other name", "downgrade", "user info", "user info, other host", "no location", "bad location", "opaque", "scheme-relative"} {
				t.Run(fmt.Sprintf("%s %d %s", method, code, kind), func(t *testing.T) {
					t.Parallel()
					checkRedirect(t, method, code, kind, call)
				})
			}
		}
	}
}

func checkRedirect(t *testing.T, method string, code int, kind string, call func(*testing.T, *clinicaldoc.Client) error) {
	t.Helper()
	foreign := newWitness(t, false, socketStatus(http.StatusOK, socketNote(9)))
	_, foreignPort, _ := strings.Cut(strings.TrimPrefix(foreign.URL, "http://"), ":")
	var location string
	home := newWitness(t, kind == "downgrade", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			socketStatus(http.StatusOK, socketNote(9))(w, r)
			return
		}
		if location != "" {
			w.Header().Set("Location", location)
		}
		w.WriteHeader(code)
	})
	followed := method == http.MethodGet || method == http.MethodHead
	switch kind {
	case "same origin":
		location = home.URL + "/moved"
	case "relative":
		location = "/moved"
	default:
		followed = false
	}
	switch kind {
	case "other port", "downgrade":
		location = foreign.URL + "/moved"
	case "other name":
		location = "http://localhost:" + foreignPort + "/moved"
	case "user info":
		location = strings.Replace(home.URL, "://", "://synthetic:secret@", 1) + "/moved"
	case "user info, other host":
		location = strings.Replace(home.URL, "://", "://"+strings.TrimPrefix(home.URL, "http://")+"@", 1)
		location = location[:strings.Index(location, "@")+1] + strings.TrimPrefix(foreign.URL, "http://") + "/moved"
	case "bad location":
		location = "http://[::1/%zz"
	case "opaque":
		location = "http:" + strings.TrimPrefix(foreign.URL, "http://") + "/moved"
	case "scheme-relative":
		location = strings.TrimPrefix(foreign.URL, "http:") + "/moved"
	}

	err := call(t, socketClient(t, home.URL, clinicaldoc.WithHTTPClient(home.Client())))
	if followed {
		require.NoError(t, err)
	} else {
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
		var answered *clinicaldoc.Error
		require.ErrorAs(t, err, &answered)
		assert.Equal(t, code, answered.StatusCode)
		assert.NotContains(t, err.Error(), "moved")
	}
	assert.Empty(t, foreign.requests, "the foreign origin was asked")
	want := 1
	if followed {
		want = 2
	}
	assert.Len(t, home.requests, want)
	assert.LessOrEqual(t, home.bodies, 1, "a body is never sent again")
	for _, authorization := range home.authorization {
		assert.Equal(t, "Bearer "+socketToken, authorization)
	}
}

func TestRedirectsAreBounded(t *testing.T) {
	t.Parallel()
	for hops, followed := range map[int]bool{5: true, 6: false} {
		t.Run(fmt.Sprint(hops), func(t *testing.T) {
			t.Parallel()
			left := hops
			home := newWitness(t, false, func(w http.ResponseWriter, r *http.Request) {
				if left == 0 {
					socketStatus(http.StatusOK, socketNote(9))(w, r)
					return
				}
				left--
				http.Redirect(w, r, fmt.Sprintf("/hop/%d", left), http.StatusFound)
			})
			_, err := socketClient(t, home.URL).Notes.Get(socketContext(t), 9)
			if followed {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
				assert.Contains(t, err.Error(), "redirects in a circle, or too often")
			}
			assert.Len(t, home.requests, 6)
		})
	}
}

func TestRedirectThatLeavesHalfway(t *testing.T) {
	t.Parallel()
	foreign := newWitness(t, false, socketStatus(http.StatusOK, socketNote(9)))
	home := newWitness(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			http.Redirect(w, r, foreign.URL+"/v1/progress-notes/9", http.StatusFound)
			return
		}
		http.Redirect(w, r, "/half", http.StatusFound)
	})
	_, err := socketClient(t, home.URL).Notes.Get(socketContext(t), 9)
	require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	assert.Empty(t, foreign.requests)
	assert.Len(t, home.requests, 2)
}
