package faultmatrix

import "maps"

// result says how a call must end.
type result int

const (
	absent           result = iota // the fault does not concern the operation
	success                        // with the right result
	failure                        // and surely nothing was created
	unknownOutcome                 // the service may have acted
	successOrUnknown               // which one is a race that the SDK cannot win; it must not guess
	anyFailure                     // as above, but surely no success
	wholeOrTold                    // a list that is whole, or an error that says that it may not be
)

// promise is what must hold when a fault meets an operation.
type promise struct {
	result   result
	is       []error // the error matches all of these
	like     func(error) bool
	status   int  // of the *Error within; 0: any or none
	attempts span // of the SDK
	requests span // on the wire
	lie      bool // the answer claims a success that nobody can disprove
}

type span struct{ least, most int }

func (s span) plus(n int) span { return span{s.least + n, s.most + n} }

func promised(r result, attempts int, is []error) promise {
	exactly := span{attempts, attempts}
	return promise{result: r, is: is, attempts: exactly, requests: exactly}
}

// The promises: how the call ends, after how many attempts, with what errors.

func succeeds(attempts int) promise             { return promised(success, attempts, nil) }
func fails(attempts int, is ...error) promise   { return promised(failure, attempts, is) }
func unknown(attempts int, is ...error) promise { return promised(unknownOutcome, attempts, is) }
func settles(attempts int) promise              { return promised(successOrUnknown, attempts, nil) }
func breaks(attempts int, is ...error) promise  { return promised(anyFailure, attempts, is) }

// upTo allows more attempts.
func (p promise) upTo(most int) promise {
	p.attempts.most = most
	p.requests.most = most
	return p
}

// wire says how many requests arrive, where that differs from the attempts.
func (p promise) wire(least, most int) promise {
	p.requests = span{least, most}
	return p
}

func (p promise) withStatus(status int) promise {
	p.status = status
	return p
}

func (p promise) thatIs(like func(error) bool) promise {
	p.like = like
	return p
}

func (p promise) lying() promise {
	p.lie = true
	return p
}

// promises are a row's, by the kind of operation; own are those of operations that differ from their kind.
type promises struct {
	reads, repeats, creates, storage promise
	own                              map[string]promise
}

func everywhere(p promise) promises {
	return promises{reads: p, repeats: p, creates: p, storage: p}
}

// safeToRepeat is a row on which creates differ. Where they may have been carried out, so may other changes, and a
// failure says so.
func safeToRepeat(others, creates promise) promises {
	p := everywhere(others)
	p.creates = creates
	if others.result == failure && creates.result == unknownOutcome {
		p.repeats.result = unknownOutcome
	}
	return p
}

// with gives some operations promises of their own.
func (p promises) with(own promise, names ...string) promises {
	merged := map[string]promise{}
	maps.Copy(merged, p.own)
	for _, name := range names {
		merged[name] = own
	}
	p.own = merged
	return p
}

// fault is one row of the matrix.
type fault struct {
	name string
	promises

	// What is struck, and how often: requests, connections or dials to the operation's target.
	strike  func(*strike)               // a request whose header was read
	accept  func(*strike)               // a connection nobody has read from
	frames  func(*h2Conn)               // a connection that speaks HTTP/2
	refused bool                        // a dial
	times   int                         // 0: once; forEver
	warm    func(*strike)               // the end of an earlier call on the same connection
	audio   func(*world, string) string // what becomes of the audio's address
	note    func(string) string         // what becomes of a note that is read

	// What others do meanwhile.
	afterRead func(*world)      // once the caller has read the note that it is about to edit
	inWindow  func(*world)      // between the SDK's own read and its edit
	onPage    func(*world, int) // before the page with this number, counted in requests, is made

	setting
	commits   bool // struck requests are carried out
	methods   bool // the row is also run with the methods that have no endpoint
	elsewhere bool // the other origin may be asked, without the token
	edits     bool // a colleague's edit must survive
	paced     bool // an upload is whole and waits for its answer, the longer the larger it is
}

const forEver = -1

// promise finds what holds for an operation.
func (f fault) promise(op operation) promise {
	p, has := f.own[op.name]
	switch {
	case has:
		return p
	case op.named, op.methodOnly && !f.methods:
		return promise{}
	}
	if p, has = f.own[op.like]; !has {
		p = map[kind]promise{reads: f.reads, repeats: f.repeats, creates: f.creates, storage: f.storage}[op.kind]
	}
	switch {
	case op.refuses && p.result != absent:
		// Wherever the fault strikes: nothing was created, and that is said.
		return fails(1).upTo(4).wire(0, 4)
	case op.guarded && f.onConnection() || op.guarded && f.warm != nil:
		p.attempts.least, p.requests.least = 1, 0 // the reads in between take their share of the strikes
	}
	return p
}

// onConnection tells whether the fault strikes before a request can be told from another.
func (f fault) onConnection() bool { return f.accept != nil || f.frames != nil || f.refused }

// skip is how many requests pass before the fault: a listing is struck on its second page, unless at the connection.
func (f fault) skip(op operation) int {
	if op.listed && !f.onConnection() {
		return 1
	}
	return 0
}
