package command

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/account"
	"github.com/clinicaldoc/clinicaldoc-go/internal/gaps"
)

// askGaps asks what the description leaves open and adds a line for each question.
func (d *doctor) askGaps(ctx context.Context) {
	if len(d.broken) > 0 {
		d.tellGap(ctx, check{Name: "gaps", State: skipped, Detail: "the checks above must succeed first"})
		return
	}
	a, err := d.account()
	if err != nil {
		return
	}
	bare := *a
	bare.Context.Query = account.QueryNames{} // the names are what is to be found
	client, err := d.clientOf(&bare)
	if err != nil {
		return
	}
	report, err := gaps.Probe(ctx, gaps.Options{
		Client: client, BaseURL: client.BaseURL(), PatientID: d.patient, PromptID: d.prompt,
		NamePrefix: fmt.Sprintf("clinicaldoc doctor %d", time.Now().UnixNano()), Audio: silence(),
		WaitFor: 2 * time.Minute, Interval: time.Second, SkipSign: true,
	})
	if err != nil {
		d.tellGap(ctx, check{
			Name: "gaps", State: bad, Detail: errorText(err), Remedy: "name a --patient and a --prompt that exist",
		})
	} else {
		d.tellAnswers(ctx, a, report)
	}
	d.tellLeft(context.WithoutCancel(ctx), report) // told after Ctrl-C, too
}

// tellLeft adds a line if there may be notes that could not be deleted.
func (d *doctor) tellLeft(ctx context.Context, report *gaps.Report) {
	if len(report.LeftBehind) == 0 && report.Uncertain == 0 {
		return
	}
	d.tellGap(ctx, check{
		Name: "left", State: doubtful,
		Detail: fmt.Sprintf(
			"synthetic notes that could not be deleted: %v, and perhaps %d more", report.LeftBehind, report.Uncertain,
		), Remedy: "clinicaldoc notes delete ID",
	})
}

func (d *doctor) tellAnswers(ctx context.Context, a *account.Account, report *gaps.Report) {
	for _, item := range report.Items {
		state := good
		if !item.Known {
			state = doubtful
		}
		d.tellGap(ctx, check{Name: "gap " + item.Key, State: state, Detail: item.Question + ": " + item.Seen})
	}
	switch names := account.QueryNames(report.QueryNames).Unusual(); {
	case names != a.Context.Query.Unusual():
		d.tellGap(ctx, check{
			Name: "query", State: doubtful,
			Detail: "the list's parameters have other names than in these settings: " + cmp.Or(
				names.String(), "the usual ones",
			), Remedy: "clinicaldoc context set NAME --query '" + names.String() + "'",
		})
	default:
		d.tellGap(ctx, check{
			Name: "query", State: good, Detail: "the list's parameters: " + cmp.Or(names.String(), "the usual names"),
		})
	}
}

func (d *doctor) tellGap(ctx context.Context, c check) {
	if c.State == bad {
		d.broken[c.Name] = true
	}
	d.step(ctx, c.Name, nil, func(context.Context) check { return c })
}

// silence is a second of a WAV recording.
func silence() []byte {
	const rate = 8000
	wav := []byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00")
	wav = binary.LittleEndian.AppendUint32(wav, rate)
	wav = binary.LittleEndian.AppendUint32(wav, rate*2)
	wav = append(wav, 2, 0, 16, 0)
	wav = append(wav, "data"...)
	wav = binary.LittleEndian.AppendUint32(wav, rate*2)
	wav = append(wav, make([]byte, rate*2)...)
	binary.LittleEndian.PutUint32(wav[4:], uint32(len(wav)-8)) //nolint:gosec // a few thousand
	return wav
}
