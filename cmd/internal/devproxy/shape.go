package devproxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
)

const (
	maxShaped     = 16 << 10 // of a body are looked at: a list's first rows tell the shape of all
	maxShapeLines = 200
	maxShapeDepth = 12
)

// shape describes a body by names and types, never by values: one line a member. Names that may be data are withheld.
func shape(header http.Header, start []byte) []string {
	if len(start) == 0 {
		return nil
	}
	mediaType, params, _ := mime.ParseMediaType(header.Get("Content-Type"))
	coding := header.Get("Content-Encoding")
	switch {
	case coding != "" && !strings.EqualFold(coding, "identity"):
		return []string{"compressed"}
	case strings.HasSuffix(mediaType, "json"):
		s := shaper{decoder: json.NewDecoder(bytes.NewReader(start))}
		s.decoder.UseNumber()
		s.value("", 0)
		return s.lines
	case mediaType == "multipart/form-data":
		return partShapes(start, params["boundary"])
	default:
		return []string{knownType(mediaType)}
	}
}

// knownType keeps a made-up type out of sight.
func knownType(mediaType string) string {
	switch mediaType {
	case "application/json", "application/problem+json", "application/xml", "text/html", "text/plain",
		"multipart/form-data",
		"application/x-www-form-urlencoded", "application/octet-stream", "audio/wav", "audio/mpeg", "audio/mp4",
		"audio/ogg", "audio/flac", "audio/webm", "audio/aac":
		return mediaType
	default:
		return "another type"
	}
}

func partShapes(start []byte, boundary string) (lines []string) {
	if boundary == "" {
		return []string{"parts without a boundary"}
	}
	for parts := multipart.NewReader(bytes.NewReader(start), boundary); len(lines) < maxShapeLines; {
		part, err := parts.NextRawPart()
		if err != nil {
			return lines
		}
		line := "part " + printable(part.FormName())
		if part.FileName() != "" {
			mediaType, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
			line += ": file, " + knownType(mediaType)
		}
		lines = append(lines, line)
		if _, err := io.Copy(io.Discard, part); err != nil {
			return lines
		}
	}
	return lines
}

// shaper goes once through a JSON text, which may end anywhere.
type shaper struct {
	decoder *json.Decoder
	lines   []string
}

func (s *shaper) add(path, kind string) {
	line := strings.TrimPrefix(fmt.Sprintf("%s: %s", path, kind), ": ")
	if len(s.lines) < maxShapeLines && !slices.Contains(s.lines, line) {
		s.lines = append(s.lines, line)
	}
}

// value reads the next value and reports whether the text goes on.
func (s *shaper) value(path string, depth int) bool {
	token, err := s.decoder.Token()
	if err != nil || depth > maxShapeDepth {
		return false
	}
	switch token {
	case json.Delim('{'):
		s.add(path, "object")
		for s.decoder.More() {
			key, err := s.decoder.Token()
			name, _ := key.(string) // every key is a string
			if err != nil || !s.value(join(path, printable(name)), depth+1) {
				return false
			}
		}
	case json.Delim('['):
		s.add(path, "array")
		for s.decoder.More() {
			if !s.value(path+"[]", depth+1) {
				return false
			}
		}
	default:
		s.add(path, string(kindOf(token)))
		return true
	}
	_, err = s.decoder.Token() // the end of the object or array
	return err == nil
}
