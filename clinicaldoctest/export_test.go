package clinicaldoctest

import "os"

// Files returns the names of the recordings' files.
func (s *Server) Files() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}
