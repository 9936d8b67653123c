package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/account"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

type editOptions struct {
	*Env
	id     int64
	field  string
	signed bool
	text   editableText // the one that field names
}

// editableText is a text of a note that people edit.
type editableText struct {
	name  string
	of    func(*clinicaldoc.ProgressNote) string
	param func(*clinicaldoc.UpdateNoteParams) **string
}

var noteTexts = []editableText{
	{
		"analysis",
		func(n *clinicaldoc.ProgressNote) string { return n.Analysis },
		func(p *clinicaldoc.UpdateNoteParams) **string { return &p.Analysis },
	},
	{
		"transcription",
		func(n *clinicaldoc.ProgressNote) string { return n.Transcription },
		func(p *clinicaldoc.UpdateNoteParams) **string { return &p.Transcription },
	},
	{
		"name",
		func(n *clinicaldoc.ProgressNote) string { return n.Name },
		func(p *clinicaldoc.UpdateNoteParams) **string { return &p.Name },
	},
}

// editable are the names of noteTexts.
func editable() (names []string) {
	for _, text := range noteTexts {
		names = append(names, text.name)
	}
	return names
}

func newNotesEdit(e *Env) *cobra.Command {
	o := &editOptions{Env: e}
	c := &cobra.Command{
		Use: "edit ID", Short: "Edit a note's text in your editor", Args: exactly(1, "a note's id"),
		Long: `Edit a note's analysis, transcription or name in $VISUAL or $EDITOR, and save it if nobody else changed
the note. If somebody did, both texts are shown, and yours is kept in a file. An unchanged or empty text is not sent. A
signed note is changed only after you confirm it. Without a terminal, pass --signed.`,
		Example:           "  clinicaldoc notes edit 42\n  clinicaldoc notes edit 42 --field transcription",
		ValidArgsFunction: e.completeNotes,
		RunE:              withID("note", &o.id, o.run),
	}
	c.Flags().StringVar(&o.field, "field", noteTexts[0].name, "the `FIELD` to edit: "+strings.Join(editable(), ", "))
	c.Flags().BoolVar(&o.signed, "signed", false, "change a signed note too")
	_ = c.RegisterFlagCompletionFunc("field", cobra.FixedCompletions(editable(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// params returns the parameters that change the edited field to text.
func (o *editOptions) params(text string) (params clinicaldoc.UpdateNoteParams) {
	*o.text.param(&params) = &text
	return params
}

func (o *editOptions) run(ctx context.Context) error {
	index := slices.Index(editable(), o.field)
	if index < 0 {
		return usagef("--field must be one of %s", strings.Join(editable(), ", "))
	}
	o.text = noteTexts[index]
	client, err := o.client()
	if err != nil {
		return err
	}
	note, err := client.Notes.Get(ctx, o.id)
	if err != nil {
		return err
	}
	if err := o.mayChange(ctx, note); err != nil {
		return err
	}
	folder, err := editFolder(o.id)
	if err != nil {
		return err
	}
	text, err := edit(ctx, filepath.Join(folder, "mine.txt"), o.text.of(note))
	if err != nil {
		return errors.Join(err, o.keepOrRemove(folder, text, o.text.of(note)))
	}
	return o.save(ctx, client, note, folder, text)
}

// save sends an edited text. A text that was emptied, or left as it was, is not sent.
func (o *editOptions) save(
	ctx context.Context, client *clinicaldoc.Client, note *clinicaldoc.ProgressNote, folder, text string,
) error {
	switch {
	case sameText(text, o.text.of(note)):
		o.IO.Note("The text was not changed. Nothing is sent.")
		return os.RemoveAll(folder)
	case isBlank(text):
		o.IO.Note("The text is empty, and an empty text is not sent. The note is unchanged.")
		return os.RemoveAll(folder)
	case o.text.name == "name" && strings.ContainsAny(text, "\r\n"):
		return o.keep(folder, text, refusedf("a name must be one line: nothing was sent"))
	}
	saved, err := client.Notes.Update(ctx, o.id, o.params(text), clinicaldoc.IfUnchanged(note))
	if err != nil {
		return o.keep(folder, text, err)
	}
	return errors.Join(os.RemoveAll(folder), o.outf("%d\t%s\n", saved.ID, saved.Stage()))
}

// isBlank reports whether nothing of a text can be seen.
func isBlank(text string) bool {
	return strings.TrimSpace(strings.ReplaceAll(text, byteOrderMark, "")) == ""
}

// mayChange asks before a signed note is changed.
func (o *editOptions) mayChange(ctx context.Context, note *clinicaldoc.ProgressNote) error {
	switch {
	case !note.Has.Signed || o.signed:
		return nil
	case !o.IO.CanAsk():
		return &refusedError{"the note is signed: nothing was sent", "to change it anyway, add --signed"}
	}
	ok, err := o.IO.Ask(ctx, fmt.Sprintf("Note %d is signed. Change it anyway?", note.ID))
	if err != nil || !ok {
		return orDeclined(err)
	}
	return nil
}

// keep tells where the text is kept that could not be saved, and shows both sides of a conflict.
func (o *editOptions) keep(folder, text string, err error) error {
	// First: whoever reads the texts below may go away, and the process ends with that.
	o.IO.Note("Your text is kept in %s; remove it when you are done.", filepath.Join(folder, "mine.txt"))
	if conflict, ok := errors.AsType[*clinicaldoc.ConflictError](err); ok && conflict.Current != nil {
		theirs := o.text.of(conflict.Current)
		if writeErr := os.WriteFile(filepath.Join(folder, "theirs.txt"), []byte(theirs), 0o600); writeErr != nil {
			o.IO.Note(
				"clinicaldoc: the service's text could not be stored next to yours; \"clinicaldoc notes show\" " +
					"prints it.",
			)
		}
		shown := o.outf(
			"--- yours\n%s--- on the service since %s\n%s", o.IO.Text(output.Marked(text)),
			exactTime(conflict.Current.UpdatedAt), o.IO.Text(output.Marked(theirs)),
		)
		return errors.Join(err, shown)
	}
	return err
}

// editFolder is a folder for this user alone, where a reboot removes nothing.
func editFolder(id int64) (string, error) {
	parent, err := account.StateFolder("edits")
	if err != nil {
		return "", err
	}
	return os.MkdirTemp(parent, fmt.Sprintf("note-%d-", id))
}

// keepOrRemove removes the folder unless it holds work: a changed text, one that could not be read, or what a
// killed editor has put beside it.
func (o *editOptions) keepOrRemove(folder, text, before string) error {
	files, err := os.ReadDir(folder)
	others := slices.ContainsFunc(files, func(file os.DirEntry) bool { return file.Name() != "mine.txt" })
	info, statErr := os.Lstat(filepath.Join(folder, "mine.txt"))
	unread := text == "" && statErr == nil && info.Size() > 0
	noWork := text == "" || sameText(text, before)
	if err == nil && !others && !unread && noWork {
		return os.RemoveAll(folder)
	}
	// no error: of a signal nothing else is told
	o.IO.Note("Your text is kept in %s; remove it when you are done.", folder)
	return nil
}

// edit lets the editor change a text and returns it as it is then, also after an error. Marks and ends of lines that
// editors of Windows add to all of a file are no change of the text.
func edit(ctx context.Context, path, before string) (string, error) {
	text := before
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", err
	}
	run := interactive(ctx, cmp.Or(firstSet("VISUAL", "EDITOR"), defaultEditor()), path)
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, os.Stdout, os.Stderr
	runErr := leaveInterruptsTo(run, func() {})
	switch {
	case wasInterrupted(runErr):
		runErr = output.ErrInterrupted
	case runErr != nil:
		runErr = errors.New("the editor failed: nothing was sent; set VISUAL or EDITOR to use another one")
	}
	edited, err := readEdited(path)
	text = string(edited)
	if !strings.HasPrefix(before, byteOrderMark) {
		text = strings.TrimPrefix(text, byteOrderMark)
	}
	if !strings.Contains(before, "\r\n") {
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	return strings.TrimSuffix(text, "\n"), errors.Join(runErr, err)
}

// readEdited reads what the editor left: a file, and not a FIFO that somebody put in its place.
func readEdited(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("the editor removed the file: nothing was sent")
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("the editor did not leave a regular file: nothing was sent")
	case info.Size() > output.MaxText:
		return nil, fmt.Errorf("the edited text cannot be sent: %w", &output.TooLongError{Limit: output.MaxText})
	}
	return os.ReadFile(path)
}

const byteOrderMark = "\ufeff"

// sameText leaves aside the newline that editors put at the end.
func sameText(a, b string) bool { return strings.TrimRight(a, "\n") == strings.TrimRight(b, "\n") }

func defaultEditor() string {
	if runtime.GOOS == "windows" {
		return "notepad"
	}
	return "vi"
}
