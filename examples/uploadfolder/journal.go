package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// journal records, in a file of JSON lines, which uploads were begun and which note each became. A line is on disk
// before the step after it is taken.
type journal struct {
	mu      sync.Mutex
	file    *os.File
	entries map[string]entry
}

type entry struct {
	File    string    `json:"file"`
	BegunAt time.Time `json:"begun_at"`
	NoteID  int64     `json:"note_id,omitempty"` // 0: no answer yet
}

// openJournal reads what earlier runs wrote. A last line that was cut off by a crash is dropped: its step was not taken.
func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	j := &journal{file: file, entries: map[string]entry{}}
	var whole int64
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		var e entry
		if err == nil {
			err = json.Unmarshal(line, &e)
		}
		switch {
		case errors.Is(err, io.EOF):
			return j, errors.Join(file.Truncate(whole), seekEnd(file))
		case err != nil:
			return nil, errors.Join(errors.New("the journal is damaged; look at it before uploading again"), err, file.Close())
		}
		whole += int64(len(line))
		j.entries[e.File] = e
	}
}

func seekEnd(file *os.File) error {
	_, err := file.Seek(0, io.SeekEnd)
	return err
}

func (j *journal) find(file string) (entry, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, ok := j.entries[file]
	return e, ok
}

func (j *journal) begun(file string) error {
	return j.write(entry{File: file, BegunAt: time.Now().UTC()})
}

func (j *journal) done(file string, noteID int64) error {
	known, _ := j.find(file)
	known.NoteID = noteID
	return j.write(known)
}

func (j *journal) write(e entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return err
	}
	j.entries[e.File] = e
	return j.file.Sync()
}

// Close closes the journal's file.
func (j *journal) Close() error { return j.file.Close() }
