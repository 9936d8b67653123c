package command

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/report"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

var audioEndings = []string{
	".wav", ".mp3", ".m4a", ".mp4", ".aac", ".ogg", ".oga", ".opus", ".flac", ".webm", ".wma", ".aif", ".aiff", ".amr",
	".3gp", ".caf", ".dss", ".ds2",
}

// checkNumbers rejects options that are out of range.
func (o *uploadOptions) checkNumbers() error {
	switch {
	case o.workers < 1 || o.workers > 64:
		return usagef("--workers must be 1 to 64")
	case o.settle < 0:
		return usagef("--settle must not be negative")
	case o.maxWait < 0:
		return usagef("--max-wait must not be negative")
	case o.maxPause < 0:
		return usagef("--max-pause must not be negative")
	}
	return nil
}

// recordings lists what is to be uploaded, in the order of the paths.
func (o *uploadOptions) recordings(ctx context.Context) ([]ingest.Recording, error) {
	var list []ingest.Recording
	err := o.checkNumbers()
	switch {
	case err != nil:
		return nil, err
	case slices.ContainsFunc(o.ignore, func(pattern string) bool {
		_, err := filepath.Match(pattern, "")
		return err != nil
	}):
		return nil, usagef("--ignore needs a pattern such as '*.txt'")
	case o.manifest != "" && len(o.paths) > 0:
		return nil, usagef("name files or a manifest, not both")
	case o.manifest != "":
		list, err = o.fromManifest(ctx)
	case len(o.paths) == 0:
		return nil, &usageError{"name files, folders or a manifest", "clinicaldoc upload --help"}
	case o.patient < 1 || o.prompt < 1:
		return nil, usagef("--patient and --prompt are needed")
	default:
		list, err = o.fromPaths()
	}
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, refusedf("there is no recording, and %s left out: nothing was sent",
			output.Count(len(o.left), "file or folder was", "files or folders were"))
	}
	if o.unique {
		return list, checkUnique(list)
	}
	return list, nil
}

// checkUnique refuses what --unique-names cannot mean: names of one patient that are equal, or of which one begins
// another.
func checkUnique(list []ingest.Recording) error {
	type named struct {
		patient int64
		name    string
		number  int
	}
	var names []named
	for i := range list {
		names = append(names, named{list[i].Params.PatientID, strings.TrimSpace(list[i].Params.Name), i + 1})
	}
	slices.SortFunc(names, func(a, b named) int {
		return cmp.Or(cmp.Compare(a.patient, b.patient), cmp.Compare(a.name, b.name))
	})
	for i := 1; i < len(names); i++ {
		if a, b := names[i-1], names[i]; a.patient == b.patient && strings.HasPrefix(b.name, a.name) {
			return usagef(
				"--unique-names: the name of recording %d begins with the name of recording %d of the same patient",
				b.number, a.number,
			)
		}
	}
	return nil
}

func (o *uploadOptions) fromPaths() ([]ingest.Recording, error) {
	var files []string
	for _, path := range o.paths {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			o.leaveOut(path, "it cannot be read: "+reason(err))
			return nil, &usageError{
				"a file or folder in the arguments cannot be read: " + reason(err),
				"check the path, and whether its share is mounted; then run the same command again",
			}
		case !info.IsDir():
			files = append(files, path)
			continue
		}
		root := path + string(filepath.Separator) // it may be a link
		err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if path == root && err == nil { // it is wanted, also if its name is hidden or ".."
				return nil
			}
			taken, err := o.visit(path, entry, err)
			if taken {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return nil, refusedf("a folder cannot be read: %s", reason(err))
		}
	}
	slices.Sort(files)
	files = o.withoutAliases(slices.Compact(files))
	recordings := make([]ingest.Recording, len(files))
	for i, path := range files {
		recordings[i] = ingest.Recording{
			File:   path,
			Params: clinicaldoc.CreateNoteParams{Name: nameOf(path), PatientID: o.patient, PromptID: o.prompt},
		}
	}
	return recordings, nil
}

