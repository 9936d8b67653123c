// Package hostile fuzzes the methods of the SDK against a server that sends any bytes, over HTTP/1.1 and HTTP/2. A
// method may not panic, hang, leave a goroutine behind or return another record than was asked for. go test tries the
// seeds of the fuzzer; this tries more:
//
//	go test -C internal/dev ./hostile -fuzz FuzzServer -fuzztime 3m
package hostile
