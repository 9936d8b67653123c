package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
)

func (c *caller) get(ctx context.Context, d draw) error {
	r := c.pick(d)
	note, err := c.client.Notes.Get(ctx, r.id)
	if err == nil {
		c.compare(r, note)
	}
	return c.judge("get", r.id, err)
}

// wait waits for one note, or for all there are; a note that a clinician deletes meanwhile is an error, any other comes once.
func (c *caller) wait(ctx context.Context, d draw) error {
	often := clinicaldoc.WaitParams{Interval: 50 * time.Millisecond, MaxInterval: 200 * time.Millisecond}
	if d.form%2 == 0 {
		r := c.pick(d)
		note, err := c.client.Notes.Wait(ctx, r.id, often)
		if err == nil {
			c.compare(r, note)
		}
		return c.judge("wait", r.id, err)
	}
	waiting := map[int64]*record{}
	var ids []int64
	for _, r := range c.live {
		waiting[r.id] = r
		ids = append(ids, r.id)
	}
	var failure error
	for note, err := range c.client.Notes.WaitAll(ctx, ids, often) {
		if err != nil {
			if missed, ok := errors.AsType[*clinicaldoc.WaitError](err); ok {
				_ = c.judge("wait", missed.ID, err)
			}
			failure = err
			continue
		}
		r := waiting[note.ID]
		if r == nil {
			c.found.untrue("patient %d: waited for a note twice, or for another", c.patientID)
			continue
		}
		delete(waiting, note.ID)
		c.compare(r, note)
	}
	if failure == nil && len(waiting) > 0 {
		c.found.untrue("patient %d: a wait ended without %d notes", c.patientID, len(waiting))
	}
	return failure
}

// download fetches a recording into memory or a file and keeps its sum. What an error left behind is promised to nobody.
func (c *caller) download(ctx context.Context, d draw) error {
	r := c.pick(d)
	var received io.Reader
	if d.form%2 == 0 {
		path := filepath.Join(c.dir, fmt.Sprintf("down-%d.wav", c.patientID))
		defer os.Remove(path) //nolint:errcheck // in a temporary directory
		if _, err := c.client.Notes.DownloadAudioFile(ctx, r.id, path, clinicaldoc.DownloadParams{IgnoreSize: d.note%2 == 0}); err != nil {
			return c.judge("download", r.id, err)
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close() //nolint:errcheck // it was only read
		received = file
	} else {
		var buffer bytes.Buffer
		if _, err := c.client.Notes.DownloadAudio(ctx, r.id, &buffer, clinicaldoc.DownloadParams{IgnoreSize: d.note%2 == 0}); err != nil {
			return c.judge("download", r.id, err)
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
	for _, r := range c.records {
		switch {
		case r.id == 0:
		case r.deleted == done, c.ward.removed(r.id):
			gone[r.id] = true
		case r.deleted == unsure:
		default:
			expected[r.id] = r
		}
	}
	seen := map[int64]bool{}
	params := clinicaldoc.ListNotesParams{PatientID: c.patientID, PerPage: 5 + d.form%20, Prefetch: d.note % 2, Verify: d.note%4 == 0}
	for note, err := range c.client.Notes.All(ctx, params) {
		if errors.Is(err, clinicaldoc.ErrIncompleteList) {
			c.told++
		}
		if err != nil {
			return c.judge("list", 0, err)
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
		if !seen[id] && !c.ward.removing(id) {
			c.found.loss("%s: missing in a complete list", r.name)
		}
	}
	return nil
}