// withoutAliases leaves out files that are taken under another name, which would be another note's. Links give way.
func (o *uploadOptions) withoutAliases(files []string) []string {
	type form struct{ size, modified int64 } // alike for all names of a file, and for few others
	type named struct {
		os.FileInfo
		name string
	}
	var own, links []string
	for _, path := range files {
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			links = append(links, path)
		} else {
			own = append(own, path)
		}
	}
	taken, aliases := map[form][]named{}, map[string]bool{}
	for _, path := range slices.Concat(own, links) {
		info, err := os.Stat(path)
		if err != nil {
			continue // the upload tells
		}
		f := form{info.Size(), info.ModTime().UnixNano()}
		if slices.ContainsFunc(taken[f], func(n named) bool {
			return n.name != nameOf(path) && os.SameFile(n.FileInfo, info)
		}) {
			aliases[path] = true
			o.leaveOut(path, "it is another name of a file that this upload already contains")
		} else {
			taken[f] = append(taken[f], named{info, nameOf(path)})
		}
	}
	return slices.DeleteFunc(files, func(path string) bool { return aliases[path] })
}

// leftOut is what a folder holds and an upload does not take.
type leftOut report.LeftOut

func (o *uploadOptions) leaveOut(path, why string) {
	o.left = append(o.left, leftOut{Reason: why, File: path})
}

// leftOutError is how an upload ends that left something out, and is nil if it did not.
func (o *uploadOptions) leftOutError() error {
	if len(o.left) == 0 {
		return nil
	}
	text := output.Count(len(o.left), "file or folder was", "files or folders were") + " left out"
	return &runError{codeSome, text, cmp.Or(o.leftOutDo, "--reveal names them; --ignore leaves out files by pattern")}
}

// visit decides on one entry of a folder, or on a folder that cannot be read.
func (o *uploadOptions) visit(path string, entry fs.DirEntry, err error) (taken bool, skip error) {
	hidden := strings.HasPrefix(entry.Name(), ".") && len(entry.Name()) > 1
	switch {
	case err != nil:
		o.leaveOut(path, "it cannot be read: "+reason(err))
		if entry.IsDir() {
			return false, fs.SkipDir
		}
		return false, nil
	case hidden && entry.IsDir():
		return false, fs.SkipDir
	case hidden, entry.IsDir(), o.isIgnored(entry.Name()):
		return false, nil
	}
	if why := notTaken(path); why != "" {
		o.leaveOut(path, why)
		return false, nil
	}
	return true, nil
}

func (o *uploadOptions) isIgnored(name string) bool {
	return slices.ContainsFunc(o.ignore, func(pattern string) bool {
		ok, _ := filepath.Match(pattern, name)
		return ok
	})
}

// notTaken says why something in a folder is left out; empty: it is a recording.
func notTaken(path string) string {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "it cannot be read: " + reason(err)
	case info.IsDir():
		return "it is a link to a folder"
	case !info.Mode().IsRegular():
		return "it is not a regular file"
	case !slices.Contains(audioEndings, strings.ToLower(filepath.Ext(path))):
		return "its extension is not that of an audio file"
	}
	return ""
}

func nameOf(path string) string {
	base := filepath.Base(path)
	return cmp.Or(strings.TrimSuffix(base, filepath.Ext(base)), base)
}

// reason is an error of the file system without the path in it, which may be a patient's name.
func reason(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	if e, ok := errors.AsType[*output.TooLongError](err); ok {
		return e.Error()
	}
	return "it cannot be used"
}

// fromManifest reads the list of recordings; a note is called as its file where the list does not say.
func (o *uploadOptions) fromManifest(ctx context.Context) ([]ingest.Recording, error) {
	list, err := output.Await(ctx, func() ([]ingest.Recording, error) {
		return ingest.ReadManifest(o.manifest, ingest.WithDefaults(o.patient, o.prompt))
	})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		o.leaveOut(o.manifest, "the manifest cannot be used")
	}
	if _, listed := errors.AsType[*ingest.ManifestError](err); err != nil && !listed {
		return nil, usagef("%s", errorText(err))
	}
	for i := range list {
		list[i].Params.Name = cmp.Or(list[i].Params.Name, nameOf(list[i].File))
	}
	return list, err
}
