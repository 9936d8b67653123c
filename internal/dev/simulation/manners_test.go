package simulation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// manners are how a service may do what it does, beyond what the box has a switch for.
type manners struct {
	sizes    sizeKind
	shortens bool          // names
	local    time.Duration // how far local times that are given as if they were UTC are ahead
	strange  bool          // it knows the list's parameters by other names, and tells nothing of pages
	unnamed  bool          // notes name no patient
	flagless bool          // notes tell neither flags nor times of their processing
	resets   bool          // it tells, in milliseconds, when a limit is reset that is used up
	fails    bool          // some recordings cannot be analysed
	refuses  bool          // to sign what is signed
	gone     bool          // what was deleted is 410
	slowly   bool          // it takes minutes to transcribe and to analyse
	hides    bool          // its lists now and then leave out a row that they count
	blocks   bool          // its storage begins a part at the next of its blocks
	unsorted bool          // its lists come in an order of their own, whatever is asked for
	lists    time.Duration // the longest that a list takes
	uploads  time.Duration // the longest that an upload takes
	titles   bool          // it names notes itself once they are processed

	countsDeleted bool // its totals count notes that were deleted
}

// sizeKind is what the service tells of a recording's size.
type sizeKind int

const (
	told      sizeKind = iota
	reencoded          // that of what it made of it
	untold
)

func (w *design) drawManners(d *draws) {
	w.shortens, w.unnamed, w.flagless, w.resets = d.chance(0.1), d.chance(0.08), d.chance(0.06), d.chance(0.06)
	w.fails, w.refuses, w.gone = d.chance(0.15), d.chance(0.3), d.chance(0.3)
	if d.chance(0.08) {
		w.local, w.yesterday = pick(d, 2*time.Hour, -5*time.Hour), false // what was made hours ago looks like what was made since
	}
	w.ingest = w.ingest && !w.unnamed
	more := drawsAt(d.key, hashOf("more manners"))
	if w.unsorted = more.chance(0.08); w.unsorted {
		w.variant.Query.Sort, w.variant.OldestFirst = "order", more.chance(0.5)
	}
	w.lists, w.uploads = pick(more, 0, 0, 0, 0, 0, 40*time.Second), pick(more, 0, 0, 0, 0, 0, 15*time.Minute)
	switch d.below(8) {
	case 0:
		w.sizes = reencoded
	case 1: // nothing could tell the notes of two clients apart
		if w.focus != onLosses {
			w.sizes, w.shared, w.secondUser, w.restarts, w.ingest, w.dictates = untold, true, false, false, false, false
		}
	}
}

var (
	nameMember    = regexp.MustCompile(`"name":"(Zebra[^"]*)"`)
	timeMember    = regexp.MustCompile(`"(created_at|updated_at)":"[^"]{19}[^"]*"`)
	sizeMember    = regexp.MustCompile(`"size":(\d+)`)
	patientMember = regexp.MustCompile(`"patient":\{"id":\d+`)
	partMember    = regexp.MustCompile(`"template":\{[^}]*\}`)
	flagMembers   = regexp.MustCompile(`"has":\{[^}]*\},|"(analysis|transcription)_(started|completed)_at":("[^"]*"|null),`)
)

// refusal is what the service says on its own to a request that the box would accept; nil: nothing.
func (t *trip) refusal() *http.Response {
	r := t.request
	if r.id() != 0 && r.call.foreign { // users see their own notes alone
		return respond(http.StatusNotFound, "application/json", `{"message":"Resource not found"}`)
	}
	if r.lists() && r.call.foreign {
		return respond(http.StatusOK, "application/json", `{"data":[],"links":{},"meta":{"current_page":1,"last_page":1,"total":0}}`)
	}
	if t.world.design.refuses && r.method == http.MethodPut && r.signs() && t.world.service.look(r.id()).Stage == clinicaldoctest.StageSigned {
		return respond(http.StatusForbidden, "application/json", `{"message":"The transcription is complete and the note has been signed already."}`)
	}
	return nil
}

// misplace makes a storage of blocks begin the first part that a call asks for where it should not.
func (t *trip) misplace() {
	var at int
	r := t.request
	if _, err := fmt.Sscanf(r.header.Get("Range"), "bytes=%d-", &at); !t.world.design.blocks || !r.storage || err != nil || !r.call.misplaced() {
		return
	}
	r.header.Set("Range", fmt.Sprintf("bytes=%d-", at+16-at%16))
}

