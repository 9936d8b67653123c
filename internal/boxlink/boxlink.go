// Package boxlink lets the developer proxy do with the box what the box's own users have no need for.
package boxlink

import (
	"context"
	"net/http"
)

type nextKey struct{}

// PassOn makes the box's handler pass a request on to next, through the faults that are injected for its route, instead
// of serving it. A ResponseWriter with a method Struck(fault string) is told of one that strikes.
func PassOn(ctx context.Context, next http.Handler) context.Context {
	return context.WithValue(ctx, nextKey{}, next)
}

// Next returns where a request is to be passed on to, nil for the box itself.
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

// Plant adds made-up notes to a *clinicaldoctest.Server, so many that none is made before somebody looks at it. Package
// clinicaldoctest sets it.
var Plant func(server any, count int)

// Newest returns up to count notes of a *clinicaldoctest.Server, those with the highest ids, oldest first, without a
// look at the others. Package clinicaldoctest sets it.
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
