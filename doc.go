// Package clinicaldoc is a client for a clinical documentation service: a program uploads the recording of a patient
// encounter, the service transcribes and analyses it into a progress note, and a clinician edits and signs that.
//
//	client, err := clinicaldoc.NewClientFromEnv() // CLINICALDOC_BASE_URL, CLINICALDOC_TOKEN
//	...
//	audio, err := clinicaldoc.AudioFile("encounter.wav")
//	...
//	note, err := client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{
//		Name: "Follow-up", PatientID: 7, PromptID: 1, Audio: audio,
//	})
//	if unknown, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](err); ok { // the response was lost
//		note, err = client.Notes.FindCreated(ctx, unknown, clinicaldoc.FindCreatedParams{})
//	}
//	...
//	note, err = client.Notes.Wait(ctx, note.ID, clinicaldoc.WaitParams{}) // until it is complete
//	...
//	fmt.Println(note.Transcription, note.Analysis) // what the clinician reviews
//	note, err = client.Notes.Sign(ctx, note.ID, clinicaldoc.IfUnchanged(note))
//	...
//
// Begin with [NewClient]. One [Client] serves any number of goroutines. Its services hold the operations:
//
//   - [NotesService]: [NotesService.Create], [NotesService.Wait] and [NotesService.FindCreated] make a note;
//     [NotesService.Get], [NotesService.Update] and [NotesService.Sign] review it; [NotesService.All] lists,
//     [NotesService.DownloadAudioFile] downloads, [NotesService.Delete] deletes.
//   - [TokensService] and [UsersService]: the user's access tokens, and the user.
//   - [Client.Do] reaches endpoints that have no method here.
//
// Every method takes a context first and call options such as [WithResponse] last. Types that hold data have methods that
// only print or encode, such as Format, LogValue and MarshalJSON: they need no reading, see Privacy below.
//
// # Errors
//
// A response that is no success is an [*Error], tested with [errors.Is] and a sentinel such as [ErrNotFound]. Arguments
// that cannot be right are refused before any request ([ErrInvalidArgument]). A success that is not what the service
// describes is [ErrUnexpectedResponse]; only an optional member that cannot be read is zero, and logged. Error texts are
// safe to log; what the service said is in the error's fields. [Retryable] tells whether the call may be tried later.
//
// # Retries
//
// A failed attempt is retried up to three times by default (see [WithRetry]), after a growing, jittered wait or what
// Retry-After asks for, unless the wait exceeds the policy or the context's deadline; then the typed error comes at once.
//
//   - Reads are retried after 408, 425, 429, 5xx but 501 and 505, and failures of the connection that may pass.
//   - So are updates, deletions and signing. After a lost response the note is read first, and is not written again if
//     its updated_at shows a change ([*ConflictError]). What may have been carried out although the call failed matches
//     [ErrOutcomeUnknown].
//   - Creating a note is retried only when the service cannot have processed it: nothing or only a part was sent, or the
//     status was 429. When the outcome is not known, the error is an [*OutcomeUnknownError].
//
// # A create without a response
//
// [NotesService.FindCreated] looks for the note and says what the evidence allows: it returns the note if no other
// explanation is left, [ErrNotCreated] if ten minutes later (by default) nothing in the whole list resembles it, and otherwise
// the error once more, to be asked about later, also in another process. A name of its own for each note
// (FindCreatedParams.UniqueName) makes the verdict certain. CreateNoteParams.BeforeCommit lets a journal be on disk before
// a note can exist.
//
// # Lists
//
// [NotesService.All] ranges over all notes that [ListNotesParams] select, whichever way the service pages;
// [NotesService.List] gives one page. With a patient set, every row is checked ([ErrPatientMismatch]). A list that is not
// whole ends with [ErrIncompleteList] wherever the service tells enough to notice.
//
// # Long work
//
// [NotesService.Wait] waits until a note is complete, [NotesService.Watch] ranges over its changes, and
// [NotesService.WaitAll] waits for many. What ends a wait early is a [*WaitError]; another process can go on by the note's
// id. [NotesService.DownloadAudio] and [NotesService.DownloadAudioFile] fetch a recording and go on after a cut. Transfers
// take constant memory. They have no total timeout, only one for a standstill ([WithStallTimeout], [ErrStalled]).
//
// # Privacy
//
// The token is sent to the origin of the base URL and nowhere else. Types that hold patients' data print as ids, flags
// and stages with every verb of fmt, and in slog; logger and observer are told an allow-list ([Attempt]). Encoding as JSON
// is explicit and gives everything: slog's JSON handler encodes a slice or map of notes that way, so log notes one by one.
//
// # What the service does not tell
//
// The service's description leaves gaps, and this package works whichever way they are filled: records bare or wrapped in
// data, times with or without a zone, lists paged by numbers or cursors. [WithQueryNames] names the list's parameters.
//
// # Beside this package
//
// Package ingest uploads many recordings, one note each, across crashes. Package clinicaldoctest is the service in a box,
// with a switch for each gap, for the tests of programs that use this package. Module otelclinicaldoc makes OpenTelemetry
// spans and metrics of [Hooks]. The folder docs of the repository has a page for each subject.
package clinicaldoc
