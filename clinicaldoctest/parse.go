package clinicaldoctest

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// faultKind is a kind of fault that [ParseFault] knows.
type faultKind struct {
	name     string // such as "status"
	example  string // of its argument; "": it takes none
	usage    string
	argument argument
	strike   func(strike)
}

const (
	kindStatus   = "status"
	kindThrottle = "throttle" // the one kind that stays unless told otherwise
)

// allFaultKinds returns every kind of fault that [ParseFault] knows.
func allFaultKinds() []faultKind {
	return []faultKind{
		{kindStatus, "503", "respond with this status", aStatus, strike.answer},
		{"429", "30s", "respond with 429 and this Retry-After", aDuration, strike.tooManyRequests},
		{
			kindThrottle, "60/1m", "allow only this many requests per window (always)", numberAndDuration,
			strike.throttle,
		},
		{"delay", "2s", "wait this long before processing the request", aDuration, strike.delay},
		{
			"slow", "100/50ms", "send the response in pieces of this size, with a pause after each", numberAndDuration,
			strike.slow,
		},
		{"truncate", "20", "cut off the response after this many bytes", aNumber, strike.truncate},
		{"truncate-chunked", "20", "the same, if the response has no Content-Length", aNumber, strike.truncateChunked},
		{"reset", "", "reset the connection before reading the body", nothing, strike.reset},
		{
			"reset-after-request", "", "read the request, do nothing, and reset the connection", nothing,
			strike.resetAfterRequest,
		},
		{
			"reset-after-commit", "", "carry out the request, then reset the connection instead of responding", nothing,
			strike.resetAfterCommit,
		},
		{"silent", "", "stop all traffic on the connection, but keep it open", nothing, strike.silent},
		{"vanish", "1", "delete this many of the notes that a list has just shown", aNumber, strike.vanish},
		{"arrive", "1", "add this many notes before the next page of a list is requested", aNumber, strike.arrive},
		{"lagging", "10s", "read from a replica that is this far behind", aDuration, strike.lagging},
	}
}

var faultKinds = sync.OnceValue(func() map[string]faultKind {
	kinds := map[string]faultKind{}
	for _, kind := range allFaultKinds() {
		kinds[kind.name] = kind
	}
	return kinds
})

// ParseFault reads a fault as [Fault.String] writes it, KIND[=ARGUMENT] and then
// any of these, each after a colon:
//
//	3 or always  number of requests that it affects; 1 by default
//	every=20     every 20th request
//	rate=0.05    each request with this probability
//	after=2      not the first 2 requests
//	commit=90s   the request is carried out anyway, this much later
func ParseFault(text string) (Fault, error) {
	parts := strings.Split(text, ":")
	f, err := parseKind(parts[0])
	if err != nil {
		return Fault{}, err
	}
	// A number of times counts wherever it stands: every and rate begin with none.
	slices.SortStableFunc(parts[1:], func(a, b string) int { return strings.Count(b, "=") - strings.Count(a, "=") })
	for _, part := range parts[1:] {
		if f, err = f.parseModifier(part); err != nil {
			return Fault{}, err
		}
	}
	return f, nil
}

// parseKind reads a kind with its argument, such as "delay=2s".
func parseKind(text string) (Fault, error) {
	name, argument, given := strings.Cut(text, "=")
	kind, known := faultKinds()[name]
	switch {
	case !known:
		return Fault{}, fmt.Errorf("no such kind of fault: %q", name)
	case given && kind.example == "":
		return Fault{}, fmt.Errorf("%s takes no argument", name)
	}
	number, length, err := kind.argument.parse(argument)
	if err != nil {
		return Fault{}, fmt.Errorf("%s needs %w, as in %s=%s", name, err, name, kind.example)
	}
	f := newFault(name, number, length)
	if name == kindStatus {
		f.body = fmt.Sprintf(`{"message":%q}`, http.StatusText(number))
	}
	return f, nil
}

// modifiers are what may follow a kind with an argument. Each reports whether it can read the argument.
var modifiers = map[string]func(f Fault, argument string) (Fault, bool){
	"every": func(f Fault, argument string) (Fault, bool) {
		n, err := strconv.Atoi(argument)
		return f.Every(n), err == nil && n > 0
	},
	"after": func(f Fault, argument string) (Fault, bool) {
		n, err := strconv.Atoi(argument)
		return f.After(n), err == nil && n >= 0
	},
	"rate": func(f Fault, argument string) (Fault, bool) {
		p, err := strconv.ParseFloat(argument, 64)
		inRange := p >= 0 && p <= 1
		return f.Rate(p), err == nil && inRange
	},
	"commit": func(f Fault, argument string) (Fault, bool) {
		d, err := time.ParseDuration(argument)
		return f.CommitAfter(d), err == nil && d >= 0
	},
}

// parseModifier returns the fault with one of the modifiers that ParseFault lists.
func (f Fault) parseModifier(text string) (Fault, error) {
	if text == "always" {
		return f.Always(), nil
	}
	name, argument, hasArgument := strings.Cut(text, "=")
	if !hasArgument {
		if times, err := strconv.Atoi(text); err == nil && times >= 0 {
			return f.Times(times), nil
		}
	}
	if modify := modifiers[name]; modify != nil {
		if modified, ok := modify(f, argument); ok {
			return modified, nil
		}
	}
	return f, fmt.Errorf(
		`%q is neither a number of times, "always", every=20, rate=0.05, after=2 nor commit=90s`, text)
}

// kindAndArgument returns such as "delay=2s".
func (f Fault) kindAndArgument() string {
	argument := faultKinds()[f.kind].argument.format(f.number, f.length)
	if argument == "" {
		return f.kind
	}
	return f.kind + "=" + argument
}

// argument is the type of a fault kind's argument.
type argument int

const (
	nothing argument = iota
	aStatus
	aNumber
	aDuration
	numberAndDuration
)

// format returns the argument as parse reads it, or "" if there is none.
func (a argument) format(number int, length time.Duration) string {
	switch a {
	case aStatus, aNumber:
		return strconv.Itoa(number)
	case aDuration:
		return length.String()
	case numberAndDuration:
		return strconv.Itoa(number) + "/" + length.String()
	default:
		return ""
	}
}

// parse reads an argument: the number, the duration or both. Its error names what the argument has to be.
func (a argument) parse(text string) (number int, length time.Duration, err error) {
	switch a {
	case aStatus:
		number, err = strconv.Atoi(text)
		inRange := number >= minStatus && number <= maxStatus
		return number, 0, wants("a status", err == nil && inRange)
	case aNumber:
		number, err = strconv.Atoi(text)
		return number, 0, wants("a number", err == nil && number >= 0)
	case aDuration:
		length, err = time.ParseDuration(text)
		return 0, length, wants("a duration", err == nil && length >= 0)
	case numberAndDuration:
		numberText, lengthText, _ := strings.Cut(text, "/")
		number, numberErr := strconv.Atoi(numberText)
		length, lengthErr := time.ParseDuration(lengthText)
		isPositive := number > 0 && length > 0
		return number, length, wants("a number and a duration", numberErr == nil && lengthErr == nil && isPositive)
	default:
		return 0, 0, nil
	}
}

// wants returns an error that names what an argument has to be, unless it is ok.
func wants(what string, ok bool) error {
	if ok {
		return nil
	}
	return errors.New(what)
}
