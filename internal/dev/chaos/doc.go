// Command chaos puts the SDK behind a network that fails, and compares what callers were told with what the service holds.
//
// Between the SDK and the service in a box stand fault-injecting proxies, one for the API and one for storage. While many
// goroutines create, update, sign, delete, read, list, wait and download, the faults change at random: latency, bandwidth,
// slices, resets, cuts after some bytes, silence. A gateway carries some changes out late, clinicians edit and delete
// meanwhile, and some callers bring transports that retry by themselves. Each caller keeps a ledger of what it was told. Afterwards the outcome of
// every create without an answer is looked up, and the ledgers are compared with the box: nothing twice, nothing lost, nobody's words written over,
// every recording byte-equal, no goroutine and no file left open.
//
//	go run . -ops 20000 -seed 7                        a storm
//	go run . -load -calls 100000                       load without faults
//	go test ./...                                      short runs of both
//	go test ./... -v -run TestStorm -args -ops 20000 -seed 7
//
// The seed decides the faults and the operations, in their order. What meets what is up to the scheduler, so that a seed
// replays a storm's weather and not its every drop.
package main
