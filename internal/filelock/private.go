package filelock

import "github.com/clinicaldoc/clinicaldoc-go/internal/redact"

// ErrNotPrivate means that a file that should be continued may hold what others wrote. All that [CheckPrivate] refuses
// matches it.
var ErrNotPrivate = redact.New("the file is not a private one of this user")

// Why a file is not private.
var (
	ErrOthers     = redact.Fail("it belongs to another user of this machine", ErrNotPrivate)
	ErrLinked     = redact.Fail("it has another name as well (a hard link)", ErrNotPrivate)
	ErrNotRegular = redact.Fail("it is not a regular file", ErrNotPrivate)
	ErrWritable   = redact.Fail("others may write to it: see that it is right, then make it yours alone (chmod 600)", ErrNotPrivate)
)

// private is the mode of files that are for this user alone.
const private = 0o600
