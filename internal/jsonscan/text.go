package jsonscan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// escapedChars maps the byte after a backslash to the character it stands for.
var escapedChars = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// scanString consumes the string literal at pos. If keep is set it returns the text, as a view of the document when it equals
// the literal and otherwise of the scratch buffer.
func (d *Decoder) scanString(keep bool) []byte {
	start := d.pos + 1
	end, ascii := plainRun(d.data, start)
	if d.byteAt(end) == '"' && (ascii || !keep || utf8.Valid(d.data[start:end])) {
		d.pos = end + 1
		return d.data[start:end:end]
	}
	if !keep {
		d.scanRuns(nil, start, end, ascii, false)
		return nil
	}
	scratch := d.borrow()
	kept := len(scratch.block)
	text := d.scanRuns(d.grow(scratch.block, start, end), start, end, ascii, true)
	scratch.block = text[:kept]
	if d.err != nil {
		return nil
	}
	return text[kept:]
}

// grow makes room for a text whose first run of plain bytes is from start to end. The next quote is mostly the closing one, so
// one time is mostly enough.
func (d *Decoder) grow(text []byte, start, end int) []byte {
	return slices.Grow(text, end-start+max(0, bytes.IndexByte(d.data[end:], '"')))
}

// scanRuns consumes a string literal whose first run of plain bytes is from start to end. If keep is set it appends the text to
// what is there.
func (d *Decoder) scanRuns(text []byte, start, end int, ascii, keep bool) []byte {
	for {
		if keep {
			text = appendValid(text, d.data[start:end], ascii)
		}
		switch d.byteAt(end) {
		case '"':
			d.pos = end + 1
			return text
		case '\\':
			char, size := decodeEscape(d.data[end:])
			if size == 0 {
				d.failSyntax(end, badEscape)
				return text
			}
			if keep {
				text = utf8.AppendRune(text, char)
			}
			start = end + size
		default:
			d.failSyntax(end, unexpected)
			return text
		}
		end, ascii = plainRun(d.data, start)
	}
}

// plainRun returns the end of the bytes that stand for themselves in a string literal, and whether all of them are ASCII.
func plainRun(data []byte, pos int) (end int, ascii bool) {
	const (
		ones = 0x0101010101010101
		tops = 0x8080808080808080
	)
	var seen uint64
	rest := data[pos:]
	for ; len(rest) >= 8; rest = rest[8:] {
		word := binary.LittleEndian.Uint64(rest)
		// Each term sets the top bit of the bytes it looks for, and by borrowing perhaps that of higher bytes, so only the
		// lowest is exact. Flipping bit 1 swaps quote and space, so that one comparison finds the quote and the control
		// characters.
		quoteOrControl := (word ^ ones*0x02) - ones*0x21
		backslash := (word ^ ones*'\\') - ones
		stops := (quoteOrControl | backslash) &^ word & tops
		if stops != 0 {
			before := bits.TrailingZeros64(stops) &^ 7
			seen |= word & (1<<before - 1)
			return len(data) - len(rest) + before/8, seen&tops == 0
		}
		seen |= word
	}
	for ; len(rest) > 0; rest = rest[1:] {
		char := rest[0]
		if char < ' ' || char == '"' || char == '\\' {
			break
		}
		seen |= uint64(char)
	}
	return len(data) - len(rest), seen&tops == 0
}

// appendValid appends run with each invalid byte replaced by U+FFFD.
func appendValid(text, run []byte, ascii bool) []byte {
	if ascii || utf8.Valid(run) {
		return append(text, run...)
	}
	for len(run) > 0 {
		char, size := utf8.DecodeRune(run)
		text = utf8.AppendRune(text, char)
		run = run[size:]
	}
	return text
}

// decodeEscape decodes the escape sequence, or pair of them, that literal starts with; size is 0 if it is not valid.
func decodeEscape(literal []byte) (char rune, size int) {
	if len(literal) < 2 {
		return 0, 0
	}
	if char := escapedChars[literal[1]]; char != 0 {
		return rune(char), 2
	}
	char, ok := decodeUnit(literal)
	if !ok {
		return 0, 0
	}
	if utf16.IsSurrogate(char) {
		low, _ := decodeUnit(literal[6:])
		if char = utf16.DecodeRune(char, low); char != utf8.RuneError {
			return char, 12
		}
	}
	return char, 6
}

// decodeUnit decodes the UTF-16 code unit of the \u escape that literal starts with.
func decodeUnit(literal []byte) (unit rune, ok bool) {
	if len(literal) < 6 || literal[0] != '\\' || literal[1] != 'u' {
		return 0, false
	}
	code, err := strconv.ParseUint(string(literal[2:6]), 16, 16)
	return rune(code), err == nil
}
