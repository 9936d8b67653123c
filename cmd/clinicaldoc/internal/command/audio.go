package command

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/progress"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
)

func newAudio(e *Env) *cobra.Command {
	c := group("audio", "Download recordings", "Download recordings.")
	c.AddCommand(newAudioDownload(e))
	return c
}

type downloadOptions struct {
	*Env
	id         int64
	path       string
	force      bool
	ignoreSize bool
}

func newAudioDownload(e *Env) *cobra.Command {
	o := &downloadOptions{Env: e}
	c := &cobra.Command{
		Use: "download ID FILE", Short: "Download a note's recording",
		Args: exactly(2, "a note's id and a file; - is standard output"),
		Long: "Download a note's recording to a file that only you can read. The file appears when it " +
			"is complete. After a failure, the same command continues the download.",
		Example:           "  clinicaldoc audio download 42 visit.wav\n  clinicaldoc audio download 42 - | ffprobe -",
		ValidArgsFunction: e.completeNotesThenFiles,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if o.id, err = parseID(args[0], "note"); err != nil {
				return err
			}
			o.path = args[1]
			return o.run(c.Context())
		},
	}
	c.Flags().BoolVar(&o.force, "force", false, "replace an existing file")
	c.Flags().BoolVar(
		&o.ignoreSize, "ignore-size", false,
		"accept a recording whose size differs from the note's, if the service re-encodes recordings",
	)
	return c
}

func (o *downloadOptions) run(ctx context.Context) error {
	if o.path == "-" && o.IO.OutTTY && !o.IO.Raw {
		return usagef(
			"a recording is not printed on a terminal, which its bytes could control: name a file, or redirect " +
				"standard output",
		)
	}
	if err := o.checkTarget(o.path); err != nil {
		return err
	}
	if o.path != "-" && !o.force {
		if _, err := os.Lstat(o.path); !errors.Is(err, fs.ErrNotExist) {
			return errFileThere
		}
		ctx = disk.With(ctx, keeping{disk.From(ctx)})
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	show := progress.New(o.IO)
	defer show.Close()
	row := show.Start("recording", -1)
	params := clinicaldoc.DownloadParams{IgnoreSize: o.ignoreSize, OnProgress: row.Set}
	if o.path == "-" {
		_, err = client.Notes.DownloadAudio(ctx, o.id, o.IO.Out, params)
		row.End()
		return err
	}
	size, err := client.Notes.DownloadAudioFile(ctx, o.id, o.path, params)
	row.End()
	show.Close()
	switch {
	case errors.Is(err, errFileThere):
		return errFileThere
	case errors.Is(err, clinicaldoc.ErrInUse):
		return errDownloading
	case err != nil:
		return err
	}
	return o.outf("%d\t%d bytes\n", o.id, size)
}

var errDownloading = &refusedError{
	"another download to the file is in progress", "wait for the other download to end, or name another file",
}

var errFileThere = &refusedError{
	"a file with that name exists, and was not changed", "name another file, or add --force",
}

// keeping is a file system in which no file takes another's place: one can come while a recording is downloaded.
type keeping struct{ disk.FS }

func (k keeping) Rename(from, to string) error {
	if os.Link(from, to) == nil {
		return os.Remove(from)
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return errFileThere
	}
	return k.FS.Rename(from, to) // where there are no links
}
