package clinicaldoctest

import (
	"net/http"
	"os"
)

// Files returns the names of the recordings' files.
func (s *Server) Files() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}

// IsSilent reports whether the connection of a request is silent.
func IsSilent(r *http.Request) bool { return connOf(r).silent.Load() }
