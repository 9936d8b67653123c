package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// fault is a fault and the route it strikes.
type fault struct {
	route, spec string
	times       int // -1: always
	clinicaldoctest.Fault
}

// parseFault reads ROUTE:KIND[=ARGUMENT][:TIMES].
func parseFault(spec string) (fault, error) {
	parts := strings.Split(spec, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return fault{}, errors.New("a fault is ROUTE:KIND[=ARGUMENT][:TIMES]")
	}
	route := parts[0]
	if route == "*" {
		route = ""
	} else if !slices.Contains(clinicaldoctest.Routes(), route) {
		return fault{}, fmt.Errorf("no such route; there are * for all, and\n  %s", strings.Join(clinicaldoctest.Routes(), "\n  "))
	}
	kind, err := parseKind(parts[1])
	if err != nil {
		return fault{}, err
	}
	f := fault{route: route, spec: spec, times: 1, Fault: kind}
	if strings.HasPrefix(parts[1], "throttle") {
		f.times = -1
	}
	if len(parts) == 3 {
		f.times, err = parseTimes(parts[2])
	}
	if f.times < 0 {
		f.Fault = f.Always()
	} else {
		f.Fault = f.Times(f.times)
	}
	return f, err
}

// parseTimes returns how often a fault strikes; -1 is always.
func parseTimes(text string) (int, error) {
	if text == "always" {
		return -1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is neither a number of times nor \"always\"", text)
	}
	return n, nil
}

func parseKind(text string) (clinicaldoctest.Fault, error) {
	kind, argument, given := strings.Cut(text, "=")
	none := clinicaldoctest.Fault{}
	wants := func(what string) error { return fmt.Errorf("%s needs %s, as in the examples of -help", kind, what) }
	switch kind {
	case "reset", "reset-after-request", "reset-after-commit":
		if given {
			return none, fmt.Errorf("%s takes no argument", kind)
		}
		return map[string]func() clinicaldoctest.Fault{
			"reset":               clinicaldoctest.Reset,
			"reset-after-request": clinicaldoctest.ResetAfterRequest,
			"reset-after-commit":  clinicaldoctest.ResetAfterCommit,
		}[kind](), nil
	case "status":
		status, err := strconv.Atoi(argument)
		if err != nil || status < 200 || status > 599 {
			return none, wants("a status")
		}
		return clinicaldoctest.Answer(status, fmt.Sprintf(`{"message":%q}`, http.StatusText(status))), nil
	case "429":
		wait, err := time.ParseDuration(argument)
		if err != nil || wait < 0 {
			return none, wants("a duration")
		}
		return clinicaldoctest.TooManyRequests(wait), nil
	case "delay":
		wait, err := time.ParseDuration(argument)
		if err != nil || wait < 0 {
			return none, wants("a duration")
		}
		return clinicaldoctest.Delay(wait), nil
	case "truncate":
		n, err := strconv.Atoi(argument)
		if err != nil || n < 0 {
			return none, wants("a number of bytes")
		}
		return clinicaldoctest.Truncate(n), nil
	case "throttle", "slow":
		number, duration, _ := strings.Cut(argument, "/")
		n, numberErr := strconv.Atoi(number)
		d, durationErr := time.ParseDuration(duration)
		if numberErr != nil || durationErr != nil || n < 1 || d <= 0 {
			return none, wants("a number and a duration")
		}
		if kind == "slow" {
			return clinicaldoctest.SlowBody(n, d), nil
		}
		return clinicaldoctest.Throttle(n, d), nil
	default:
		return none, fmt.Errorf("no such kind of fault: %q", kind)
	}
}
