//go:build !unix

package fetch

const noFollow = 0 // openRegular compares what it opened
