package ingest

import "os"

// Key returns the hash under which the journal keeps the recording with this key, as in [Result].JournalKey.
func (b Binding) Key(key string) Key { return keyOf(b.Origin, key) }

// Keys returns the hashes under which the journal may keep the recording. The first one is that of its key. The others
// are hashes of earlier versions, in which they depended on how letters are composed. Most recordings have none. The
// recording must have its key; see [Recording.WithKey].
//
// The journal keeps the recording under the first of these hashes that [Journal].EntriesForPatient returns, or else
// under the first one.
func (b Binding) Keys(recording Recording) []Key {
	current, earlier := recording.keys()
	keys := []Key{b.Key(current)}
	for _, key := range earlier {
		keys = append(keys, hashKey(b.Origin, key))
	}
	return keys
}

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
