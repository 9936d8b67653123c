// Package clinicaldoctest provides a fake server of the clinical documentation service for tests, as net/http/httptest
// does for net/http.
//
//	srv := clinicaldoctest.NewServer()
//	defer srv.Close()
//	client := srv.Client()
//
// The server has all endpoints and processes notes as time passes. It serves audio by signed, expiring URLs on a
// second origin. [Server.AddUser], [Server.AddPatient] and [Server.AddNote] add data. [Server.Advance] moves its
// clock, and [Server.ScriptNext] sets the result of processing.
//
// A [Fault] makes requests of a route fail, as often as the test wants:
//
//	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(504, "").CommitAfter(95*time.Second))
//	srv.Inject("", clinicaldoctest.Delay(time.Second).Rate(0.05))
//
// [Server.Notes] returns the notes that exist, and [Server.Requests] the requests that arrived. [Server.Created]
// reports which request created which note, whatever response the client got. One call checks that no recording was
// lost or became two notes:
//
//	require.NoError(t, srv.CreatedOnce(recordings...))
//
// A [Variant] has a field for each point that the service's description leaves open. Its zero value is the most likely
// reading. [Variants] lists named combinations that together use every switch. A program that passes its tests with
// all of them does not depend on one reading.
//
// In a testing/synctest bubble, start the server with [InProcess]. It then serves HTTP over in-memory pipes, which let
// the bubble's time pass.
package clinicaldoctest
