// Package clinicaldoc is a client for a clinical documentation service. A program uploads the recording of a
// patient encounter, and the service transcribes and analyses it into a progress note. A clinician then edits and
// signs the note.
//
//	client, err := clinicaldoc.NewClientFromEnv() // CLINICALDOC_BASE_URL, CLINICALDOC_TOKEN
//	...
//	audio, err := clinicaldoc.AudioFile("encounter.wav")
//	...
//	note, err := client.Notes.CreateOnce(ctx, clinicaldoc.CreateNoteParams{
//		Name: "Follow-up", PatientID: 7, PromptID: 1, Audio: audio,
//	}, clinicaldoc.FindCreatedParams{})
//	...
//	note, err = client.Notes.Wait(ctx, note.ID, clinicaldoc.WaitParams{}) // until it is complete
//	...
//	fmt.Println(note.Transcription, note.Analysis) // what the clinician reviews
//	note, err = client.Notes.Sign(ctx, note.ID, clinicaldoc.IfUnchanged(note))
//	...
//
// One [Client] serves any number of goroutines. [NotesService] works on notes, [TokensService] on the user's access
// tokens, and [UsersService] on the user. [Client.Do] calls endpoints that have no method here. Every method takes a
// context as its first argument and call options such as [WithResponse] as its last. Methods such as Format, LogValue
// and MarshalJSON only print and encode.
//
//   - Errors: a response with a status other than 2xx is an [*Error]. Test it with [errors.Is] and a sentinel such as
//     [ErrNotFound]. Invalid arguments are rejected before any request ([ErrInvalidArgument]). Error texts are safe to
//     log.
//   - Retries: [RetryPolicy] lists what is retried. A create whose response was lost is not: it is an
//     [*OutcomeUnknownError]. [NotesService.CreateOnce] resolves it, or names the notes for a person to compare.
//   - Lists: [NotesService.All] yields every row, or ends with an error ([ErrIncompleteList], [ErrPatientMismatch]).
//   - Users: a client acts with one token, or gets the token of each request from a [TokenSource]. With a source, a
//     server can act for the user who is logged in ([WithTokenSource]).
//   - Privacy: the token goes to the origin of the base URL and nowhere else. Values that hold patients' data print as
//     IDs, flags and stages, in fmt and slog. Only their JSON contains everything.
//
// Package ingest uploads many recordings, one note each, across crashes. Package clinicaldoctest is the service in a
// box, for tests. Module otelclinicaldoc provides [Hooks] for OpenTelemetry. The folder docs has a page for each
// subject.
package clinicaldoc
