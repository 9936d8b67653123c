package faultmatrix

import (
	"github.com/clinicaldoc/clinicaldoc-go"
)

// answers are successes that are not what was promised.
func answers() []fault {
	nothing := safeToRepeat(fails(1, clinicaldoc.ErrUnexpectedResponse), unknown(1, clinicaldoc.ErrUnexpectedResponse))
	// For a deletion the status says what matters; for Do any JSON is an answer.
	believed := nothing.with(succeeds(1).lying(), "Delete", "Revoke")
	json := believed.with(succeeds(1).lying(), "DoGET", "DoPOST")
	// The page before it told of more rows than came: the list is walked through once more.
	walked := json.with(succeeds(3), "All")
	list := walked.with(succeeds(1).lying(), "List", "Tokens")
	other := promises{}.with(fails(1, clinicaldoc.ErrUnexpectedResponse), "Get").with(unknown(1, clinicaldoc.ErrUnexpectedResponse), "Update", "Sign")
	return []fault{
		{name: "200 in HTML", strike: says(200, "<!DOCTYPE html><html>"+canary+"</html>", "Content-Type", "text/html"), promises: nothing},
		{name: "200 in HTML called JSON", strike: says(200, "<!DOCTYPE html><html>"+canary+"</html>"), promises: nothing},
		{name: "200 in HTML called audio", strike: says(200, "<!DOCTYPE html><html>"+canary+"</html>", "Content-Type", "audio/wav"), promises: nothing},
		{name: "200 without a body", strike: says(200, ""), promises: believed},
		{name: "204", strike: says(204, ""), promises: believed},
		{name: "202 without a body", strike: says(202, ""), promises: believed},
		{name: "200 with white space", strike: says(200, " \r\n"), promises: believed},
		{name: "200 with null", strike: says(200, "null"), promises: json},
		{name: "200 with {}", strike: says(200, "{}"), promises: json},
		{name: "200 with []", strike: says(200, "[]"), promises: list},
		{name: "200 with a text", strike: says(200, `"`+canary+`"`), promises: json},
		{name: "200 with id 0", strike: says(200, `{"id":0,"name":"`+canary+`"}`), promises: json},
		{name: "200 with data null", strike: says(200, `{"data":null}`), promises: walked.with(succeeds(1).lying(), "List")},
		{name: "200 with half a document", strike: says(200, `{"id":1,"name":"`+canary), promises: nothing},
		{name: "200 with another record", strike: says(200, `{"id":4711,"name":"`+canary+`"}`), promises: other},
	}
}
