package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// command is the module that is released as binaries.
const commandDir = "cmd/clinicaldoc"

// platforms are those the binaries are for.
var platforms = []string{"darwin/amd64", "darwin/arm64", "linux/amd64", "linux/arm64", "windows/amd64", "windows/arm64"}

// build compiles the command for every platform in a fresh clone of the tag, and packs each with its bill of materials.
// The same commit and Go release give the same bytes anywhere.
func (r repository) build(ctx context.Context, v version, target string, platforms []string) error {
	folder, remove, err := temporary()
	if err != nil {
		return err
	}
	defer remove()
	if target, err = filepath.Abs(target); err != nil {
		return err
	}
	if err := os.MkdirAll(target, 0o755); err != nil { //nolint:gosec // made to be read by others
		return err
	}
	clone := r.in(filepath.Join(folder, "clone"))
	if _, err := r.git(ctx, "clone", "--quiet", "--branch", string(v), ".", clone.dir); err != nil {
		return err
	}
	modules, err := clone.modules(ctx)
	if err != nil {
		return err
	}
	if err := clone.isTagged(ctx, v, modules); err != nil {
		return err
	}
	env, err := r.fetching(ctx, modules[0].path, clone.dir, filepath.Join(folder, "modules"))
	if err != nil {
		return err
	}
	// Stamped with the version, which needs a clean checkout, and without the paths of this machine.
	clone = clone.with(env...).with("CGO_ENABLED=0", "GOFLAGS=-mod=readonly -buildvcs=true "+flags)
	pages, err := clone.manPages(ctx, filepath.Join(folder, "man"))
	if err != nil {
		return err
	}
	for _, platform := range platforms {
		if err := clone.buildFor(ctx, platform, v, modules[0].path, folder, target, pages); err != nil {
			return err
		}
	}
	return writeSums(target)
}

// manPages makes the command's pages, dated by the commit, so that they are the same anywhere.
func (r repository) manPages(ctx context.Context, folder string) ([]packedFile, error) {
	seconds, err := r.git(ctx, "log", "-1", "--format=%ct")
	if err != nil {
		return nil, err
	}
	if _, err := r.in(commandDir).with("SOURCE_DATE_EPOCH="+strings.TrimSpace(seconds)).goCommand(ctx, "run", "./internal/gen", "man", folder); err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(folder, "*.1"))
	if err != nil {
		return nil, err
	}
	var pages []packedFile
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		pages = append(pages, packedFile{"man/man1/" + filepath.Base(path), 0o644, content})
	}
	return pages, nil
}

// buildFor compiles and packs the command for a platform, with the licences of all that is linked into it. The modules
// of this repository have paths that begin with ours.
func (r repository) buildFor(
	ctx context.Context, platform string, v version, ours, folder, target string, pages []packedFile,
) error {
	system, processor, _ := strings.Cut(platform, "/")
	binary := filepath.Join(folder, "clinicaldoc")
	if system == "windows" {
		binary += ".exe"
	}
	command := r.in(commandDir).with("GOOS="+system, "GOARCH="+processor)
	if _, err := command.goCommand(ctx, "build", "-ldflags=-s -w", "-o", binary, "."); err != nil {
		return err
	}
	bill, err := billOfMaterials(binary, v)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("clinicaldoc_%s_%s_%s", v.number(), system, processor)
	if err := os.WriteFile(filepath.Join(target, name+".cdx.json"), bill, 0o644); err != nil { //nolint:gosec // made to be read by others
		return err
	}
	files, err := readAll(binary, filepath.Join(r.dir, "LICENSE"))
	if err != nil {
		return err
	}
	notices, err := command.notices(ctx, ours)
	if err != nil {
		return err
	}
	files = append(files, packedFile{"NOTICES", 0o644, notices})
	packed, suffix := tarball(append(files, pages...)), ".tar.gz"
	if system == "windows" { // which has no use for the pages
		packed, suffix = zipped(files), ".zip"
	}
	r.say("%s%s: %d bytes", name, suffix, len(packed))
	return os.WriteFile(filepath.Join(target, name+suffix), packed, 0o644) //nolint:gosec // made to be read by others
}

// packedFile is what goes into an archive, without a time or an owner.
type packedFile struct {
	name    string
	mode    os.FileMode
	content []byte
}

// readAll returns the files by their bare names, the first as a program.
func readAll(paths ...string) ([]packedFile, error) {
	var files []packedFile
	for i, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		mode := os.FileMode(0o644)
		if i == 0 {
			mode = 0o755
		}
		files = append(files, packedFile{filepath.Base(path), mode, content})
	}
	return files, nil
}

// tarball packs files. Writing into memory cannot fail, nor can names this short.
func tarball(files []packedFile) []byte {
	var out bytes.Buffer
	compressed, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	archive := tar.NewWriter(compressed)
	for _, f := range files {
		_ = archive.WriteHeader(&tar.Header{Name: f.name, Mode: int64(f.mode), Size: int64(len(f.content)), Format: tar.FormatUSTAR})
		_, _ = archive.Write(f.content)
	}
	_ = archive.Close()
	_ = compressed.Close()
	return out.Bytes()
}

func zipped(files []packedFile) []byte {
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate}
		header.SetMode(f.mode)
		w, _ := archive.CreateHeader(header)
		_, _ = w.Write(f.content)
	}
	_ = archive.Close()
	return out.Bytes()
}

// writeSums writes SHA256SUMS over all other files, as sha256sum -c reads it.
func writeSums(target string) error {
	entries, err := os.ReadDir(target)
	if err != nil {
		return err
	}
	var sums []string
	for _, entry := range entries {
		if entry.Name() == "SHA256SUMS" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(target, entry.Name()))
		if err != nil {
			return err
		}
		sums = append(sums, fmt.Sprintf("%x  %s\n", sha256.Sum256(content), entry.Name()))
	}
	slices.Sort(sums)
	return os.WriteFile(filepath.Join(target, "SHA256SUMS"), []byte(strings.Join(sums, "")), 0o644) //nolint:gosec // made to be read by others
}
