package simulation

import "net/http"

// reference says which word must follow what the SDK was shown. It is written from the promises, apart from the SDK, so
// that a reader can check it by eye:
//
//   - a request that may have had its effect is doubtful, and so is every error from then on;
//   - Create is never retried after a doubtful attempt; one that was cut is tried once more;
//   - Update and Sign are retried after a doubtful attempt only if a read shows that the note is neither done nor changed;
//   - Delete is done when a retry finds no note after a doubtful attempt, Revoke of the token in use when it is refused;
//   - with IfUnchanged the note is read before every attempt, and nothing is sent when it differs;
//   - Sign reads once more to explain a failure, unless that says enough or asks for a pause.
type reference struct {
	op        string
	unchanged bool
	attempts  int
	rest      []event // not yet looked at
	doubt     bool    // an attempt may have had its effect
}

// take is the next request.
func (r *reference) take() (e event) {
	if len(r.rest) > 0 {
		e, r.rest = r.rest[0], r.rest[1:]
	}
	return e
}

// expect returns the word. What is left of the events then is too much.
func (r *reference) expect() word {
	if r.unchanged {
		if first := r.take(); first.failed {
			return word{kind: "failed"}
		}
	}
	cuts := 0
	failures, refusals := 0, 0 // a refusal by a limit is no failure; as many may come in a row
	for attempt := 1; ; attempt++ {
		e := r.take()
		if e.outcome == nil {
			return word{kind: "an attempt was due"}
		}
		o := *e.outcome
		if o.heard && (!o.cutOff || e.status >= 300) {
			return r.heard(e, attempt)
		}
		r.doubt = r.doubt || o.doubtful(r.op)
		if o.status == 0 && o.sent == headersAndSome {
			cuts++
		}
		var tried int
		if o.status == http.StatusTooManyRequests {
			refusals++
			tried = refusals
		} else {
			refusals = 0
			failures++
			tried = failures
		}
		if !r.mayRetry(o, cuts) || tried == r.attempts {
			return r.explained(word{kind: "failed", unknown: r.doubt}, o.status)
		}
		if r.unchanged || r.doubt && (r.op == "update" || r.op == "sign") {
			if w, over := r.look(r.take()); over {
				return w
			}
		}
	}
}

func (r *reference) mayRetry(o outcome, cuts int) bool {
	if r.op == "create" {
		return !r.doubt && cuts < 2 && (o.status == 0 || o.status == 429)
	}
	return o.mayPass()
}

// heard is the word for the service's own response.
func (r *reference) heard(e event, attempt int) word {
	switch {
	case e.status < 300:
		return r.compared(e.note)
	case e.status == 404 && r.op == "delete" && r.doubt && attempt > 1, e.status == 401 && r.op == "revoke" && r.doubt && attempt > 1:
		return word{kind: "done"}
	case e.status == 404:
		return r.explained(word{kind: "gone", unknown: r.doubt}, e.status)
	}
	return r.explained(word{kind: "failed", unknown: r.doubt}, e.status)
}

// look is the read between two attempts.
func (r *reference) look(e event) (w word, over bool) {
	note := e.note
	switch {
	case e.outcome != nil:
		return word{kind: "a read was due"}, true
	case e.failed:
		return r.explained(word{kind: "failed", unknown: r.doubt}, 501), true
	case !note.exists && r.op == "delete" && r.doubt:
		return word{kind: "done"}, true
	case !note.exists:
		return r.explained(word{kind: "gone", unknown: r.doubt}, 404), true
	case r.doubt && r.op == "update" && note.analysis == ours, r.doubt && r.op == "sign" && note.signed:
		return r.compared(note), true
	case r.op == "sign" && !note.complete:
		return word{kind: "incomplete", unknown: r.doubt}, true
	case note.theirs:
		return word{kind: "conflict", unknown: r.doubt}, true
	}
	return word{}, false
}

// compared is the word for a note that is as the call wants it, held against what the caller read.
func (r *reference) compared(note record) word {
	other := r.op == "update" && note.transcription != original || r.op == "sign" && note.transcription+note.analysis != original+original
	if r.unchanged && other {
		return word{kind: "conflict", claimed: true}
	}
	return word{kind: "done"}
}

// explained is the word after the read by which Sign finds out what a failure means.
func (r *reference) explained(w word, status int) word {
	speaks := status >= 400 && status != 401 && status != 404 && status != 408 && status != 429
	if r.op != "sign" || status == 429 || !w.unknown && !speaks {
		return w
	}
	e := r.take()
	switch note := e.note; {
	case e.outcome != nil:
		return word{kind: "a read was due"}
	case e.failed || !note.exists:
		return w
	case note.signed && w.unknown:
		return r.compared(note)
	case !note.complete:
		return word{kind: "incomplete", unknown: r.doubt}
	}
	return w
}
