package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// create uploads a recording that no other note has under a name that no other note has.
func (c *caller) create(ctx context.Context, d draw) error {
	c.serial++
	name := fmt.Sprintf("Synthetic %d-%05d", c.patientID, c.serial) // none begins like another
	size := min(d.size, c.maxSize)
	if c.sameName {
		size = 4096 + 64*c.serial // what looks alike must differ in something that can be told
	}
	recording := c.recording(name, size)
	sum := sha256.Sum256(recording)
	r := &record{name: name, title: name, patientID: c.patientID, sum: hex.EncodeToString(sum[:]), size: int64(len(recording)), outcome: notSent}
	if c.sameName {
		r.title = fmt.Sprintf("Synthetic %d", c.patientID)
	}
	c.records = append(c.records, r)
	audio, err := c.audio(recording, d.form)
	if err != nil {
		return err
	}
	note, err := c.client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{Name: r.title, PatientID: c.patientID, PromptID: 1, Audio: audio})
	var unknown *clinicaldoc.OutcomeUnknownError
	switch {
	case errors.As(err, &unknown):
		r.outcome, r.lost = lost, unknown
		if c.onLost != nil {
			c.onLost(r)
		}
	case err == nil:
		r.outcome, r.id = created, note.ID
		c.live = append(c.live, r)
		c.ward.learn(r.id)
		c.compare(r, note)
	}
	return c.judge("create", r.id, err)
}

// recording returns bytes that say whose they are.
func (c *caller) recording(name string, size int) []byte {
	b := []byte("synthetic recording of " + name + "\n")
	for len(b) < size {
		b = append(b, byte(c.serial), byte(len(b)), byte(len(b)>>8), byte(c.patientID), byte(len(b)>>16))
	}
	return b
}

// audio offers the recording in one of the ways the SDK takes it.
func (c *caller) audio(recording []byte, form int) (*clinicaldoc.AudioSource, error) {
	switch form %= 4; {
	case form == 0 && !c.sized:
		return clinicaldoc.AudioReader("synthetic.wav", strings.NewReader(string(recording))), nil
	case form == 1:
		return clinicaldoc.AudioReaderAt("synthetic.wav", strings.NewReader(string(recording)), int64(len(recording))), nil
	case form == 2:
		path := filepath.Join(c.dir, fmt.Sprintf("up-%d.wav", c.patientID))
		if err := os.WriteFile(path, recording, 0o600); err != nil {
			return nil, err
		}
		return clinicaldoc.AudioFile(path)
	}
	return clinicaldoc.AudioBytes("synthetic.wav", recording), nil
}
