package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// version is a released one, such as v0.2.0: three numbers, nothing after them.
type version string

var versionForm = regexp.MustCompile(`^v(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})$`)

func parseVersion(text string) (version, error) {
	if !versionForm.MatchString(text) {
		return "", fmt.Errorf("%q is no version such as v0.2.0", text)
	}
	return version(text), nil
}

// numbers are the major, the minor and the patch version.
func (v version) numbers() [3]int {
	var n [3]int
	_, _ = fmt.Sscanf(string(v), "v%d.%d.%d", &n[0], &n[1], &n[2]) // as parseVersion has seen
	return n
}

// number is the version without its v.
func (v version) number() string { return strings.TrimPrefix(string(v), "v") }

func (v version) compare(w version) int {
	own := v.numbers()
	other := w.numbers()
	return slices.Compare(own[:], other[:])
}

// before returns the highest of the versions that is lower than this one; "" if there is none.
func (v version) before(all []version) (last version) {
	for _, other := range all {
		if other.compare(v) < 0 && (last == "" || other.compare(last) > 0) {
			last = other
		}
	}
	return last
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
	own := v.numbers()
	before := last.numbers()
	isStable := own[0] > 0
	isPatch := own[1] == before[1]
	switch {
	case v.compare(last) <= 0:
		return fmt.Errorf("%s does not follow %s", v, last)
	case own[0] != before[0]:
		return nil
	case c == incompatible && isStable:
		return errors.New("an incompatible change needs another major version")
	case c == incompatible && isPatch:
		return errors.New("an incompatible change needs another minor version")
	case c == additions && isStable && isPatch:
		return errors.New("an addition needs another minor version")
	}
	return nil
}
