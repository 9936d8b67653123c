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
// [Uploader.Run] takes recordings as an iterator and yields a [Result] for each. A run that is started again continues where
// the last one ended. [Uploader.Resolve] saves a manual decision about a recording.
//
// A recording is done when its note has reached [Uploader].Until, which is the note's existence for Run, and its completion for
// [Uploader.RunAll], unless the caller sets it. The journal keeps how far each note has come. A note that is not complete is
// read again by later runs. One that the service could not process is "failed" in every run, until a person decides to send the
// recording again, or names another note.
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
// A journal may have been lost, or begun in another place. So the patient's notes are searched before a recording is uploaded
// that the journal does not know. Candidates are the notes that no other recording of the journal has, and that have the
// recording's name, its size, or no size. Their recordings are read. A note with the same bytes is "already there". A note with
// the same name is ruled out only if its recording differs and the client's [clinicaldoc.Assumptions] state that recordings
// are unchanged; otherwise the recording is in doubt, and [Result].Candidates names the note. A note with another name that
// differs, or that cannot be read, is not the recording's.
//
// # Keys
//
// The same key for the same service is the same recording; the encounter's number is a good key. [FileKey], the default, is
// made of a file's content, the patient and the note's name. A key that comes back with another patient or another size is
// refused with [ErrKeyReused].
//
// One recording can become several notes of a patient, each with its own key and name. They are sent one after the other,
// because only their order tells their notes apart once a response is lost.
//
// Where a service changes recordings or does not return them, put the key into the note's name; see [Recording].Key. If all
// names are unique, set FindCreatedParams.UniqueName in [Uploader].Find.
//
// # What nobody can know
//
// Between the journal's line and the last bytes are a few instructions, some 20 microseconds until a service on the same
// idle machine has the upload whole, more when other uploads go on from the same sync. A process that is stopped just there for
// longer than Settle, while another process has its journal, could send them after FindCreated said that there is no note. A
// [FileJournal] is locked by the stopped process for as long as it lives, so that no other can have it; where the file system
// knows no locks, run one process at a time. Two journals that are used at the same moment for the same recordings do not know
// of each other.
//
// Deleting the journal, or restoring an old copy, loses what it knows. A note that was renamed, and whose recording is gone,
// can then not be recognized: its recording is uploaded again.
package ingest
