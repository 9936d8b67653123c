package clinicaldoctest

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// audio is a stored recording. Its file's name owes nothing to the uploaded one.
type audio struct {
	key         string // its path below the storage's audio folder
	contentType string
	sha256      string
	size        int64   // as it was sent
	stored      int64   // as the storage has it
	duration    float64 // seconds
	bitrate     int64   // bits per second
	uploadedAt  time.Time
	expiresAt   time.Time
	content     []byte // where there is no disk
	silent      bool   // seeded silence, which needs neither
}

// assumedBitrate is used to estimate the duration of anything but WAV.
const assumedBitrate = 128_000

var audioExtensions = []string{".wav", ".mp3", ".m4a", ".mp4", ".ogg", ".flac", ".webm", ".aac"}

// storageError is a failure of the server's own disk, in contrast to a
// failure to read what is to be stored.
type storageError struct{ error }

// saveAudio keeps a recording, on disk or in memory. From the uploaded file's name only a known extension is kept.
func (s *state) saveAudio(content io.Reader, fileName, contentType string, now time.Time) (*audio, error) {
	extension := strings.ToLower(filepath.Ext(fileName))
	if !slices.Contains(audioExtensions, extension) {
		extension = ".bin"
	}
	if _, _, err := mime.ParseMediaType(contentType); err != nil {
		contentType = "application/octet-stream"
	}
	a := &audio{
		key: rand.Text() + extension, contentType: contentType,
		uploadedAt: now, expiresAt: now.Add(s.variant().AudioRetention),
	}
	hash := sha256.New()
	save := s.saveToDisk
	if s.srv.dir == "" {
		save = s.saveToMemory
	}
	if err := save(a, io.TeeReader(content, hash)); err != nil {
		return nil, err
	}
	a.sha256 = hex.EncodeToString(hash.Sum(nil))
	return a, nil
}

// reencoding is appended to a recording that the storage changes.
var reencoding = make([]byte, 64)

// reportedSize returns the size of the recording in a note.
func (a *audio) reportedSize(stored StoredAudio) int64 {
	if stored == AudioReencodedUntold {
		return a.size
	}
	return a.stored
}

// saveToMemory keeps a recording in its content.
func (s *state) saveToMemory(a *audio, content io.Reader) (err error) {
	if a.content, err = io.ReadAll(content); err != nil {
		return err
	}
	a.size = int64(len(a.content))
	a.duration, a.bitrate = describeAudio(bytes.NewReader(a.content), a.size)
	if s.variant().Audio != AudioAsSent {
		a.content = append(a.content, reencoding...)
	}
	a.stored = int64(len(a.content))
	return nil
}

// saveToDisk keeps a recording in a file, which it removes after an error.
func (s *state) saveToDisk(a *audio, content io.Reader) (err error) {
	file, err := os.OpenFile(s.srv.audioFile(a), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return storageError{err}
	}
	defer func() {
		if closeErr := file.Close(); err == nil && closeErr != nil {
			err = storageError{closeErr}
		}
		if err != nil {
			s.srv.removeFile(a)
		}
	}()
	if a.size, err = copyToDisk(file, content); err != nil {
		return err
	}
	a.duration, a.bitrate = describeAudio(file, a.size)
	a.stored = a.size
	if s.variant().Audio != AudioAsSent {
		more, err := copyToDisk(file, bytes.NewReader(reencoding))
		a.stored += more
		return err
	}
	return nil
}

// copyToDisk copies in pieces of fixed size, whatever the size of the whole.
func copyToDisk(file *os.File, content io.Reader) (size int64, err error) {
	piece := make([]byte, 128<<10)
	for {
		n, readErr := content.Read(piece)
		if _, err := file.Write(piece[:n]); err != nil {
			return size, storageError{err}
		}
		size += int64(n)
		switch {
		case errors.Is(readErr, io.EOF):
			return size, nil
		case readErr != nil:
			return size, readErr
		}
	}
}

// keepAudio stores the recording of a note, so that storage finds it. After a reset it removes the recording's file
// instead. The caller holds the lock.
func (s *state) keepAudio(n *note) {
	switch {
	case n.audio == nil:
	case n.audio.silent: // it is found by its note
	case s.wasReset:
		s.srv.removeFile(n.audio)
	default:
		s.audio[n.audio.key] = n.audio
	}
}

const silencePrefix = "silence-"

// audioKey is the storage's name of a note's recording.
func (n *note) audioKey() string {
	if n.audio.silent {
		return silencePrefix + strconv.FormatInt(n.id, 10) + ".wav"
	}
	return n.audio.key
}

// findAudio returns the recording that the storage has under a key, or nil. A silent recording is found by its note,
// whose ID is in the key.
func (s *state) findAudio(key string) *audio {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.audio[key]; a != nil {
		return a
	}
	name := strings.TrimSuffix(strings.TrimPrefix(key, silencePrefix), ".wav")
	id, _ := strconv.ParseInt(name, 10, 64) // 0 is no note
	n := s.notes.get(id).current()
	if n == nil || n.audio == nil || n.audioKey() != key {
		return nil
	}
	return n.audio
}

// dropAudio forgets the recording of a deleted note. The caller holds the lock. It removes the file after it has
// released the lock, because that may take long.
func (s *state) dropAudio(a *audio) {
	if a != nil {
		delete(s.audio, a.key)
	}
}

func (s *Server) audioFile(a *audio) string { return filepath.Join(s.dir, a.key) }

