// Package hostile holds the fuzz target of the SDK against a server that sends anything, over HTTP/1.1 and HTTP/2.
package hostile
