// Package simulation tries to prove the SDK wrong in scenarios: simulated clinics in virtual time, without sockets.
// Programs use the SDK, clinicians edit notes, the fake server responds, and the network between them fails; an oracle
// that knows the truth checks every result. All choices come from one seed, so a scenario that breaks a promise can be
// repeated, reduced to its fewest events and printed as a test.
//
// go test runs a few scenarios; make simulate runs as many as you like, and make defects injects seeded faults to see
// whether each is noticed. README.md describes scenarios, bars and the lists of seeded faults.
package simulation
