//go:build race

package main

// defaultCalls of the load: the race detector makes each several times as slow.
const defaultCalls = 800
