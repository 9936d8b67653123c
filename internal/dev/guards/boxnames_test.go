package guards_test

import "testing"

// boxProgram is a test of another module as a user of the box writes it: a world that is unkind in named ways, and what
// really happened in it. It uses every name that such a test needs, so that none is lost.
const boxProgram = `package user

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"time"

	sdk "github.com/clinicaldoc/clinicaldoc-go"
	box "github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// world is a service that does to what it is given whatever services do.
var world = box.Variant{
	Name: "unkind", ListTexts: box.ListTextsExcerpt, NameLength: 40, DecomposeNames: true, Times: box.TimeLocalNoZone,
	Audio: box.AudioReencoded, ClockOffset: -time.Minute, DateOffset: 10 * time.Second, NoRequestID: true, Compress: true,
	RefuseUnknownFilter: true, RefuseEmptyQuery: true, RefuseMalformedBody: true, PromptsMustExist: true,
	Pagination: box.PaginationCursor, Empty: box.EmptyNull, Patient: box.PatientID, TooLarge: box.TooLargeHTML,
}

// upload makes every recording a note, whatever goes wrong, and says what really came of it.
func upload(ctx context.Context, recordings [][]byte) error {
	srv := box.NewServer(box.WithVariant(world), box.WithTLS(), box.WithSeed(7))
	defer srv.Close()
	prompt := srv.AddPrompt(box.Prompt{Name: "Visit"})
	srv.Inject(box.RouteCreateNote, box.Answer(http.StatusGatewayTimeout, "").CommitAfter(95*time.Second).Every(20))
	srv.Inject(box.RouteCreateNote, box.Silent().CommitAfter(0).Rate(0.05).Times(3))
	srv.Inject(box.RouteListNotes, box.Lagging(10*time.Second).Always())
	srv.Inject(box.RouteListNotes, box.Vanish(1).After(1))
	srv.Inject(box.RouteListNotes, box.Arrive(2).After(2))
	client := srv.Client()
	for _, recording := range recordings {
		_, err := client.Notes.Create(ctx, sdk.CreateNoteParams{
			Name: "Visit", PatientID: 7, PromptID: prompt.ID, Audio: sdk.AudioBytes("visit.wav", recording),
		})
		fmt.Println(err, len(srv.CreatedFrom(recording)))
	}
	srv.Advance(2 * time.Minute) // what was to come late has come
	for _, c := range srv.Created() {
		fmt.Println(c.NoteID, c.RequestID, c.Time, c.DeletedAt.IsZero(), c.UserID, c.PatientID, c.PromptID, c.Name, c.AudioSHA256, c.AudioSize)
	}
	for _, r := range srv.Requests() {
		fmt.Println(r.ID, r.NoteID, r.Fault)
	}
	return srv.CreatedOnce(recordings...)
}

// control changes a running box by names, as a program with a user interface does.
func control(srv *box.Server, fault string) (http.Handler, error) {
	v := srv.Variant()
	v.WrapObjects = true
	srv.SetVariant(v)
	f, err := box.ParseFault(fault)
	if err != nil {
		return nil, err
	}
	srv.Inject("", f)
	for _, injected := range srv.Faults() {
		if injected.Spent && injected.Struck > 0 && injected.Route != "" {
			srv.RemoveFault(injected.ID)
		}
	}
	srv.SetDelays(box.Delays{Transcribing: time.Second})
	srv.SetSeed(8)
	srv.Freeze()
	srv.SetTime(time.Unix(0, 0))
	srv.Unfreeze()
	srv.ClearFaults()
	srv.Reset()
	return srv.Handler(), nil
}

var (
	_ func(...box.Option) (*box.Server, error)       = box.Start
	_ func(*box.Server) *x509.Certificate            = (*box.Server).Certificate
	_                                                = []box.StoredAudio{box.AudioAsSent, box.AudioReencodedUntold}
	_                                                = []box.ListTexts{box.ListTextsWhole, box.ListTextsAbsent}
	_, _                                             = upload, control
)
`

func TestBoxNamesCompileInAnotherModule(t *testing.T) {
	t.Parallel()
	sources(t) // so that go test notices a change
	buildOutside(t, map[string]string{"user.go": boxProgram})
}
