package ingest

import (
	"bufio"
	"bytes"
	"context"
	"hash/crc32"
	"io"
	"iter"
)

// Checksum is that of a journal's first line.
func Checksum(text string) uint32 { return crc32.Checksum([]byte(text), castagnoli) }

// Line is a line behind one with this checksum; empty: it is the first.
func Line(sum, text string) string {
	before, _ := parseHex32([]byte(sum))
	line, _ := appendLine(nil, before, []byte(text))
	return string(line)
}

// WriteJournal writes a journal's file as an earlier run would have left it.
func WriteJournal(to io.Writer, service string, entries iter.Seq[Entry]) error {
	w := bufio.NewWriter(to)
	line, sum := appendLine(nil, 0, []byte(headerOf(Owner{Service: service}).String()))
	_, _ = w.Write(line)
	var text []byte
	for e := range entries {
		text = appendEntry(text[:0], e)
		line, sum = appendLine(line[:0], sum, text)
		_, _ = w.Write(line)
	}
	return w.Flush()
}

// CompactAbove makes a journal drop outdated lines as soon as they are more than so many, and the most of it.
func CompactAbove(j *FileJournal, lines uint32) { j.outdatedAllowed = lines }

// TogetherWait is how long a line waits for others.
const TogetherWait = togetherWait

// Entries are those of a journal's file by key, each key's latest.
func Entries(content []byte) (map[Key]Entry, error) {
	j := &FileJournal{index: newFileIndex(), allEntries: map[Key]Entry{}}
	_, err := j.readAll(context.Background(), bytes.NewReader(content))
	return j.allEntries, err
}

// ContainsKey reports whether a name contains a key.
func ContainsKey(name, key string) bool { return containsKey(name, key) }

// CompactedPath returns the path of the new file of a compaction of the journal at path.
func CompactedPath(path string) string { return (&FileJournal{path: path}).compactedPath() }
