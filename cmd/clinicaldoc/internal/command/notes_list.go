package command

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

type listOptions struct {
	*Env
	format
	patient int64
	stage   string
	sort    string
	limit   int
	reveal  bool
	trust   bool
}

func newNotesList(e *Env) *cobra.Command {
	o := &listOptions{Env: e}
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List notes", Args: noArgs,
		Long: "List notes with their ids, stages and times. Tables and JSON contain names, patients and texts " +
			"only with --reveal. The service may shorten texts in lists.",
		Example: "  clinicaldoc notes list --stage complete --limit 0\n" +
			"  clinicaldoc notes list --patient 7 --reveal\n  clinicaldoc notes list --jq '.[].id'",
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	o.flags(c, plainNote{}, clinicaldoc.ProgressNote{})
	f := c.Flags()
	f.Int64Var(&o.patient, "patient", 0, "only notes of the patient with this `ID`; every row is checked")
	f.StringVar(&o.stage, "stage", "", "only notes in this `STAGE`")
	f.StringVar(&o.sort, "sort", "latest", "`ORDER`: latest or oldest first")
	f.IntVar(&o.limit, "limit", 30, "at most this `NUMBER` of notes; 0: all")
	f.BoolVar(&o.reveal, "reveal", false, "also show names and patients")
	f.BoolVar(&o.trust, "trust-patient-filter", false, "with --patient: accept rows without a patient")
	_ = c.RegisterFlagCompletionFunc("stage", cobra.FixedCompletions(
		append(stageNames(), "failed"), cobra.ShellCompDirectiveNoFileComp,
	))
	_ = c.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(
		[]string{"latest", "oldest"}, cobra.ShellCompDirectiveNoFileComp,
	))
	return c
}

func (o *listOptions) params() (clinicaldoc.ListNotesParams, error) {
	params := clinicaldoc.ListNotesParams{
		PatientID: o.patient, Sort: clinicaldoc.Sort(o.sort), PerPage: 100, TrustPatientFilter: o.trust,
	}
	switch {
	case o.sort != string(clinicaldoc.SortLatest) && o.sort != string(clinicaldoc.SortOldest):
		return params, usagef("--sort must be latest or oldest")
	case o.patient < 0 || o.limit < 0:
		return params, usagef("--patient and --limit must not be negative")
	}
	for _, name := range o.names() {
		if !o.reveal && !slices.Contains(plainMembers, name) {
			return params, usagef("--json: %s is shown only with --reveal", quote(name))
		}
	}
	if o.limit > 0 && o.stage == "" {
		params.PerPage = min(o.limit, 100)
	}
	return params, nil
}

func (o *listOptions) run(ctx context.Context) error {
	params, err := o.params()
	if err != nil {
		return err
	}
	var stage clinicaldoc.Stage
	if o.stage != "" {
		if stage, err = parseStage(o.stage); err != nil {
			return err
		}
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	var notes []*clinicaldoc.ProgressNote
	var incomplete error
	for note, err := range client.Notes.All(ctx, params) {
		if errors.Is(err, clinicaldoc.ErrIncompleteList) {
			incomplete = err // what came is right, only not all
			break
		}
		if err != nil {
			return err
		}
		if stage != 0 && note.Stage() != stage {
			continue
		}
		if notes = append(notes, note); len(notes) == o.limit {
			break
		}
	}
	if err := o.paged(ctx, func() error { return o.show(ctx, notes) }); err != nil {
		return err
	}
	if incomplete == nil && len(notes) > 0 && len(notes) == o.limit {
		o.tellCut(ctx, client, params)
	}
	return incomplete
}

// tellCut says of how many the list shows the first.
func (o *listOptions) tellCut(ctx context.Context, client *clinicaldoc.Client, params clinicaldoc.ListNotesParams) {
	params.PerPage = 1
	page, err := client.Notes.List(ctx, params, clinicaldoc.WithoutRetry())
	switch {
	case err == nil && o.stage == "" && page.Meta.Total == o.limit:
	case err == nil && o.stage == "" && page.Meta.Total > 0:
		o.IO.Note("%d of %s; --limit 0 shows all", o.limit, output.Count(page.Meta.Total, "note", "notes"))
	default:
		o.IO.Note("%s, and there may be more; --limit 0 shows all", output.Count(o.limit, "note", "notes"))
	}
}

func (o *listOptions) show(ctx context.Context, notes []*clinicaldoc.ProgressNote) error {
	values := []any{}
	for _, note := range notes {
		value, err := noteValue(note, o.reveal)
		if err != nil {
			return err
		}
		values = append(values, value)
	}
	return o.print(ctx, &o.format, values, func() error {
		heading := []string{"ID", "STAGE", "CREATED", "UPDATED"}
		if o.reveal {
			heading = append(heading, "PATIENT", "NAME")
		}
		var rows [][]string
		for _, note := range notes {
			row := []string{
				strconv.FormatInt(note.ID, 10), note.Stage().String(), o.IO.Time(note.CreatedAt),
				o.IO.Time(note.UpdatedAt),
			}
			if o.reveal {
				row = append(row, patientOf(note), note.Name)
			}
			rows = append(rows, row)
		}
		return o.IO.Table(heading, rows)
	})
}

func patientOf(note *clinicaldoc.ProgressNote) string {
	if id, ok := note.PatientID(); ok {
		return strconv.FormatInt(id, 10)
	}
	return "-"
}
