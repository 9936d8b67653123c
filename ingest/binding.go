package ingest

import "os"

// Key returns the hash under which the journal keeps the recording with this key, as in [Result].JournalKey.
func (b Binding) Key(key string) Key { return keyOf(b.Origin, key) }

// Describe returns the entry by which a journal recognizes a recording. Key, Patient, Name and Size are set, and State
// is not. The recording must have its key; see [Recording.WithKey]. Size is -1 if it is not known, for example because
// the file is on another machine.
func (b Binding) Describe(recording Recording) Entry {
	entry := Entry{Key: b.Key(recording.Key)}
	entry.describe(b.Origin, recording.Params) // Size is that of Params.Audio, or 0 without it
	isAudioRecording := recording.File == "" && recording.Params.Audio != nil
	if isAudioRecording {
		return entry
	}
	entry.Size = -1
	info, err := os.Stat(recording.File)
	if err == nil {
		entry.Size = info.Size()
	}
	return entry
}