// removeFile deletes a recording's file; a running download keeps what it opened.
func (s *Server) removeFile(a *audio) {
	if a != nil && !a.silent && s.dir != "" {
		_ = os.Remove(s.audioFile(a))
	}
}

// seededAudio returns the recording of a seeded note. Silent notes of one size that are seeded within a second share
// one.
func (s *state) seededAudio(n Note, now time.Time) (*audio, error) {
	if n.Audio != nil {
		return s.saveAudio(bytes.NewReader(n.Audio), "seed.wav", "audio/wav", now)
	}
	size := cmp.Or(n.AudioSize, wavHeaderSize+wavBytesPerSecond)
	if size < wavHeaderSize {
		return nil, fmt.Errorf("audio of %d bytes has no room for a header", size)
	}
	last := s.silence.Load()
	if last != nil && last.size == size && now.Sub(last.uploadedAt).Abs() < time.Second {
		return last, nil
	}
	a := &audio{
		contentType: "audio/wav", silent: true,
		sha256: silenceSHA256(size), size: size, stored: size,
		duration: float64(size-wavHeaderSize) / wavBytesPerSecond, bitrate: wavBytesPerSecond * 8,
		uploadedAt: now, expiresAt: now.Add(s.variant().AudioRetention),
	}
	if s.variant().Audio != AudioAsSent {
		a.stored += int64(len(reencoding))
	}
	s.silence.Store(a)
	return a, nil
}

// knownSilences has the SHA-256 of silent recordings by their sizes.
var knownSilences sync.Map

// silenceSHA256 returns the SHA-256 of the silent recording of a size, in hexadecimal digits. It computes that once for
// each size.
func silenceSHA256(size int64) string {
	if sum, known := knownSilences.Load(size); known {
		return fmt.Sprint(sum)
	}
	hash := sha256.New()
	_, _ = io.Copy(hash, silence(size, size)) // as it was uploaded; neither reading nor hashing fails
	sum := hex.EncodeToString(hash.Sum(nil))
	knownSilences.Store(size, sum)
	return sum
}

// silence returns the silent recording that was uploaded with a size. The storage may have it with another size,
// because it re-encodes recordings.
func silence(size, stored int64) *io.SectionReader {
	return io.NewSectionReader(silentFile(silenceHeader(size-wavHeaderSize)), 0, stored)
}

// silentFile is a header and zeros without end.
type silentFile []byte

// ReadAt reads from anywhere, and never fails.
func (header silentFile) ReadAt(p []byte, offset int64) (int, error) {
	clear(p)
	copy(p, header[min(offset, int64(len(header))):])
	return len(p), nil
}

const (
	wavHeaderSize     = 44
	wavBytesPerSecond = 16_000
)

// silenceHeader returns the header of a mono WAV file, 16 bits at 8 kHz. A size that does not fit into its field of 32
// bits is written as the highest value.
func silenceHeader(dataSize int64) []byte {
	field := func(size int64) uint32 { return uint32(min(size, math.MaxUint32)) } //nolint:gosec // cut to fit
	little := binary.LittleEndian
	const sizeBeforeRest = 8 // of "RIFF" and the field after it, which counts only the rest of the file
	header := append([]byte("RIFF"), little.AppendUint32(nil, field(wavHeaderSize-sizeBeforeRest+dataSize))...)
	header = append(header, "WAVEfmt "...)
	header = little.AppendUint32(header, 16)                  // size of the format, which follows
	header = little.AppendUint16(header, 1)                   // PCM
	header = little.AppendUint16(header, 1)                   // one channel
	header = little.AppendUint32(header, wavBytesPerSecond/2) // samples per second
	header = little.AppendUint32(header, wavBytesPerSecond)
	header = little.AppendUint16(header, 2)  // bytes per sample
	header = little.AppendUint16(header, 16) // bits per sample
	header = append(header, "data"...)
	return little.AppendUint32(header, field(dataSize))
}

// describeAudio reads duration and bitrate from a WAV header and estimates
// them for everything else.
func describeAudio(file io.ReaderAt, size int64) (duration float64, bitrate int64) {
	if duration, bitrate, ok := describeWAV(file, size); ok {
		return duration, bitrate
	}
	return float64(size) * 8 / assumedBitrate, assumedBitrate
}

// describeWAV reads the chunks of a WAV file up to its data. It reports false if the file is not a WAV file, or has no
// format or no data.
func describeWAV(file io.ReaderAt, size int64) (duration float64, bitrate int64, ok bool) {
	var riff [12]byte
	_, err := file.ReadAt(riff[:], 0)
	isWAV := string(riff[:4]) == "RIFF" && string(riff[8:]) == "WAVE"
	if err != nil || !isWAV {
		return 0, 0, false
	}
	var bytesPerSecond int64
	for offset := int64(len(riff)); ; {
		var chunk [8]byte
		if _, err := file.ReadAt(chunk[:], offset); err != nil {
			return 0, 0, false
		}
		offset += int64(len(chunk))
		length := int64(binary.LittleEndian.Uint32(chunk[4:]))
		switch string(chunk[:4]) {
		case "fmt ":
			var format [16]byte
			if _, err := file.ReadAt(format[:], offset); err != nil {
				return 0, 0, false
			}
			bytesPerSecond = int64(binary.LittleEndian.Uint32(format[8:]))
		case "data":
			if bytesPerSecond == 0 {
				return 0, 0, false
			}
			length = min(length, size-offset) // recorders write any length when they stream
			return float64(length) / float64(bytesPerSecond), bytesPerSecond * 8, true
		}
		offset += length + length%2 // chunks are padded to even lengths
	}
}
