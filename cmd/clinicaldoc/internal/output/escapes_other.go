//go:build !windows

package output

func enableEscapes() {}
