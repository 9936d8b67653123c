package faultmatrix

import (
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// links are addresses within answers that lead away.
func links() []fault {
	// Every page tells the next one's address at another origin; only what it says about the place in the list is used.
	listed := promises{}.with(succeeds(1), "List", "All")
	away := func(p clinicaldoctest.Pagination, change func(string) string) func(string) clinicaldoctest.Variant {
		return func(elsewhere string) clinicaldoctest.Variant {
			return clinicaldoctest.Variant{Pagination: p, LinkOrigin: change(elsewhere)}
		}
	}
	same := func(url string) string { return url }
	host := func(url string) string { return strings.Replace(url, "127.0.0.1", canary+".test", 1) }
	password := func(url string) string { return strings.Replace(url, "://", "://"+canary+":"+canary+"@", 1) }
	rows := []fault{
		{name: "next link to another port", setting: setting{variant: away(clinicaldoctest.PaginationCursorInLinks, same)}, promises: listed},
		{name: "next link to another host", setting: setting{variant: away(clinicaldoctest.PaginationSimple, host)}, promises: listed},
		{name: "next link with a password", setting: setting{variant: away(clinicaldoctest.PaginationCursor, password)}, promises: listed},
		{name: "next link down to http", setting: setting{secure: true, variant: away(clinicaldoctest.PaginationFlat, same)}, promises: listed},
	}
	// The address itself is the caller's to judge; the download asks it without the token, or not at all.
	fetched := promises{}.with(succeeds(1), "AudioURL").with(succeeds(1).wire(0, 0), "Download")
	spurned := promises{}.with(succeeds(1), "AudioURL").with(fails(0, clinicaldoc.ErrUnexpectedResponse).wire(0, 0), "Download")
	unusable := promises{}.with(fails(1, clinicaldoc.ErrUnexpectedResponse), "AudioURL").with(fails(0, clinicaldoc.ErrUnexpectedResponse).wire(0, 0), "Download")
	at := func(change func(*world) string) func(*world, string) string {
		return func(w *world, body string) string { return strings.ReplaceAll(body, w.box.StorageURL, change(w)) }
	}
	return append(rows,
		fault{name: "audio at another port", elsewhere: true, audio: at(func(w *world) string { return w.elsewhere.url }), promises: fetched},
		fault{name: "audio at the token's own origin", audio: at(func(w *world) string { return w.home.url }), promises: fetched},
		fault{name: "audio at another host in plain http", audio: at(func(w *world) string { return host(w.elsewhere.url) }), promises: spurned},
		fault{name: "audio down to http", setting: setting{secure: true}, audio: at(func(w *world) string { return w.elsewhere.url }), promises: spurned},
		fault{name: "audio with a password", audio: at(func(w *world) string { return password(w.storage.url) }), promises: spurned},
		fault{name: "audio in a local file", audio: at(func(*world) string { return "file://" + canary }), promises: unusable},
		fault{name: "audio without an address", audio: func(*world, string) string { return `{"url":""}` }, promises: unusable},
	)
}
