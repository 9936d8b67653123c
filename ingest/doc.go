// Package ingest uploads recordings so that each becomes one note, across crashes and restarts.
package ingest
