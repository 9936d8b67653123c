// Package ingest uploads recordings so that each becomes one note, whatever crashes when, and however often it is started.
//
//	journal, err := ingest.OpenJournal(ctx, "uploads.journal")
//	...
//	defer journal.Close()
//	uploader := &ingest.Uploader{Client: client, Journal: journal}
//	for result, err := range uploader.Run(ctx, ingest.Files(paths, params)) {
//		...
//	}
//
// [Uploader.Run] takes recordings as an iterator and yields a [Result] for each: created, already there, refused, or in
// doubt. What is run again goes on where it ended.
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
// When the journal fails, the run ends; mend it, open it anew and run again, in this process or another.
//
// # Keys
//
// The same key for the same service is the same recording. [FileKey], the default, is made of a file's content, the patient
// and the note's name. A key that comes back with another patient or another size is refused with [ErrKeyReused].
//
// Recordings that only their content tells apart, with the same patient, name and size, are distinct by their keys, but when
// the responses of two of them are lost, nothing tells which note is whose: both stay in doubt. Give notes names of their own,
// and set FindCreatedParams.UniqueName in [Uploader].Find where you can vouch for them.
//
// # What nobody can know
//
// Between the journal's line and the last bytes are a few instructions, some 20 microseconds until a service on the same
// idle machine has the upload whole, more when other uploads go on from the same sync. A process that is stopped just there for
// longer than Settle, while its journal is in other hands, could send them after FindCreated said that there is no note. A
// [FileJournal] is locked by the stopped process for as long as it lives, so that no other hands can have it; where the file
// system knows no locks, run one process at a time. Who deletes the journal, or restores an old copy, takes away what it knows.
package ingest
