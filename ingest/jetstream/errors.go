package jetstream

import "github.com/clinicaldoc/clinicaldoc-go/internal/redact"

// Sentinels for [errors.Is].
var (
	// ErrNoFleet: the server has no fleet of that name. [Begin] makes a new one.
	ErrNoFleet = redact.New("there is no such fleet")
	// ErrFleetExists: [Begin] found a fleet of that name.
	ErrFleetExists = redact.New("the fleet exists already")
	// ErrStore: a stream of the fleet is missing, was made again, or may lose messages. Nothing is uploaded; see
	// [Repair].
	ErrStore = redact.New("the fleet's store cannot be trusted")
	// ErrQueueFull: a limit of the queue, or of the server, refused the recording. It is not stored.
	ErrQueueFull = redact.New("the queue is full")
	// ErrDeadLetter: the recording became a dead letter. [Fleet.Redrive] sends it again.
	ErrDeadLetter = redact.New("the recording is a dead letter")
	// ErrServerTooOld: the NATS server is older than version 2.11. Nothing is stored or uploaded; update the server.
	ErrServerTooOld = redact.New("the NATS server is too old")
	// ErrOlderWorkers: workers of an older version run in the fleet, and [Join] cannot upgrade its store. End them.
	ErrOlderWorkers = redact.New("workers of an older version run")

	// errEngine marks failures of the engine.
	errEngine = redact.New("the fleet's server does not respond")
)

// fail makes an error with a text that is safe to print: the engine knows only hashes, so that its words hold no
// names.
func fail(text string, causes ...error) error { return redact.Fail("jetstream: "+text, causes...) }

// unreachable is the failure of an engine that does not respond.
func unreachable(err error) error {
	return fail("the fleet's server cannot be reached, or refuses: "+err.Error(), err, errEngine)
}
