package media

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// documents are files that are often sent by mistake, by their first bytes.
var documents = []struct {
	name    string
	matches func(head []byte) bool
}{
	{"a PDF document", begins("%PDF-")},
	{"a PostScript document", begins("%!PS")},
	{"an RTF document", begins(`{\rtf`)},
	{"an office document", begins("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")},
	{"a ZIP archive or an office document", begins("PK\x03\x04")},
	{"an empty ZIP archive", begins("PK\x05\x06")},
	{"a gzip file", begins("\x1f\x8b\x08")},
	{"a bzip2 file", at(4, "1AY&SY")},
	{"an xz file", begins("\xfd7zXZ\x00")},
	{"a 7z archive", begins("7z\xbc\xaf\x27\x1c")},
	{"a RAR archive", begins("Rar!\x1a\x07")},
	{"a database", begins("SQLite format 3\x00")},
	{"a JPEG image", begins("\xff\xd8\xff")},
	{"a PNG image", begins("\x89PNG\r\n\x1a\n")},
	{"a GIF image", begins("GIF8")},
	{"a TIFF image", begins("II*\x00")},
	{"a TIFF image", begins("MM\x00*")},
	{"a WebP image", form("RIFF", "WEBP")},
	{"a photo", isPhoto},
	{"a DICOM image", at(128, "DICM")},
	{"a program", begins("\x7fELF")},
	{"a program", begins("\xcf\xfa\xed\xfe")},
	{"a program", begins("\xca\xfe\xba\xbe")},
	{"a program", begins("#!/")},
	{"a program", isWindowsProgram},
	{"a JSON, HTML or XML document", IsDocument},
}

// documentName returns what a file certainly is instead of a recording, or "" if it is not known to be anything else.
func documentName(head []byte, size int64) string {
	if len(head) == 0 {
		return "an empty file"
	}
	if isBitmap(head, size) {
		return "a BMP image"
	}
	for _, d := range documents {
		if d.matches(head) {
			return d.name
		}
	}
	return ""
}

// isPhoto reports whether a file is HEIC or AVIF, which share their container with MP4 recordings.
func isPhoto(head []byte) bool {
	brands := []string{"heic", "heix", "heim", "heis", "mif1", "msf1", "avif", "avis"}
	return slices.ContainsFunc(brands, func(brand string) bool { return at(4, "ftyp"+brand)(head) })
}

// isBitmap reports whether a file is BMP. Its two letters are not enough, so the file's size in its header must be
// right.
func isBitmap(head []byte, size int64) bool {
	if !begins("BM")(head) || len(head) < 6 {
		return false
	}
	return int64(binary.LittleEndian.Uint32(head[2:])) == size
}

// isWindowsProgram reports whether a file is an EXE or DLL: it begins with two letters, and has the offset of a PE
// header.
func isWindowsProgram(head []byte) bool {
	if !begins("MZ")(head) || len(head) < 64 {
		return false
	}
	offset := int64(binary.LittleEndian.Uint32(head[60:])) // of the PE header
	return bytes.HasPrefix(head[min(offset, int64(len(head))):], []byte("PE\x00\x00"))
}

// IsDocument reports whether the first bytes of a file are JSON, HTML or XML.
func IsDocument(head []byte) bool {
	kind := http.DetectContentType(head) // it recognizes pages in other encodings than UTF-8 too
	if strings.HasPrefix(kind, "text/html") || strings.HasPrefix(kind, "text/xml") {
		return true
	}
	if !IsText(head) {
		return false
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")))
	// The head of a longer document is not valid JSON, so the first character must be enough.
	return bytes.IndexAny(text, "<{[") == 0 || json.Valid(text)
}

// IsText reports whether the bytes are UTF-8 without control characters; the last character may be cut off.
func IsText(head []byte) bool {
	for len(head) > 0 {
		r, size := utf8.DecodeRune(head)
		switch {
		case r == utf8.RuneError && size == 1:
			return !utf8.FullRune(head) // invalid, unless it is only the beginning of a character
		case r < ' ' && !strings.ContainsRune("\t\n\f\r\x1b", r), r == 0x7f:
			return false
		}
		head = head[size:]
	}
	return true
}
