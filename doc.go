// Package clinicaldoc is a client for a clinical documentation service: a program uploads the recording of a patient
// encounter, the service transcribes and analyses it into a progress note, and a clinician edits and signs that.
//
//	client, err := clinicaldoc.NewClient("https://service.example", token)
//	...
//	audio, err := clinicaldoc.AudioFile("encounter.wav")
//	...
//	note, err := client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{
//		Name: "Follow-up", PatientID: 7, PromptID: 1, Audio: audio,
//	})
//
// One [Client] serves any number of goroutines. Its services hold the operations: [Client.Notes], [Client.Tokens] and
// [Client.Users]; [Client.Do] reaches endpoints that have no method here. Every method takes a context first and call
// options such as [WithResponse] last.
//
// # Errors
//
// A response that is no success is an [*Error], tested with [errors.Is] and a sentinel such as [ErrNotFound] or
// [ErrValidation]. Arguments that cannot be right are refused before any request with [ErrInvalidArgument]. A success
// that is not what the service describes is [ErrUnexpectedResponse], never a zero value; only an optional member that
// cannot be read is zero, and the logger is told of it. Error texts are safe to log: they hold the operation, the route, the status, the request id and names of fields, a note's id, the host that could not be
// reached, and nothing else that the service or the caller said. What the service said is in the error's fields.
//
// # Retries
//
// A failed attempt is retried up to three times by default (see [WithRetry]), after a growing, jittered wait or what
// Retry-After asks for, unless the wait exceeds the policy or the context's deadline; then the typed error comes at once.
//
//   - Reads, updates, deletions and signing are retried after 408, 425, 429, 5xx but 501 and 505, and failures of the
//     connection that may pass, as those of an unknown host or certificate do not. A deletion whose retry finds nothing is
//     done. Before signing is retried the note is read.
//   - Creating a note is retried only when the service cannot have processed it: nothing or only a part was sent, or the
//     response was 429. There are never two notes for one Create. When the outcome is not known, the error is an
//     [*OutcomeUnknownError] and [NotesService.FindCreated] resolves it.
//
// These rules may become stricter or more lenient in a minor version, but never so that a Create makes two notes.
//
// # Lists
//
// [NotesService.All] ranges over all notes that [ListNotesParams] select, whichever way the service pages;
// [NotesService.List] gives one page. With a patient set, every row is checked ([ErrPatientMismatch]).
//
// # Long work
//
// [NotesService.Wait] waits until a note is complete, [NotesService.Watch] ranges over its changes, and
// [NotesService.WaitAll] waits for many. What ends a wait early is a [*WaitError]; another process can go on by the note's
// id. [NotesService.DownloadAudio] and [NotesService.DownloadAudioFile] fetch a recording and go on after a cut. Uploads and
// downloads take constant memory. They have no total timeout, only one for a standstill ([WithStallTimeout]): a deadline of
// the context limits them.
//
// # Testing
//
// Package clinicaldoctest is the service in a box, for the tests of programs that use this package.
//
// # Privacy
//
// The token is sent to the origin of the base URL and nowhere else. Types that hold patients' data print as ids, flags
// and stages with every verb of fmt, and in slog, by value and by pointer; logger and observer are told an allow-list
// ([Attempt]). Encoding as JSON is explicit and gives everything: slog's JSON handler encodes a slice or map of notes that
// way, so log notes one by one. Nor can a value in an unexported field of another struct protect itself from fmt.
//
// # What the service does not tell
//
// The service's description leaves gaps, and this package works whichever way they are filled: a single record may be
// bare or wrapped in data, an empty object may be [], times may lack a zone, success may be any 2xx, lists may be paged by
// numbers or cursors. The names of the list's query parameters can be set with [WithQueryNames]; a service that ignores
// the patient parameter is found out by its rows ([ErrPatientMismatch]).
package clinicaldoc
