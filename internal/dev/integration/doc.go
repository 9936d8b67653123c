// Package integration holds the integration suite: every endpoint of the service, end to end, and the gap report.
//
// It runs on the fake server, in all its variants:
//
//	go test -C internal/dev ./integration
//
// With these variables it runs against that address instead, a developer proxy or a real account. The first one
// confirms the intent. A shell may have the others for another program, and go test ./... must not write to that
// program's service.
//
//	export CLINICALDOC_INTEGRATION=1 CLINICALDOC_BASE_URL=http://127.0.0.1:8790 CLINICALDOC_TOKEN=...
//	go test -C internal/dev ./integration -run 'TestIntegration|TestGapReport' -v
//
// It then creates plainly synthetic notes and deletes them again, also when a test fails. Other notes are never changed,
// and no token is revoked. The query names are found out first, so that none need be configured. Where processing takes
// minutes, give go test a -timeout of an hour. More variables for such an address:
//
//	CLINICALDOC_PATIENT_ID  the patient to whom the notes belong, better a made-up one; default 1
//	CLINICALDOC_PROMPT_ID   the prompt to use; default 1
//	CLINICALDOC_AUDIO_FILE  a recording that the service can transcribe; default: a second of a tone,
//	                        or less of it where the service takes no more
//	CLINICALDOC_SKIP_SIGN   set to 1 to sign nothing. By default one note is signed, and a service that refuses to delete
//	                        signed notes keeps it: the report then says so
//
// The flags come after -args:
//
//	-wait 5m          how long the processing of one note may take
//	-json FILE        write the gap report as JSON too
//	-html FILE        write it as one page too, to be kept beside a contract with the service
//	-against FILE     fail where the service does otherwise than in that report, an earlier one written with -json
//
// The gap report says what the service was seen to do where its description is silent, and which WithQueryNames to set.
// It stands at the end of the output with -v:
//
//	go test -C internal/dev ./integration -run TestGapReport -v -args -json=gaps.json
//
// A proxy in front of a service may limit requests too. Ask for 429 where it does: nginx's limit_req responds with 503 unless
// limit_req_status says otherwise, and after a 503 a create may have happened, so that nobody retries it.
package integration
