// Package simulation tries to prove the SDK wrong. It has two ways, both in virtual time and without a socket:
//
//   - sequences: for each operation every sequence of outcomes up to four attempts, with and without a change by others in
//     between, against a small reference that a reader can check by eye;
//   - worlds: programs on the SDK, clinicians and the service in a box, with a network between that delays, cuts and goes
//     silent, gateways that respond on their own and commit late, replicas that lag and clocks that are off. All choices
//     come from one seed. An oracle that knows the truth holds every word of the SDK against it.
//
// go test runs a few of each; make simulate runs as many as you like. A world that fails is run again, reduced to the
// fewest events that still fail, and printed as a test to paste.
package simulation
