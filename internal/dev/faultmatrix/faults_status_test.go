package faultmatrix

import (
	"fmt"
	"net/http"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
)

const refusal = `{"message":"` + canary + ` message","errors":{"name":["` + canary + ` reason"]}}`

// statuses are answers that are no success, with all that servers say of when to come back.
func statuses() []fault {
	var rows []fault
	for _, status := range []int{
		http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	} {
		rows = append(rows, transient(status)...)
	}
	return append(append(rows, whims()...), final()...)
}

// afterOne is what creates come to when an answer does not let them be repeated.
func afterOne(status int) promise {
	switch {
	case status >= 500:
		return unknown(1, clinicaldoc.ErrServer).withStatus(status)
	case status == http.StatusRequestTimeout:
		return unknown(1).withStatus(status)
	}
	return fails(1).withStatus(status)
}

// transient are answers that pass by themselves.
func transient(status int) []fault {
	again := safeToRepeat(succeeds(2), afterOne(status))
	atOnce := safeToRepeat(fails(1).withStatus(status), afterOne(status))
	lasting := safeToRepeat(fails(4).withStatus(status), afterOne(status))
	if status == http.StatusTooManyRequests {
		again, atOnce = everywhere(succeeds(2)), everywhere(fails(1, clinicaldoc.ErrRateLimited).withStatus(status))
		lasting = everywhere(fails(4, clinicaldoc.ErrRateLimited).withStatus(status))
	}
	// As long as a header can say, and the SDK must wait.
	waiting := setting{policy: clinicaldoc.RetryPolicy{MaxRetries: 3, MinWait: time.Millisecond, MaxWait: time.Second}, asked: time.Second}
	rows := []fault{
		{name: fmt.Sprintf("%d", status), strike: says(status, refusal), promises: again},
		{name: fmt.Sprintf("%d, Retry-After sane", status), strike: says(status, refusal, "Retry-After", "1"), promises: again, setting: waiting},
		{name: fmt.Sprintf("%d, Retry-After absurd", status), strike: says(status, refusal, "Retry-After", "9300000000"), promises: atOnce},
		{name: fmt.Sprintf("%d for ever", status), strike: says(status, refusal), times: forEver, promises: lasting},
	}
	if status != http.StatusTooManyRequests {
		rows = append(rows, fault{
			name: fmt.Sprintf("%d, carried out", status), commits: true, promises: seenToBeDone(again),
			strike: func(s *strike) { s.carryOut(); says(status, refusal)(s) },
		})
	}
	return rows
}

// whims are the odd forms of such answers.
func whims() []fault {
	limited := everywhere(succeeds(2))
	unavailable := safeToRepeat(succeeds(2), afterOne(http.StatusServiceUnavailable))
	tooLong := everywhere(fails(1, clinicaldoc.ErrRateLimited))
	return []fault{
		{name: "429, Retry-After in words", strike: says(429, refusal, "Retry-After", "soon"), promises: limited},
		{name: "429, Retry-After negative", strike: says(429, refusal, "Retry-After", "-1"), promises: limited},
		{name: "429, Retry-After zero for ever", strike: says(429, refusal, "Retry-After", "0"), times: forEver, promises: everywhere(fails(4, clinicaldoc.ErrRateLimited))},
		{name: "429, Retry-After an hour", strike: says(429, refusal, "Retry-After", "3600"), promises: tooLong},
		{name: "429, Retry-After a far date", strike: says(429, refusal, "Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"), promises: tooLong},
		{name: "503, Retry-After a past date", strike: says(503, refusal, "Retry-After", "Mon, 02 Jan 2006 15:04:05 GMT"), promises: unavailable},
		{name: "502 in HTML", strike: says(502, "<html>"+canary+"</html>", "Content-Type", "text/html"), promises: safeToRepeat(succeeds(2), afterOne(502))},
		{name: "503 without a body", strike: says(503, ""), promises: unavailable},
		{name: "500 with null", strike: says(500, "null"), promises: safeToRepeat(succeeds(2), afterOne(500))},
	}
}

// final are answers that will not change.
func final() []fault {
	var rows []fault
	sentinels := map[int][]error{
		401: {clinicaldoc.ErrUnauthorized}, 403: {clinicaldoc.ErrForbidden}, 404: {clinicaldoc.ErrNotFound}, 409: {clinicaldoc.ErrConflict},
		413: {clinicaldoc.ErrTooLarge}, 422: {clinicaldoc.ErrValidation}, 501: {clinicaldoc.ErrServer}, 505: {clinicaldoc.ErrServer},
	}
	for _, status := range []int{400, 401, 403, 404, 405, 409, 413, 422, 501, 505} {
		kinds := sentinels[status]
		told := safeToRepeat(fails(1, kinds...).withStatus(status), afterOne(status))
		switch status {
		case 400, 401, 403, 404:
			told.storage = fails(2, kinds...).withStatus(status) // the address may have expired: a fresh one is tried
		}
		rows = append(rows, fault{name: fmt.Sprintf("%d for good", status), strike: says(status, refusal), times: forEver, promises: told})
	}
	return rows
}
