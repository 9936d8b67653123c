// Package ingest uploads recordings so that each becomes one note, whatever crashes when, and however often it is started.
//
//	journal, err := ingest.OpenJournal(ctx, "/var/lib/clinic/uploads.journal") // begun once, by BeginJournal
//	...
//	defer journal.Close()
//	recordings, err := ingest.ReadManifest("/srv/recordings/tonight.csv")
//	...
//	uploader := &ingest.Uploader{Client: client, Journal: journal}
//	for result, err := range uploader.Run(ctx, ingest.Recordings(recordings...)) {
//		...
//	}
//
// [Uploader.Run] takes recordings as an iterator and yields a [Result] for each: created, already there, refused, or in
// doubt. What is run again goes on where it ended. [Uploader.Resolve] takes down a person's word on a doubt.
//
// # States
//
// A [Journal] knows each recording by a hash of its key and its service. "Committing" is on the disk before the last bytes of
// the upload leave (CreateNoteParams.BeforeCommit), so that the service cannot have the recording whole before:
//
//	        claimed       a crash here: surely no note, the next run uploads it
//	           |
//	           |          all but the last bytes have left
//	           v
//	       committing     on the disk; only now the last bytes leave
//	       /   |   \
//	      v    |    v     no response, a 5xx, or a crash
//	refused    |   in doubt <--+
//	           |    |  |  |    | FindCreated cannot tell yet
//	           v    |  |  +----+
//	       created <+  |         FindCreated has the note
//	                   +-------> claimed   FindCreated: surely no note
//
// A recording can be refused before it is committed as well; the next run tries it once more. What was written as committing
// is never uploaded again without FindCreated's word: that there is no note takes ten minutes by default, from the moment the
// response was lost, or the next process found the recording. A recording in doubt keeps no worker; [Result].Until tells from
// when on it can be decided.
//
// When the journal fails, the run ends; repair what failed, open it anew and run again, in this process or another.
//
// # An empty journal proves nothing
//
// It may have been lost, or begun in another place. So a recording that the journal does not know is looked for among its
// patient's notes before it is uploaded. A note with its name or its size is read: the same content is "already there". One that
// cannot be read is a doubt, and so is other content as long as it is not known, from a note of this journal, whether the service
// keeps recordings as they were sent.
//
// # Keys
//
// The same key for the same service is the same recording; best it is the encounter's number. [FileKey], the default, is made of
// a file's content, the patient and the note's name. A key that comes back with another patient or another size is refused with [ErrKeyReused].
//
// Recordings that only their content tells apart, with the same patient, name and size, are distinct by their keys, but when
// the responses of two of them are lost and recordings cannot be read back, nothing tells which note is whose: both stay in doubt.
// Give notes names of their own, and set FindCreatedParams.UniqueName in [Uploader].Find where you can guarantee them.
//
// # What nobody can know
//
// Between the journal's line and the last bytes are a few instructions, some 20 microseconds until a service on the same
// idle machine has the upload whole, more when other uploads go on from the same sync. A process that is stopped just there for
// longer than Settle, while another process has its journal, could send them after FindCreated said that there is no note. A
// [FileJournal] is locked by the stopped process for as long as it lives, so that no other can have it; where the file system
// knows no locks, run one process at a time. Deleting the journal, or restoring an old copy, loses what it knows: what the
// service cannot tell either is a doubt. Two journals that are used at the same moment for the same recordings do not know of
// each other.
package ingest
