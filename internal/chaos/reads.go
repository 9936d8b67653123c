package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/clinicaldoc/clinicaldoc-go"
)

func (c *caller) get(ctx context.Context, d draw) error {
	r := c.pick(d)
	note, err := c.client.Notes.Get(ctx, r.id)
	if err == nil {
		c.compare(r, note)
	}
	return err
}

// download fetches a recording into memory or a file and keeps its sum. What an error left behind is promised to nobody.
func (c *caller) download(ctx context.Context, d draw) error {
	r := c.pick(d)
	var received io.Reader
	if d.form%2 == 0 {
		path := filepath.Join(c.dir, fmt.Sprintf("down-%d.wav", c.patientID))
		defer os.Remove(path) //nolint:errcheck // in a temporary directory
		if _, err := c.client.Notes.DownloadAudioFile(ctx, r.id, path, clinicaldoc.DownloadParams{}); err != nil {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close() //nolint:errcheck // it was only read
		received = file
	} else {
		var buffer bytes.Buffer
		if _, err := c.client.Notes.DownloadAudio(ctx, r.id, &buffer, clinicaldoc.DownloadParams{}); err != nil {
			return err
		}
		received = &buffer
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, received); err != nil {
		return err
	}
	r.downloads = append(r.downloads, hex.EncodeToString(sum.Sum(nil)))
	return nil
}

// list ranges over the patient's notes: each that is there once, none that is gone, none of another patient.
func (c *caller) list(ctx context.Context, d draw) error {
	expected, gone := map[int64]*record{}, map[int64]bool{}
	moving := false // pages shift under a deletion that is still on its way
	for _, r := range c.records {
		switch {
		case r.id == 0:
		case r.deleted == done:
			gone[r.id] = true
		case r.deleted == unsure:
			moving = true
		default:
			expected[r.id] = r
		}
	}
	seen := map[int64]bool{}
	params := clinicaldoc.ListNotesParams{PatientID: c.patientID, PerPage: 5 + d.form%20, Prefetch: d.note % 2}
	for note, err := range c.client.Notes.All(ctx, params) {
		if err != nil {
			return err
		}
		if id, told := note.Patient.ID(); !told || id != c.patientID {
			c.found.untrue("patient %d: listed a note of another", c.patientID)
		}
		if seen[note.ID] {
			c.found.untrue("patient %d: listed a note twice", c.patientID)
		}
		if gone[note.ID] {
			c.found.loss("patient %d: listed a note that was deleted", c.patientID)
		}
		if r := expected[note.ID]; r != nil {
			c.compare(r, note)
		}
		seen[note.ID] = true
	}
	for id, r := range expected {
		if !seen[id] && !moving {
			c.found.loss("%s: missing in a complete list", r.name)
		}
	}
	return nil
}
