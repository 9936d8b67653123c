// Package clinicaldoctest is the clinical documentation service in a box: a
// stateful stand-in for the tests of programs that use the SDK, as
// net/http/httptest is for net/http.
//
//	srv := clinicaldoctest.NewServer()
//	defer srv.Close()
//	client := srv.Client()
//
// The box has all ten endpoints, takes a note through its whole life and
// serves its audio from signed, expiring addresses on a second origin. A test
// seeds it ([Server.AddUser], [Server.AddPatient], [Server.AddNote]), moves its
// clock ([Server.Advance]) and scripts what processing will say
// ([Server.ScriptNext]).
//
// What goes wrong on the way is a [Fault], injected per route and as often as
// the test says:
//
//	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(504, "").CommitAfter(95*time.Second))
//	srv.Inject("", clinicaldoctest.Delay(time.Second).Rate(0.05))
//
// What really happened can be asked for: what the server holds
// ([Server.Notes]), what it was asked ([Server.Requests]), and which request
// made which note, whatever its client was told ([Server.Created]). "No
// recording lost, none twice" is one assertion:
//
//	require.NoError(t, srv.CreatedOnce(recordings...))
//
// What the service's description leaves open is a field of [Variant]; the zero
// Variant is the likeliest reading. [Variants] lists named combinations that
// together use every switch: a program that passes its tests on all of them
// does not depend on a guess.
//
// Inside a testing/synctest bubble, start the box with [InProcess]: it then
// speaks HTTP over in-memory pipes, which let the bubble's time pass.
package clinicaldoctest
