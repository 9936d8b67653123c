// Package faultmatrix holds the fault matrix: what the SDK promises, for every fault and every operation.
//
// Each cell is one call over real sockets. Between the SDK and the service in a box stands a front that breaks
// connections and answers byte by byte. Afterwards the box's state, the errors and everything that went over the wire are
// held against the promise. This tries a quarter of the cells; make faults tries all, also those that take long:
//
//	go test -C internal/dev ./faultmatrix -run TestFaultMatrix
//
// A broken promise fails the subtest that names fault and operation.
package faultmatrix
