package redact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"reflect"
	"slices"
	"syscall"
)

// Opaque returns err in a form that others may unwrap and print. Is and As find everything in err. Unwrapping or
// printing it shows no more than Cause. Errors known to be harmless are returned unchanged.
func Opaque(err error) error {
	if err == nil || isHarmless(err) {
		return err
	}
	return &opaque{err}
}

type opaque struct{ hidden error }

func (o *opaque) Error() string                { return Cause(o.hidden) }
func (o *opaque) MarshalText() ([]byte, error) { return []byte(Cause(o.hidden)), nil }
func (o *opaque) Format(s fmt.State, _ rune)   { _, _ = io.WriteString(s, Cause(o.hidden)) }
func (o *opaque) As(target any) bool           { return errors.As(o.hidden, target) }

// Is also matches another wrapper of the same error, because each unwrapping makes a new one.
func (o *opaque) Is(target error) bool {
	if other, ok := target.(*opaque); ok {
		target = other.hidden
	}
	return errors.Is(o.hidden, target)
}

// plain errors have a constant text and wrap nothing.
var plain = []error{
	context.DeadlineExceeded, context.Canceled, io.ErrUnexpectedEOF, io.EOF, io.ErrClosedPipe, io.ErrShortWrite,
	net.ErrClosed, os.ErrDeadlineExceeded,
	fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrClosed, fs.ErrInvalid,
}

// isHarmless reports whether an error's text, and the text of all that it wraps, may be printed. Another module's type
// is not trusted with that, whatever methods it has.
func isHarmless(err error) bool {
	_, isTrusted := trusted[reflect.TypeOf(err)]
	switch err.(type) { //nolint:errorlint // of this error alone, not of those it wraps
	case syscall.Errno:
		return true // a number, and the system's text for it
	case fmt.Formatter:
		return isTrusted // its Format decides what every verb prints, also of what it wraps
	case interface{ Unwrap() error }, interface{ Unwrap() []error }:
		return false // it has no Format, so %#v would print what it wraps
	}
	return isTrusted || slices.Contains(plain, err)
}

// trusted has the types of errors whose texts hold neither secrets nor patients' data, with what to print of each.
var trusted = map[reflect.Type]func(error) string{}

// Trust declares that text returns neither secrets nor patients' data for any error of type E. Call it from init only.
func Trust[E error](text func(E) string) {
	trusted[reflect.TypeFor[E]()] = func(err error) string {
		return text(err.(E)) //nolint:errorlint,errcheck,forcetypeassert // the map is by its type
	}
}

func init() {
	Trust((*opaque).Error)
	Trust((*failure).Error)
	Trust(Text.Error)
}

// SafeText returns the text of the first error in err's tree whose type is trusted.
func SafeText(err error) (text string, ok bool) {
	if safeText, isTrusted := trusted[reflect.TypeOf(err)]; isTrusted {
		return safeText(err), true
	}
	switch parent := err.(type) { //nolint:errorlint // as errors.As walks
	case interface{ Unwrap() error }:
		return SafeText(parent.Unwrap())
	case interface{ Unwrap() []error }:
		for _, child := range parent.Unwrap() {
			if text, ok := SafeText(child); ok {
				return text, true
			}
		}
	}
	return "", false
}

// ContextErr returns ctx.Err together with the context's cause. It matches both, and its text contains the cause if
// that is known to be safe. It returns nil while the context has not ended.
func ContextErr(ctx context.Context) error {
	err := ctx.Err()
	cause := context.Cause(ctx)
	if err == nil || cause == err { //nolint:errorlint // the very same
		return err
	}
	text := Cause(err)
	if safe, ok := SafeText(cause); ok {
		text += ": " + safe
	}
	return Fail(text, err, cause)
}

// Text is an error whose text is a constant without data.
type Text string //nolint:errname // it reads as redact.Text("words")

func (t Text) Error() string { return string(t) }

// New returns an error that matches only itself, as errors.New does. Its text is safe to print.
func New(text string) error { return &failure{text: text} }

// Fail returns an error with this text, which the caller must know to be safe to print. Is and As find the causes that
// are not nil. They are not printed.
func Fail(text string, causes ...error) error { return &failure{text, OpaqueAll(causes...)} }

// OpaqueAll returns the causes that are not nil, each as Opaque returns it.
func OpaqueAll(causes ...error) []error {
	var kept []error
	for _, cause := range causes {
		if cause != nil {
			kept = append(kept, Opaque(cause))
		}
	}
	return kept
}

type failure struct {
	text   string
	causes []error
}

func (f *failure) Error() string              { return f.text }
func (f *failure) Unwrap() []error            { return f.causes }
func (f *failure) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, f.text) }
