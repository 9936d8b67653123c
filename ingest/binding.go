package ingest

import "os"

// Key returns the key under which the journal keeps the recording with that key, as in [Result].JournalKey.
func (b Binding) Key(key string) Key { return keyOf(b.Origin, key) }

// Describe returns what a journal knows a recording by: an entry with Key, Patient, Name and Size, and without a State.
// The recording must have its key; see [Recording.WithKey]. Size is -1 if it cannot be found out on this machine.
func (b Binding) Describe(recording Recording) Entry {
	entry := Entry{Key: b.Key(recording.Key)}
	entry.describe(b.Origin, recording.Params)
	if recording.Params.Audio != nil {
		return entry
	}
	entry.Size = -1
	info, err := os.Stat(recording.File)
	if err == nil {
		entry.Size = info.Size()
	}
	return entry
}
