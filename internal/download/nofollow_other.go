//go:build !unix

package download

const noFollow = 0 // openRegular compares what it opened
