package clinicaldoctest

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// FaultKind is a kind of fault that [ParseFault] knows.
type FaultKind struct {
	Name    string // such as "status"
	Example string // of its argument; "": it takes none
	Usage   string

	make func(argument string) (Fault, error)
}

// FaultKinds returns every kind of fault that [ParseFault] knows.
func FaultKinds() []FaultKind {
	return []FaultKind{
		{"status", "503", "answer with that status", ofStatus},
		{"429", "30s", "answer 429 with that Retry-After", ofDuration(TooManyRequests)},
		{"throttle", "60/1m", "let that many requests per window pass (always)", ofPieces(Throttle)},
		{"delay", "2s", "wait first", ofDuration(Delay)},
		{"slow", "100/50ms", "send the response in pieces of that size, a pause after each", ofPieces(SlowBody)},
		{"truncate", "20", "cut the response off after that many bytes", ofNumber(Truncate)},
		{"truncate-chunked", "20", "the same for a response that announces no length", ofNumber(TruncateChunked)},
		{"reset", "", "drop the connection with a reset before reading the body", plain(Reset)},
		{"reset-after-request", "", "take the request, do nothing, reset", plain(ResetAfterRequest)},
		{"reset-after-commit", "", "do what was asked, then reset instead of answering", plain(ResetAfterCommit)},
		{"silent", "", "let the connection go silent, open for ever", plain(Silent)},
		{"vanish", "1", "delete that many of the notes that a list has just shown", ofNumber(Vanish)},
		{"arrive", "1", "add that many notes to what a list has just shown", ofNumber(Arrive)},
		{"lagging", "10s", "read from a replica that is so far behind", ofDuration(Lagging)},
	}
}

// ParseFault reads a fault as [Fault.String] writes it, KIND[=ARGUMENT] and then
// any of these, each after a colon:
//
//	3 or always  how many requests it strikes; once if not told
//	every=20     each 20th request
//	rate=0.05    each request with that probability
//	after=2      not the first two
//	commit=90s   the request is done all the same, so much later
func ParseFault(text string) (Fault, error) {
	parts := strings.Split(text, ":")
	f, err := parseKind(parts[0])
	if err != nil {
		return Fault{}, err
	}
	for _, part := range parts[1:] {
		if f, err = f.parseModifier(part); err != nil {
			return Fault{}, err
		}
	}
	return f, nil
}

func parseKind(text string) (Fault, error) {
	name, argument, given := strings.Cut(text, "=")
	for _, kind := range FaultKinds() {
		if kind.Name != name {
			continue
		}
		if given != (kind.Example != "") {
			argument = "" // which no kind that needs one takes
			if given {
				return Fault{}, fmt.Errorf("%s takes no argument", name)
			}
		}
		f, err := kind.make(argument)
		if err != nil {
			return Fault{}, fmt.Errorf("%s needs %w, as in %s=%s", name, err, name, kind.Example)
		}
		return f, nil
	}
	return Fault{}, fmt.Errorf("no such kind of fault: %q", name)
}

func (f Fault) parseModifier(text string) (Fault, error) {
	name, argument, _ := strings.Cut(text, "=")
	number, numberErr := strconv.Atoi(or(argument, name))
	switch {
	case text == "always":
		return f.Always(), nil
	case name == text && numberErr == nil && number > 0:
		return f.Times(number), nil
	case name == "every" && numberErr == nil && number > 0:
		return f.Every(number), nil
	case name == "after" && numberErr == nil && number >= 0:
		return f.After(number), nil
	case name == "rate":
		if p, err := strconv.ParseFloat(argument, 64); err == nil && p >= 0 && p <= 1 {
			return f.Rate(p), nil
		}
	case name == "commit":
		if d, err := time.ParseDuration(argument); err == nil && d >= 0 {
			return f.CommitAfter(d), nil
		}
	}
	return f, fmt.Errorf(`%q is neither a number of times, "always", every=20, rate=0.05, after=2 nor commit=90s`, text)
}

func plain(fault func() Fault) func(string) (Fault, error) {
	return func(string) (Fault, error) { return fault(), nil }
}

func ofStatus(argument string) (Fault, error) {
	status, err := strconv.Atoi(argument)
	if err != nil || status < 200 || status > 599 {
		return Fault{}, errors.New("a status")
	}
	return Answer(status, fmt.Sprintf(`{"message":%q}`, http.StatusText(status))), nil
}

func ofDuration(fault func(time.Duration) Fault) func(string) (Fault, error) {
	return func(argument string) (Fault, error) {
		d, err := time.ParseDuration(argument)
		if err != nil || d < 0 {
			return Fault{}, errors.New("a duration")
		}
		return fault(d), nil
	}
}

func ofNumber(fault func(int) Fault) func(string) (Fault, error) {
	return func(argument string) (Fault, error) {
		n, err := strconv.Atoi(argument)
		if err != nil || n < 0 {
			return Fault{}, errors.New("a number")
		}
		return fault(n), nil
	}
}

func ofPieces(fault func(int, time.Duration) Fault) func(string) (Fault, error) {
	return func(argument string) (Fault, error) {
		number, duration, _ := strings.Cut(argument, "/")
		n, numberErr := strconv.Atoi(number)
		d, durationErr := time.ParseDuration(duration)
		if numberErr != nil || durationErr != nil || n < 1 || d <= 0 {
			return Fault{}, errors.New("a number and a duration")
		}
		return fault(n, d), nil
	}
}
