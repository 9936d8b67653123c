package redact

// Text is an error whose text is a constant without data.
type Text string //nolint:errname // it reads as redact.Text("words")

func (t Text) Error() string { return string(t) }

// SafeText is the error's text.
func (t Text) SafeText() string { return string(t) }

// New returns a sentinel: a Text that matches nothing but itself, as what errors.New returns.
func New(text string) error { return &sentinel{Text(text)} }

type sentinel struct{ Text }
