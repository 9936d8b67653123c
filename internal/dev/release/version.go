package main

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/semver"
)

// version is a released one, such as v0.2.0: three numbers, nothing after them.
type version string

func parseVersion(text string) (version, error) {
	isRelease := semver.IsValid(text) && semver.Canonical(text) == text && semver.Prerelease(text) == ""
	if !isRelease {
		return "", fmt.Errorf("%q is no version such as v0.2.0", text)
	}
	return version(text), nil
}

// number is the version without its v.
func (v version) number() string { return strings.TrimPrefix(string(v), "v") }

func (v version) compare(w version) int { return semver.Compare(string(v), string(w)) }

func (v version) major() string { return semver.Major(string(v)) }

// before returns the highest of the versions that is lower than this one; "" if there is none.
func (v version) before(all []version) (last version) {
	for _, other := range all {
		if other.compare(v) < 0 && other.compare(last) > 0 {
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
	isPatch := semver.MajorMinor(string(v)) == semver.MajorMinor(string(last))
	switch {
	case v.compare(last) <= 0:
		return fmt.Errorf("%s does not follow %s", v, last)
	case v.major() != last.major():
		return nil
	case c == incompatible && v.major() != "v0":
		return errors.New("an incompatible change needs another major version")
	case c == incompatible && isPatch:
		return errors.New("an incompatible change needs another minor version")
	case c == additions && v.major() != "v0" && isPatch:
		return errors.New("an addition needs another minor version")
	}
	return nil
}
