// Package jetstream keeps the journal of package ingest in NATS JetStream, for fleets: many machines upload from one set of
// recordings, and each becomes one note.
//
//	conn, err := jetstream.Connect("nats://host:4222") // or jetstream.Embed(ctx, dir), with nothing installed
//	journal, err := jetstream.Open(ctx, conn, jetstream.Params{})
//	uploader := &ingest.Uploader{Client: client, Journal: journal}
//
// [Journal] is a key-value bucket in which every change is a compare-and-set. Whoever uploads a recording for longer than a
// moment holds a lease on it and renews it. The write of "committing" is a compare-and-set on what was seen when the upload
// began, made while its last bytes are held back: of two workers that upload the same, and of one that was paused beyond its
// lease and the one that took over, only one succeeds there, and the other's upload never becomes whole. The last byte is the
// fence.
//
// [Queue] hands recordings out to workers, [Limiter] shares one rate limit among them.
//
// # What it costs
//
// An embedded server syncs every write, two for a recording, and one after the other in each bucket: a journal of one replica
// is spread over eight. With three replicas it is one bucket, and what a power cut of all servers at once leaves of it is up to
// their sync_interval: set it to always if that can happen.
//
// # What nobody can know
//
// A worker that stops between that write and the last byte, for longer than Settle, could send the byte after another asked
// FindCreated. It looks at its clock after the write and gives up when half the lease has passed since before it; a few
// instructions remain, some 20 microseconds until a service on the same idle machine has the upload whole. What it left as
// committing is never just uploaded: whoever takes it over asks FindCreated, whose Settle runs from then.
package jetstream
