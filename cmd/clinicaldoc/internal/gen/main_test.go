package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReference_Commands_IsCurrent(t *testing.T) {
	t.Parallel()
	var made bytes.Buffer
	require.NoError(t, run(nil, &made))
	kept, err := os.ReadFile("../../REFERENCE.md")
	require.NoError(t, err)
	isCurrent := strings.ReplaceAll(string(kept), "\r\n", "\n") == made.String()
	assert.True(t, isCurrent, "REFERENCE.md is out of date: go run ./internal/gen > REFERENCE.md")
}

func TestManPages_EveryCommand_HasOne(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "man")
	require.NoError(t, run([]string{"man", folder}, io.Discard))
	pages, err := filepath.Glob(filepath.Join(folder, "*.1"))
	require.NoError(t, err)
	assert.Contains(t, pages, filepath.Join(folder, "clinicaldoc-notes-sign.1"))
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		assert.Contains(t, string(text), ".TH \"CLINICALDOC\"", page)
	}
}

// A misspelled command must not print the reference into a release, or make a folder.
func TestRun_OtherArguments_AreRejected(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "man")
	for _, args := range [][]string{{"man"}, {"men", folder}, {"man", folder, folder}, {folder}} {
		var made bytes.Buffer
		require.Error(t, run(args, &made), args)
		assert.Empty(t, made.String(), args)
		assert.NoDirExists(t, folder)
	}
}

func TestCommands_EveryOne_HasHelpAndExamples(t *testing.T) {
	t.Parallel()
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.Name() == "help" || sub.Name() == "completion" {
				continue
			}
			assert.NotEmpty(t, sub.Short, sub.CommandPath())
			if sub.Runnable() && !sub.HasSubCommands() {
				assert.NotEmpty(t, sub.Example, sub.CommandPath())
			}
			visit(sub)
		}
	}
	visit(root())
}
