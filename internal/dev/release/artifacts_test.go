package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var packed = []packedFile{{"program", 0o755, []byte("synthetic program")}, {"LICENSE", 0o644, []byte("synthetic")}}

func TestArchives_HaveNoTimeAndNoOwner(t *testing.T) {
	t.Parallel()
	first := tarball(packed)
	assert.Equal(t, first, tarball(packed), "the same bytes each time")
	unzipped, err := gzip.NewReader(bytes.NewReader(first))
	require.NoError(t, err)
	header, err := tar.NewReader(unzipped).Next()
	require.NoError(t, err)
	assert.Equal(t, "program", header.Name)
	assert.Equal(t, int64(0o755), header.Mode)
	assert.Zero(t, header.ModTime.Unix())
	assert.Empty(t, header.Uname)

	first = zipped(packed)
	assert.Equal(t, first, zipped(packed), "the same bytes each time")
	archive, err := zip.NewReader(bytes.NewReader(first), int64(len(first)))
	require.NoError(t, err)
	require.Len(t, archive.File, 2)
	assert.Equal(t, os.FileMode(0o755), archive.File[0].Mode())
}

func TestWriteSums_NamesEveryFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("abc"), 0o600))
	require.NoError(t, writeSums(dir))
	require.NoError(t, writeSums(dir), "and not themselves")
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	require.NoError(t, err)
	assert.Equal(t, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a.txt\n", string(sums))
}

func TestBillOfMaterials_ListsLinkedModules(t *testing.T) {
	t.Parallel()
	r, _ := newRepository(t, small)
	_, err := r.with("GOFLAGS=-buildvcs=false").in("cmd/tool").goCommand(t.Context(), "build", "-o", "tool.exe", ".")
	require.NoError(t, err)
	text, err := billOfMaterials(filepath.Join(r.dir, "cmd", "tool", "tool.exe"), "v0.2.0")
	require.NoError(t, err)
	var read bill
	require.NoError(t, json.Unmarshal(text, &read))
	assert.Equal(t, "CycloneDX", read.Format)
	assert.Equal(t, "pkg:golang/github.com/clinicaldoc/rehearsal/cmd/tool@v0.2.0", read.Metadata.Component.PURL)
	var names []string
	for _, c := range read.Components {
		names = append(names, c.Name)
	}
	assert.Equal(t, []string{"std", "github.com/clinicaldoc/rehearsal", "github.com/clinicaldoc/rehearsal/below"}, names)
}

func TestManPages_AreTheSameEachTime(t *testing.T) {
	t.Parallel()
	r := repository{dir: "../../..", out: &bytes.Buffer{}, env: []string{"GOFLAGS=-buildvcs=false"}}
	pages, err := r.manPages(t.Context(), filepath.Join(t.TempDir(), "man"))
	require.NoError(t, err)
	again, err := r.manPages(t.Context(), filepath.Join(t.TempDir(), "man"))
	require.NoError(t, err)
	assert.Equal(t, pages, again)
	var names []string
	for _, page := range pages {
		names = append(names, page.name)
	}
	assert.Contains(t, names, "man/man1/clinicaldoc-upload-report.1")
}
