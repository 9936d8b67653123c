package contract

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"strings"
)

// keptBytes is how much of a body, or of each part of one, is kept for the check.
const keptBytes = 64 << 10

var errTooLong = fmt.Errorf("the body has more than %d bytes, too many to check", keptBytes)

// abridge reads a body to its end and returns what is needed to check it: a multipart body with the content of its parts
// cut to a bounded size, so that an upload of any size takes little memory, and any other body as it is.
func abridge(body io.Reader, contentType string) ([]byte, error) {
	defer func() { _, _ = io.Copy(io.Discard, body) }() // what is left after an error
	mediaType, params, err := mime.ParseMediaType(contentType)
	if err == nil && strings.HasPrefix(mediaType, "multipart/") {
		return abridgeParts(body, params["boundary"])
	}
	whole, err := io.ReadAll(io.LimitReader(body, keptBytes+1))
	if err == nil && len(whole) > keptBytes {
		return nil, errTooLong
	}
	return whole, err
}

// abridgeParts also finds what validators let pass: a part that comes twice, a missing end.
func abridgeParts(body io.Reader, boundary string) ([]byte, error) {
	var short bytes.Buffer
	out := multipart.NewWriter(&short)
	if err := out.SetBoundary(boundary); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for parts := multipart.NewReader(body, boundary); ; {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			err := out.Close()
			return short.Bytes(), err
		}
		if err != nil {
			return nil, fmt.Errorf("multipart body: %w", err)
		}
		if seen[part.FormName()] {
			return nil, fmt.Errorf("multipart body: the part %q comes twice", part.FormName())
		}
		seen[part.FormName()] = true
		kept, err := out.CreatePart(part.Header)
		if err != nil {
			return nil, err
		}
		if _, err := io.Copy(kept, io.LimitReader(part, keptBytes)); err != nil {
			return nil, fmt.Errorf("multipart body: part %q: %w", part.FormName(), err)
		}
	}
}
