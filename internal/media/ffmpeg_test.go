//go:build ffmpeg

package media_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/media"
)

// TestFFmpeg_CutRecordings has ffmpeg write 40 seconds of sound in each format, cuts each at every twentieth, and
// prints the verdicts. It needs ffmpeg: go test -tags ffmpeg -run TestFFmpeg -v ./internal/media
func TestFFmpeg_CutRecordings(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		file    string
		kind    media.Kind
		noticed int // how many of the 19 cuts, at least; 0: the headers do not include the length
		options string
	}{
		{"pcm.wav", media.WAV, 19, "-c:a pcm_s16le"},
		{"adpcm.wav", media.WAV, 19, "-c:a adpcm_ima_wav"},
		{"large.wav", media.WAV, 19, "-c:a pcm_s16le -rf64 always"},
		{"pcm.w64", media.W64, 19, "-c:a pcm_s16le"},
		{"pcm.aiff", media.AIFF, 19, "-c:a pcm_s16be"},
		{"aac.m4a", media.MP4, 19, "-c:a aac"},
		{"alac.m4a", media.MP4, 19, "-c:a alac"},
		{"faststart.m4a", media.MP4, 19, "-c:a aac -movflags +faststart"},
		{"fragmented.mp4", media.MP4, 18, "-c:a aac -movflags +frag_keyframe+empty_moov -frag_duration 1000000"},
		{"aac.3gp", media.MP4, 19, "-c:a aac"},
		{"opus.opus", media.Ogg, 18, "-c:a libopus -ar 48000"},
		{"vorbis.ogg", media.Ogg, 18, "-c:a libvorbis"},
		{"flac.oga", media.Ogg, 18, "-c:a flac -f oga"},
		{"opus.webm", media.WebM, 19, "-c:a libopus -ar 48000"},
		{"opus.mka", media.Matroska, 19, "-c:a libopus -ar 48000"},
		{"lame.mp3", media.MP3, 19, "-c:a libmp3lame"},
		{"variable.mp3", media.MP3, 19, "-c:a libmp3lame -q:a 4"},
		{"pcm.caf", media.CAF, 19, "-c:a pcm_s16le"},
		{"wma2.wma", media.ASF, 19, "-c:a wmav2 -b:a 32k"},
		{"live.webm", media.WebM, 0, "-c:a libopus -ar 48000 -live 1"},
		{"bare.mp3", media.MP3, 0, "-c:a libmp3lame -write_xing 0 -id3v2_version 0"},
		{"adts.aac", media.AAC, 0, "-c:a aac"},
		{"flac.flac", media.FLAC, 0, "-c:a flac"},
	} {
		t.Run(tc.file, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), tc.file)
			args := []string{"-loglevel", "error", "-f", "lavfi", "-i", "sine=frequency=440:sample_rate=16000:duration=40"}
			args = append(append(args, strings.Fields(tc.options)...), file)
			output, err := exec.CommandContext(t.Context(), "ffmpeg", args...).CombinedOutput()
			require.NoError(t, err, "%s", output)
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			kind, err := check(data)
			require.NoError(t, err, "the complete recording")
			assert.Equal(t, tc.kind, kind)
			verdicts := checkCuts(data, tc.kind)
			t.Logf("%-16s %7d bytes  %s", tc.file, len(data), verdicts)
			assert.GreaterOrEqual(t, strings.Count(verdicts, "C"), tc.noticed)
			assert.Zero(t, strings.Count(verdicts, "!"), "an error other than that the recording is cut")
		})
	}
}
