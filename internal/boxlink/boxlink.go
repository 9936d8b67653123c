// Package boxlink gives the developer proxy access to parts of the fake server that other users do not need.
package boxlink

import (
	"context"
	"net/http"
)

type nextKey struct{}

// PassOn makes the fake server's handler forward a request to next, through the faults that are injected for its
// route. If the ResponseWriter has a method Struck(fault string), it is called for a fault that applies.
func PassOn(ctx context.Context, next http.Handler) context.Context {
	return context.WithValue(ctx, nextKey{}, next)
}

// Next returns the target to which a request is forwarded, or nil if the fake server handles it.
func Next(ctx context.Context) http.Handler {
	next, _ := ctx.Value(nextKey{}).(http.Handler)
	return next
}

// Note is what the inspector shows of a note.
type Note struct {
	ID        int64  `json:"id"`
	Name      string `json:"name"`
	PatientID int64  `json:"patient_id"`
	Stage     string `json:"stage"`
	Error     string `json:"error,omitempty"`
}

// Plant adds synthetic notes to a *clinicaldoctest.Server. Each is made only when it is read, so there can be many.
// Package clinicaldoctest sets it.
var Plant func(server any, count int)

// Newest returns up to count notes of a *clinicaldoctest.Server with the highest IDs, oldest first, without reading
// the others. Package clinicaldoctest sets it.
var Newest func(server any, count int) []Note

// InMemory is a clinicaldoctest.Option for programs that never close their server: it keeps recordings in memory, so
// that no folder is left behind. Package clinicaldoctest sets it.
var InMemory any

// FaultKind is a kind of fault that clinicaldoctest.ParseFault knows.
type FaultKind struct {
	Name    string `json:"name"`    // such as "status"
	Example string `json:"example"` // of its argument; "": it takes none
	Usage   string `json:"usage"`
}

// FaultKinds are all kinds of faults. Package clinicaldoctest sets them.
var FaultKinds []FaultKind
