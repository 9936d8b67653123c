//go:build !race

package main

// defaultCalls of the load.
const defaultCalls = 3000
