package output

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// The bounds of what is read from standard input and from files that the user names.
const (
	MaxToken = 64 << 10 // a token, and any other single line
	MaxText  = 64 << 20 // a request body, a field's text, an edited text
)

// TooLongError reports an input that is longer than its bound.
type TooLongError struct{ Limit int64 }

func (e *TooLongError) Error() string {
	if e.Limit < 1<<20 {
		return fmt.Sprintf("it is longer than %d KiB", e.Limit>>10)
	}
	return fmt.Sprintf("it is longer than %d MiB", e.Limit>>20)
}

// Await returns the result of do, or the context's cause if the context ends first. In that case do continues in the
// background: a read from a pipe or a terminal cannot be canceled, but the process is about to exit.
func Await[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := do()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var zero T
		return zero, context.Cause(ctx)
	}
}

// ReadAll reads from until its end, the end of the context, or an error. It returns a [*TooLongError] after limit
// bytes.
func ReadAll(ctx context.Context, from io.Reader, limit int64) ([]byte, error) {
	return Await(ctx, func() ([]byte, error) { return readAll(from, limit) })
}

// ReadFile is [ReadAll] for a file. Opening it also ends with the context, since a FIFO may never have a writer.
func ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	return Await(ctx, func() ([]byte, error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		return readAll(file, limit)
	})
}

func readAll(from io.Reader, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err == nil && int64(len(text)) > limit {
		return nil, &TooLongError{limit}
	}
	return text, err
}

// readLine reads a line of at most limit bytes, without its end.
func readLine(from *bufio.Reader, limit int) (string, error) {
	var line []byte
	for {
		part, err := from.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > limit {
			return "", &TooLongError{int64(limit)}
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			err = nil
		}
		return string(line), err
	}
}
