// Package jetstream lets many machines upload from one queue of recordings. Each recording becomes one note. It
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
// [Journal] is key-value buckets in which every change is a compare-and-set. A worker that uploads a recording for
// longer than a moment has a lease on it and renews it. The write of "committing" is a compare-and-set on the
// record that was read when the upload began. It is made while the last bytes are held back. Of two workers that
// upload the same recording, only one succeeds, and the other's upload stays incomplete. The same holds for a
// worker that was paused beyond its lease and the one that took over. The last bytes decide.
//
// Workers verify the store when they join, after each reconnect and every ten seconds. If a stream is missing, was
// made again or may lose messages, uploads end before a commit, with [ErrStore].
//
// # Clocks
//
// No worker's clock is trusted. A lease ends if its record did not change for its duration. Unresolved recordings
// and limits use the server's clock, so a worker with a wrong clock decides nothing early.
//
// # What it costs
//
// An embedded server syncs every write: three per recording, one after the other in each bucket. A journal with one
// replica therefore uses eight buckets. With three replicas it is one bucket. After a power cut of all servers,
// their sync_interval decides what is left: set it to always if that can happen.
//
// # What nobody can know
//
// If a worker stops between that write and the last byte for longer than Settle, it could send the byte after
// another worker called FindCreated. It checks its clock after the write, and gives up if half the lease has passed
// since before the write. The remaining gap is about 20 microseconds with a service on the same idle machine. Its
// recording is never simply uploaded again: the worker that takes over calls FindCreated, and Settle starts then.
package jetstream
