package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// section returns what the changelog says of a version.
func section(changelog string, v version) (string, error) {
	changelog = strings.ReplaceAll(changelog, "\r\n", "\n")
	number := v.number()
	heading := regexp.MustCompile(`(?m)^## \[` + regexp.QuoteMeta(number) + `\] - (\S+)$`)
	found := heading.FindStringSubmatchIndex(changelog)
	if found == nil {
		return "", fmt.Errorf("CHANGELOG.md has no section %q with a date", "## ["+number+"]")
	}
	if _, err := time.Parse(time.DateOnly, changelog[found[2]:found[3]]); err != nil {
		return "", fmt.Errorf("CHANGELOG.md: the date of %s: %w", number, err)
	}
	if !strings.Contains(changelog[:found[0]], "\n## [Unreleased]\n") {
		return "", errors.New("CHANGELOG.md has no [Unreleased] above " + number)
	}
	text, _, _ := strings.Cut(changelog[found[1]:], "\n## ")
	if text = strings.TrimSpace(text); text == "" {
		return "", errors.New("CHANGELOG.md says nothing of " + number)
	}
	return text, nil
}

// tellsOfBreaking reports whether a section says that something else is needed of users.
func tellsOfBreaking(section string) bool {
	return regexp.MustCompile(`(?m)^### (Changed|Removed)$`).MatchString(section)
}

func (r repository) section(v version) (string, error) {
	text, err := os.ReadFile(filepath.Join(r.dir, "CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	return section(string(text), v)
}
