package jsonscan

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// escapedChars maps the byte after a backslash to the character it stands for.
var escapedChars = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// What the functions below do with the text of a string literal.
const (
	keepText    = true
	discardText = false
)

// scanString consumes the string literal at pos. If keep is set it returns the text, as a view of the document when it
// equals the literal and otherwise of the scratch buffer.
func (d *Decoder) scanString(keep bool) []byte {
	start := d.pos + 1
	end, ascii := plainRun(d.data, start)
	isOneRun := d.byteAt(end) == '"'
	if isOneRun && (!keep || ascii || utf8.Valid(d.data[start:end])) {
		d.pos = end + 1
		return d.data[start:end:end]
	}
	if !keep {
		return d.scanRuns(nil, discardText)
	}
	// The decoded text is written after the texts that wait for Flush. It does not belong to the block yet: the next
	// text overwrites it unless Intern keeps it.
	scratch := d.borrow()
	waiting := len(scratch.block)
	block := d.scanRuns(scratch.block, keepText)
	scratch.block = block[:waiting]
	if d.err != nil {
		return nil
	}
	return block[waiting:]
}

// scanRuns consumes the string literal at pos: runs of plain bytes, with an escape sequence between two of them. If
// keep is set, it appends the decoded string to text.
func (d *Decoder) scanRuns(text []byte, keep bool) []byte {
	for start := d.pos + 1; ; {
		end, ascii := plainRun(d.data, start)
		if keep {
			text = appendRun(text, d.data[start:end], ascii)
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
	}
}

// appendRun appends a run of plain bytes to text. Each invalid byte becomes U+FFFD.
func appendRun(text, run []byte, ascii bool) []byte {
	if ascii || utf8.Valid(run) {
		return append(text, run...)
	}
	return append(text, string([]rune(string(run)))...)
}

// plainRun returns where the bytes from pos on end that stand for themselves in a string literal, and whether all of
// them are ASCII. It checks eight bytes at a time. Each term sets the top bit of a byte that it searches for. Flipping
// bit 1 swaps quote and space, so one term finds quotes and control characters.
func plainRun(data []byte, pos int) (end int, ascii bool) {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	var seen uint64
	for ; pos+8 <= len(data); pos += 8 {
		word := binary.LittleEndian.Uint64(data[pos:])
		quoteOrControl := (word ^ ones*0x02) - ones*0x21
		backslash := (word ^ ones*'\\') - ones
		if found := (quoteOrControl | backslash) &^ word & tops; found != 0 {
			first := bits.TrailingZeros64(found) // a subtraction borrows from higher bytes only, so the first is right
			upToFound := word << (63 - first)    // without the bytes after it; what is found is ASCII itself
			return pos + first/8, (seen|upToFound)&tops == 0
		}
		seen |= word
	}
	for pos < len(data) && data[pos] >= ' ' && data[pos] != '"' && data[pos] != '\\' {
		seen |= uint64(data[pos])
		pos++
	}
	return pos, seen&tops == 0
}

// decodeEscape decodes the escape sequence with which literal starts. Two that form a surrogate pair are one
// character. It returns the character and the size of the sequence, which is 0 if it is not valid.
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
		low, ok := decodeUnit(literal[6:])
		pair := utf16.DecodeRune(char, low)
		if ok && pair != utf8.RuneError {
			return pair, 12
		}
		return utf8.RuneError, 6
	}
	return char, 6
}

// decodeUnit decodes the UTF-16 code unit of the \u escape with which literal starts. It reports false for anything
// else.
func decodeUnit(literal []byte) (unit rune, ok bool) {
	if len(literal) < 6 || string(literal[:2]) != `\u` {
		return 0, false
	}
	var code [2]byte
	_, err := hex.Decode(code[:], literal[2:6])
	return rune(binary.BigEndian.Uint16(code[:])), err == nil
}
