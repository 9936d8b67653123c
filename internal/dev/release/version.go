package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// version is a released one: three numbers, nothing after them.
type version struct{ major, minor, patch int }

func (v version) String() string { return fmt.Sprintf("v%d.%d.%d", v.major, v.minor, v.patch) }

var versionForm = regexp.MustCompile(`^v(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})$`)

func parseVersion(text string) (version, error) {
	parts := versionForm.FindStringSubmatch(text)
	if parts == nil {
		return version{}, fmt.Errorf("%q is no version such as v0.2.0", text)
	}
	var numbers [3]int
	for i := range numbers {
		numbers[i], _ = strconv.Atoi(parts[i+1]) // the form has at most six digits
	}
	return version{numbers[0], numbers[1], numbers[2]}, nil
}

func (v version) compare(w version) int {
	return cmp.Or(cmp.Compare(v.major, w.major), cmp.Compare(v.minor, w.minor), cmp.Compare(v.patch, w.patch))
}

// before returns the highest of the versions that is lower than this one.
func (v version) before(all []version) (last version, ok bool) {
	for _, other := range all {
		if other.compare(v) < 0 && (!ok || other.compare(last) > 0) {
			last, ok = other, true
		}
	}
	return last, ok
}

// change is what the difference of two versions' public names amounts to.
type change int

const (
	same change = iota
	additions
	incompatible
)

// allows says whether semantic versioning lets this version follow the last one with such a change.
func (v version) allows(last version, c change) error {
	switch {
	case v.compare(last) <= 0:
		return fmt.Errorf("%s does not follow %s", v, last)
	case v.major > last.major:
		return nil
	case c == incompatible && v.major > 0:
		return errors.New("an incompatible change needs another major version")
	case c == incompatible && v.minor == last.minor:
		return errors.New("an incompatible change needs another minor version")
	case c == additions && v.major > 0 && v.minor == last.minor:
		return errors.New("an addition needs another minor version")
	}
	return nil
}
