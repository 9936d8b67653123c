// Package ingest uploads recordings so that each becomes one note, across crashes and restarts.
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
// [Uploader.Run] takes recordings as an iterator and yields a [Result] for each. A run that is started again continues
// where the last one ended. [Uploader.Resolve] saves a manual decision about a recording.
//
// A recording is done when its note has reached [Uploader].Until. By default the note must exist for Run, and be
// complete for [Uploader.RunAll]. The journal keeps how far each note is, and later runs read incomplete notes again. A
// note that the service could not process is "failed" in every run, until a person decides to send the recording again
// or names another note.
//
// # States
//
// A [Journal] identifies each recording by a hash of its key and its service. The state "committing" is on disk before
// the last bytes of the upload leave (CreateNoteParams.BeforeCommit), so the service cannot have the complete recording
// before that:
//
//	        claimed       after a crash here there is no note; the next run uploads it
//	           |
//	           |          all but the last bytes have left
//	           v
//	       committing     on disk; only now the last bytes leave
//	       /   |   \
//	      v    |    v     no response, a 5xx, or a crash
//	refused    | unresolved <--+
//	           |    |  |  |    | FindCreated cannot decide yet
//	           v    |  |  +----+
//	       created <+  |         FindCreated found the note
//	                   +-------> claimed   FindCreated: there is no note
//
// A recording can also be refused before it is committed; the next run tries it once more. A recording that was
// committing is uploaded again only after FindCreated has proof that there is no note. By default that takes ten
// minutes from the moment the response was lost, or from the moment another process found the recording. An
// unresolved recording does not occupy a worker. [Result].Until is the time from which it can be decided.
//
// If the journal fails, the run ends. Repair the cause, open the journal again and start another run, in this process
// or another.
//
// # An empty journal proves nothing
//
// A journal may have been lost, or begun in another place. So before a recording that the journal does not know is
// uploaded, the patient's notes are searched. Candidates are notes that have the recording's name, its size or no size,
// except notes of other recordings in the journal. Their recordings are read:
//
//   - A note with the same bytes is "already there".
//   - A note with the same name is ruled out if its recording differs and the client's [clinicaldoc.Assumptions]
//     state that recordings are unchanged. Otherwise the recording is unresolved, and [Result].Candidates names the
//     note.
//   - A note with another name is not the recording's if its recording differs or cannot be read.
//
// # Keys
//
// The same key for the same service is the same recording; the encounter's number is a good key. [FileKey], the
// default, is made of a file's content, the patient and the note's name. A key that comes back with another patient or
// another size is refused with [ErrKeyReused].
//
// One recording can become several notes of a patient, each with its own key and name. They are sent one after the
// other, because only their order distinguishes their notes after a lost response.
//
// If a service changes recordings or does not return them, put the key into the note's name; see [Recording].Key. If
// all names are unique, set FindCreatedParams.UniqueName in [Uploader].Find.
//
// # What nobody can know
//
// A few instructions lie between the journal's line and the last bytes. On an idle machine they take about 20
// microseconds. A process may be stopped exactly there for longer than Settle, while another process has its journal.
// It could then send the last bytes after FindCreated reported that there is no note. A stopped process keeps its
// [FileJournal] locked, so no other process can open it. If the file system does not support locks, run one process at
// a time.
//
// Two journals that are used for the same recordings at the same time do not know of each other.
//
// Deleting the journal, or restoring an old copy, loses what it knows. A note that was renamed, and whose recording is
// gone, can then not be recognized: its recording is uploaded again.
package ingest