// hidden is a list without one of its rows, which it counts all the same.
func (t *trip) hidden(body []byte) []byte {
	var page map[string]json.RawMessage
	var rows []json.RawMessage
	if json.Unmarshal(body, &page) != nil || json.Unmarshal(page["data"], &rows) != nil || len(rows) == 0 {
		return body
	}
	at := t.extent % len(rows)
	page["data"], _ = json.Marshal(slices.Delete(rows, at, at+1))
	t.world.count("lists that leave out a row", 1)
	body, _ = json.Marshal(page)
	return body
}

// mannered gives a response the service's manners.
func (t *trip) mannered(resp *http.Response) *http.Response {
	w := t.world.design
	if w.gone && resp.StatusCode == http.StatusNotFound && t.request.method == http.MethodDelete {
		resp.StatusCode = http.StatusGone
	}
	if w.resets && !t.request.storage {
		resp.Header.Set("X-RateLimit-Limit", "60")
		resp.Header.Set("X-RateLimit-Remaining", "0")
		resp.Header.Set("X-RateLimit-Reset", strconv.FormatInt(time.Now().Add(w.clock+15*time.Second).UnixMilli(), 10))
	}
	address := t.request.addresses()
	hides := w.hides && t.request.lists() && t.request.call.op == "list" && t.extent%5 == 0 && time.Now().Before(t.world.calm)
	user := t.request.namesUser() && w.namesTenants()
	counts := w.countsDeleted && t.request.lists() && !t.request.call.foreign
	rewritten := address || hides || user || counts || !w.plain()
	if resp.StatusCode >= 300 || t.request.storage || !rewritten {
		return resp
	}
	body, _ := io.ReadAll(resp.Body)
	if hides {
		body = t.hidden(body)
	}
	if counts {
		body = t.withDeleted(body)
	}
	if user {
		body = t.asUser(body)
	}
	if address {
		body = bytes.ReplaceAll(body, []byte(t.world.service.primary.StorageURL), []byte(storageURL))
	}
	body = w.changed(body)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp
}

// plain reports whether notes are told as the box does.
func (w design) plain() bool {
	return w.sizes == told && !w.flagless && !w.shortens && w.local == 0
}

func (w design) changed(body []byte) []byte {
	switch w.sizes {
	case told:
	case reencoded:
		body = sizeMember.ReplaceAll(body, []byte(`"size":9$1`))
	case untold:
		body = sizeMember.ReplaceAll(body, []byte(`"size":null`))
	}
	if w.flagless {
		body = flagMembers.ReplaceAll(body, nil)
	}
	if w.shortens {
		body = nameMember.ReplaceAllFunc(body, func(member []byte) []byte {
			cut := len(`"name":"Zebra 1`)
			if bytes.Contains(member, []byte(uniqueMark)) { // then enough of it is left to know it by
				cut = len(`"name":"Zebra ` + uniqueMark + ` p1.`)
			}
			return append(bytes.Clone(member[:min(len(member)-1, cut)]), '"')
		})
	}
	if w.local != 0 {
		body = timeMember.ReplaceAllFunc(body, func(member []byte) []byte {
			name, value, _ := strings.Cut(string(member), `":"`)
			at, err := time.Parse("2006-01-02T15:04:05", strings.Replace(value[:19], " ", "T", 1))
			if err != nil {
				return member
			}
			return []byte(name + `":"` + at.Add(w.local).Format("2006-01-02 15:04:05") + `"`)
		})
	}
	return body
}

// cache is a proxy's, which keeps lists for some time, whatever a request says.
type cache map[string]cached

type cached struct {
	at   time.Time
	body []byte
}

// fromCache is the response that a proxy has kept, or the service's own, which it keeps from now on.
func (t *trip) fromCache(fetch func() *http.Response) *http.Response {
	s := t.world.service
	s.mu.Lock()
	kept, found := s.cache[t.request.query]
	s.mu.Unlock()
	age := time.Since(kept.at)
	if found && age < t.world.design.cached {
		resp := respond(http.StatusOK, "application/json", string(kept.body))
		if t.world.design.ageless {
			t.keptAt.Store(&kept.at)
		} else {
			resp.Header.Set("Age", strconv.Itoa(int(age/time.Second)))
		}
		t.world.count("lists from a cache", 1)
		return resp
	}
	resp := fetch()
	if resp.StatusCode == http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		resp.Body = io.NopCloser(bytes.NewReader(body))
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cache[t.request.query] = cached{time.Now(), body}
	}
	return resp
}
