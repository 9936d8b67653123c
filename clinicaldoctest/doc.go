// Package clinicaldoctest is the clinical documentation service in a box: a
// stateful stand-in for the tests of programs that use the SDK, as
// net/http/httptest is for net/http.
//
//	srv := clinicaldoctest.NewServer()
//	defer srv.Close()
//	client := srv.Client()
//
// The box answers all ten endpoints, takes a note through its whole life and
// serves its audio from signed, expiring addresses on a second origin. A test
// seeds it ([Server.AddUser], [Server.AddPatient], [Server.AddNote]), moves its
// clock ([Server.Advance]), scripts what processing will say
// ([Server.ScriptNext]), breaks it ([Server.Inject]) and reads back what it was
// asked ([Server.Requests]) and what it holds ([Server.Notes]).
//
// What the service's description leaves open is a field of [Variant]; the zero
// Variant is the likeliest reading. [Variants] lists named combinations that
// together use every switch: a program that passes its tests on all of them
// does not depend on a guess.
//
// Inside a testing/synctest bubble, start the box with [InProcess]: it then
// speaks HTTP over in-memory pipes, which let the bubble's time pass.
package clinicaldoctest
