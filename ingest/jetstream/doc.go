// Package jetstream lets many machines upload from one queue of recordings, so that each becomes one note. It
// keeps queue, journal and rate limit in NATS JetStream.
//
//	conn, err := jetstream.Connect("nats://host:4222") // or jetstream.Embed(ctx, dir), with nothing installed
//	fleet, err := jetstream.Join(ctx, conn, jetstream.Params{})
//	err = fleet.Publish(ctx, recording)                // from any machine
//	for result, err := range fleet.Work(ctx, &ingest.Uploader{Client: client, Workers: 8}) {
//		...
//	}
//
// [Begin] makes a fleet, once. [Fleet.Work] has three endings for a recording: it has a note; it is tried again
// later; it is a dead letter, which a person can list and send again. Nothing else takes it out of the queue.
//
// # The journal
//
// [Journal] is key-value buckets in which every change is a compare-and-set. Whoever uploads a recording for
// longer than a moment holds a lease on it and renews it. The write of "committing" is a compare-and-set on what
// was seen when the upload began, made while its last bytes are held back: of two workers that upload the same,
// and of one that was paused beyond its lease and the one that took over, only one succeeds there, and the other's
// upload never becomes whole. The last byte is the fence.
//
// The store verifies itself when a worker joins, after each reconnect and every ten seconds: a stream that is
// missing, was made anew or may lose what it holds ends the uploads, before a commit, with [ErrStore].
//
// # Clocks
//
// No worker's clock is trusted: leases go by how long a record stood still, doubts and limits by the server's
// clock. A worker whose clock is wrong decides nothing early.
//
// # What it costs
//
// An embedded server syncs every write, three for a recording, and one after the other in each bucket: a journal
// of one replica is spread over eight. With three replicas it is one bucket, and what a power cut of all servers
// at once leaves of it is up to their sync_interval: set it to always if that can happen.
//
// # What nobody can know
//
// A worker that stops between that write and the last byte, for longer than Settle, could send the byte after
// another asked FindCreated. It looks at its clock after the write and gives up when half the lease has passed
// since before it; a few instructions remain, some 20 microseconds until a service on the same idle machine has
// the upload whole. What it left as committing is never just uploaded: whoever takes it over asks FindCreated,
// whose Settle runs from then.
package jetstream
