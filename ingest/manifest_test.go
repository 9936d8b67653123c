package ingest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// manifest writes one beside three recordings.
func manifest(t *testing.T, content string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "rec"), 0o700))
	for n, name := range []string{"1.wav", "2.wav", "rec/3.wav"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), sound(n), 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "empty.wav"), nil, 0o600))
	path := filepath.Join(dir, "manifest")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestReadManifest_CSVAndJSON_AreTheSame(t *testing.T) {
	t.Parallel()
	csv := "\ufeffPatient, KEY,name,path,prompt\r\n7, encounter-17 , \"Follow-up, second\",1.wav,1\r\n 8 ,,Visit,rec/3.wav,\r\n"
	lines := `{"key":"encounter-17","patient":7,"prompt":"1","name":" Follow-up, second ","path":"1.wav"}` + "\n\n" + `{"patient":"8","name":"Visit","path":"rec/3.wav"}`
	for _, content := range []string{csv, lines} {
		path := manifest(t, content)
		got, err := ingest.ReadManifest(path)
		require.NoError(t, err)
		dir := filepath.Dir(path)
		assert.Equal(t, []ingest.Recording{
			{
				Key: "encounter-17", File: filepath.Join(dir, "1.wav"),
				Params: clinicaldoc.CreateNoteParams{Name: "Follow-up, second", PatientID: 7, PromptID: 1},
			},
			{
				File:   filepath.Join(dir, "rec", "3.wav"),
				Params: clinicaldoc.CreateNoteParams{Name: "Visit", PatientID: 8},
			},
		}, got)
	}
	_, err := ingest.ReadManifest(filepath.Join(t.TempDir(), "Canary"))
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.NotContains(t, err.Error(), "Canary", "its name may be a patient's")
}

func TestReadManifest_Mistakes_AreAllListed(t *testing.T) {
	t.Parallel()
	const head = "key,patient,prompt,name,path\n"
	for content, want := range map[string]map[int]string{
		"":                        {1: "empty"},
		"key,patient,diagnosis\n": {1: "columns"},
		"key,key\n":               {1: "columns"},
		head + "a,7,1,Canary,1.wav\na,7,1,Canary,2.wav\nb,7,1,Canary,1.wav\na,7,1,Canary,rec/3.wav\n": {
			3: "line 2", 4: "line 2", 5: "line 2",
		},
		head + "a,Canary,1,n,1.wav\nb,0,x,n,2.wav\nc,7,1,n\nd,7,1,n,missing.wav\ne,7,1,n,empty.wav\nf,7,1,n,\n": {
			2: "patient", 3: "prompt", 4: "columns", 5: "does not exist", 6: "empty", 7: "path",
		},
		// one key in two spellings
		head + "\u00fc,7,1,n,1.wav\nu\u0308,7,1,n,2.wav\n":                          {3: "line 2"},
		head + "カルテ ガ,7,1,n,1.wav\nカルテ カ\u3099,7,1,n,2.wav\n":                       {3: "line 2"},
		head + "한글,7,1,n,1.wav\n\u1112\u1161\u11ab\u1100\u1173\u11af,7,1,n,2.wav\n": {3: "line 2"},
		head + "a,7,1,\"two\nlines\",1.wav\nb,7,1,Canary \"n\",2.wav\n":             {2: "quote", 4: "CSV"},
		// else patient 7 would get the recording of patient 8
		head + "a,7,1,\"one,1.wav\nb,8,1,two\",2.wav\n":                                                 {2: "quote"},
		`{"patient":7,"path":"1.wav","key":"a\r"}` + "\n" + `{"patient":7,"path":"2.wav","key":"a\rb"}`: {2: "quote"},
		head + "a,7,1,\"two\nlines\" Canary,1.wav\n":                                                    {3: "CSV"},
		head + "a,7,1,n,1.wav,Canary\n":                                                                 {2: "columns"},
		`{"patient":true,"path":"1.wav","name":false}`:                                                  {1: "neither"},
		`{"patient":7,"path":"1.wav","diagnosis":"Canary"}`:                                             {1: "member"},
		`{"patient":7,"name":{"Canary":1},"path":"rec"}`:                                                {1: "neither"},
		`{"patient":7,"path":"1.wav","patient":8}`:                                                      {1: "twice"},
		// what a path leads to, and numbers
		`{"patient":7.5,"path":"1.wav"}` + "\n{Canary": {1: "patient", 2: "JSON"},
		head + "a,7,1,n,rec\n":                         {2: "not a regular file"},
		head + "a,7,1,n,1.wav/Canary\n":                {2: "cannot be uploaded"},
		head + "a,0,1,n,1.wav\nb,7,0,n,2.wav\n":        {2: "patient", 3: "prompt"},
		// a quote that is never closed is a mistake of the line that it begins in
		head + "a,7,1,\"Canary\n":     {2: "CSV"},
		"path,patient\n\"":            {2: "CSV"},
		"path,patient\n1.wav,7\n\"\n": {3: "CSV"},
	} {
		got := map[int]string{}
		for _, p := range problemsOf(t, manifest(t, content)) {
			got[p.Line] += p.What
		}
		assert.Len(t, got, len(want), "no other line is wrong: %v", got)
		for line, what := range want {
			assert.Contains(t, got[line], what, "line %d of %q", line, content)
		}
	}
}

func TestReadManifest_Bounds_AreChecked(t *testing.T) {
	t.Parallel()
	const head = "key,patient,name,path\n"
	problems := func(content string) (list []string, text string) {
		_, err := ingest.ReadManifest(manifest(t, content))
		if wrong, ok := errors.AsType[*ingest.ManifestError](err); ok {
			for _, p := range wrong.Problems {
				list = append(list, p.What)
			}
			return list, wrong.Error()
		}
		require.NoError(t, err)
		return nil, ""
	}
	got, _ := problems(head + strings.Repeat("k", 1024) + ",7,n,1.wav\n")
	assert.Empty(t, got)
	const unfit = "the name is not UTF-8, or the key too long"
	for _, line := range []string{strings.Repeat("k", 1025) + ",7,n,1.wav\n", "k,7,\xff,1.wav\n"} {
		got, _ = problems(head + line)
		assert.Equal(t, []string{unfit}, got)
	}
	for _, patient := range []string{"0", "-1", "", "0x10", "0b111", "1_000", "7.0"} {
		got, _ = problems(head + "k," + patient + ",n,1.wav\n")
		assert.Equal(t, []string{"patient is not an id"}, got, patient)
	}
	for count, more := range map[int]bool{10: false, 11: true} {
		got, text := problems(head + strings.Repeat(",7,n,\n", count))
		assert.Len(t, got, count)
		assert.Equal(t, 10, strings.Count(text, "path is empty"))
		assert.Equal(t, more, strings.HasSuffix(text, "; and so on"))
	}
	_, text := problems(head + ",7,n,\n")
	assert.Contains(t, text, "has 1 mistake,")
	path := manifest(t, "")
	whole := filepath.Join(filepath.Dir(path), "1.wav")
	require.NoError(t, os.WriteFile(path, []byte(head+",7,n,"+whole+"\n"), 0o600))
	list, err := ingest.ReadManifest(path)
	require.NoError(t, err)
	assert.Equal(t, whole, list[0].File, "a whole path stays as it is")
}

// A file is the same one under every name that leads to it: two patients must not get one recording.
func TestReadManifest_FileTwice_IsAMistake(t *testing.T) {
	t.Parallel()
	path := manifest(t, "")
	dir := filepath.Dir(path)
	needLink(t, filepath.Join(dir, "rec"), filepath.Join(dir, "link"))
	require.NoError(t, os.Link(filepath.Join(dir, "1.wav"), filepath.Join(dir, "also.wav")))
	for _, names := range [][2]string{
		{"1.wav", dir + "/./1.wav"}, {"1.wav", "rec/../1.wav"}, {"rec/3.wav", "link/3.wav"}, {"1.wav", "also.wav"},
	} {
		content := "key,patient,path\na,7," + names[0] + "\nb,8,2.wav\nc,8," + names[1] + "\n"
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		want := []ingest.ManifestProblem{{Line: 4, What: "line 2 has the same file"}}
		assert.Equal(t, want, problemsOf(t, path), names)
	}
}

// WithDefaults fills empty patients and prompts. Without a default, each line must have them.
func TestReadManifest_Defaults_FillEmptyValues(t *testing.T) {
	t.Parallel()
	path := manifest(t, "patient,prompt,path\n,,1.wav\n8,,2.wav\n,4,rec/3.wav\n")
	list, err := ingest.ReadManifest(path, ingest.WithDefaults(7, 3))
	require.NoError(t, err)
	for i, want := range [][2]int64{{7, 3}, {8, 3}, {7, 4}} {
		assert.Equal(t, want, [2]int64{list[i].Params.PatientID, list[i].Params.PromptID}, i)
	}
	assert.Equal(t,
		[]ingest.ManifestProblem{{Line: 2, What: "prompt is not an id"}, {Line: 3, What: "prompt is not an id"}},
		problemsOf(t, path, ingest.WithDefaults(7, 0)))
}

// A nightly upload: it reads a manifest, reports, and moves the files whose notes are complete.
func TestRunAll_Manifest_MovesCompleteFiles(t *testing.T) {
	t.Parallel()
	_, u := newUploader(t)
	u.Workers = 1
	path := manifest(t, "key,patient,prompt,name,path\nencounter-1,7,1,Visit,1.wav\nencounter-2,7,1,Visit,2.wav\n"+
		"encounter-3,8,,Visit,rec/3.wav\n")
	list, err := ingest.ReadManifest(path)
	require.NoError(t, err)
	report := u.RunAll(t.Context(), ingest.Recordings(list...))
	require.NoError(t, report.Err)
	assert.Equal(t, counts{ingest.Complete: 2, ingest.Refused: 1}, statuses(report.Results), "one has no prompt")
	assert.Empty(t, report.Left)
	assert.False(t, report.OK())
	for _, result := range report.Results {
		if result.Status == ingest.Complete {
			require.NoError(t, os.Rename(result.Recording.File, result.Recording.File+".done"))
		}
	}
	assert.NoFileExists(t, list[0].File)
	assert.NoFileExists(t, list[1].File)
	assert.FileExists(t, list[2].File, "what has no note stays")
	assert.NotContains(t, report.LogValue().String(), "Visit")
}

func TestRunAll_EndsEarly_ReportsWhatIsLeft(t *testing.T) {
	t.Parallel()
	srv, u := newUploader(t)
	u.MaxPause = -1
	require.True(t, u.RunAll(t.Context(), recordings(0, 3)).OK())
	srv.Close()
	report := u.RunAll(t.Context(), recordings(0, 10))
	require.Error(t, report.Err)
	assert.False(t, report.OK())
	assert.Equal(t, 10, len(report.Results)+len(report.Left), "also those that the run did not come to")
	for _, bad := range []ingest.Report{
		{Left: []ingest.Recording{recording(0)}}, {Err: os.ErrClosed},
		{Results: []ingest.Result{{Status: ingest.InDoubt}}}, {Results: []ingest.Result{{Status: ingest.Refused}}},
	} {
		assert.False(t, bad.OK(), bad)
	}
}

// The report lists what is left even if the iterator waits for more or panics. That ends neither the report nor the
// program.
func TestRunAll_IteratorWaitsOrPanics_ReportEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(){
		"waits":  func() { time.Sleep(time.Minute) },
		"panics": func() { panic("synthetic") },
	} {
		withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
			srv.Inject("", clinicaldoctest.Answer(401, "synthetic").Always())
			u.Workers = 1
			u.MaxPause = -1
			report := u.RunAll(t.Context(), generated(13, func(n int) ingest.Recording {
				if n == 12 {
					end()
				}
				return recording(n)
			}))
			require.Error(t, report.Err)
			assert.Equal(t, 12, len(report.Results)+len(report.Left), name)
			assert.LessOrEqual(t, report.Took, 21*time.Second, name)
			time.Sleep(time.Hour) // what was left behind ends
		})
	}
}

// A report contains when everything failed and when it went on, how long the run took, and why there were no more
// recordings.
func TestRunAll_Report_HasPausesTimesAndError(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(401, "synthetic").Times(3))
		u.Workers = 1
		u.AllNew = true
		report := u.RunAll(t.Context(), func(yield func(ingest.Recording, error) bool) {
			recordings(0, 3)(yield)
			yield(ingest.Recording{}, os.ErrClosed)
		})
		require.ErrorIs(t, report.Err, os.ErrClosed)
		assert.Equal(t, counts{ingest.Complete: 3}, statuses(report.Results))
		assert.Empty(t, report.Left)
		require.Len(t, report.Pauses, 2)
		require.ErrorIs(t, report.Pauses[0].Why, clinicaldoc.ErrUnauthorized)
		assert.Equal(t, report.Began.Add(2*time.Second), report.Pauses[0].Next)
		assert.Zero(t, report.Pauses[1])
		assert.Equal(t, time.Since(report.Began), report.Took)

		over := make(chan struct{})
		endless := func(func(ingest.Recording, error) bool) { <-over } // it knows nothing of the context
		report = u.RunAll(within(t, time.Second), endless)
		require.ErrorIs(t, report.Err, context.DeadlineExceeded)
		close(over)
	})
}

func TestRunAll_EndsEarly_ReportsFilesLeft(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]int{"listed twice": 0, "another": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			paths := files(t, 2)
			withUploader(t, func(t *testing.T, _ *clinicaldoctest.Server, u *ingest.Uploader) {
				ctx, cancel := context.WithCancel(t.Context())
				u.Workers = 1
				u.OnEvent = func(e ingest.Event) {
					if e.Result != nil {
						cancel()
						time.Sleep(time.Second) // the second one is drawn meanwhile
					}
				}
				drawn := []string{paths[0], paths[second]}
				report := u.RunAll(ctx, generated(2, func(n int) ingest.Recording {
					if n == 1 {
						<-ctx.Done()
					}
					return ingest.Recording{File: drawn[n], Params: paramsOf(drawn[n])}
				}))
				require.ErrorIs(t, report.Err, context.Canceled)
				require.Len(t, report.Left, 1)
				assert.Equal(t, paths[second], report.Left[0].File)
			})
		})
	}
}

// Several recordings share a file, such as one for two patients. Only those without a result are left.
func TestRunAll_RecordingsShareAFile_LeftHaveNoResult(t *testing.T) {
	t.Parallel()
	path := files(t, 1)[0]
	for name, change := range map[string]func(r *ingest.Recording){
		"patients": func(r *ingest.Recording) { r.Params.PatientID++ },
		"names":    func(r *ingest.Recording) { r.Params.Name = "Another" },
		"keys":     func(r *ingest.Recording) { r.Key = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withUploader(t, func(t *testing.T, _ *clinicaldoctest.Server, u *ingest.Uploader) {
				ctx, cancel := context.WithCancel(t.Context())
				first := ingest.Recording{File: path, Params: paramsOf(path)}
				second := first
				change(&second)
				first.Params.BeforeCommit = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
				u.Workers = 2
				u.AllNew = true
				u.OnEvent = func(e ingest.Event) {
					if e.Result != nil {
						cancel()
					}
				}
				report := u.RunAll(ctx, ingest.Recordings(first, second))
				require.Len(t, report.Results, 1)
				require.Len(t, report.Left, 1)
				assert.NotNil(t, report.Left[0].Params.BeforeCommit, "the first one")
			})
		})
	}
}

// endless is a file that never ends, or not before a test that reads too much of it has failed: 256 MB of one line, or
// of many.
func endless(t *testing.T, begins, block string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifest")
	file, err := os.Create(path)
	require.NoError(t, err)
	_, err = file.WriteString(begins)
	require.NoError(t, err)
	if block == "" {
		require.NoError(t, file.Truncate(256<<20)) // a hole: it takes no room
	}
	_, err = file.WriteString(strings.Repeat(block, 20_000))
	require.NoError(t, err)
	require.NoError(t, file.Close())
	return path
}

// ReadManifest stops at a limit of bytes and of mistakes.
func TestReadManifest_Endless_IsBounded(t *testing.T) {
	t.Parallel()
	for _, begins := range []string{"path,patient\n", "{", "path,patient\n\"", ""} {
		_, err := ingest.ReadManifest(endless(t, begins, ""))
		require.ErrorContains(t, err, "the manifest cannot be read: it is longer than 64 MiB", "%q", begins)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	}
	for _, wrong := range [][2]string{{"path,patient\n", "x\n"}, {"path,patient\n", "x,\n"}, {"{\n", "{\n"}} {
		problems := problemsOf(t, endless(t, wrong[0], wrong[1]))
		assert.GreaterOrEqual(t, len(problems), 10_000)
		assert.LessOrEqual(t, len(problems), 10_005, "it stops there")
	}
}

// A report or a queue could not keep such a key, and the recording would be sent again under another one.
func TestReadManifest_KeyThatIsNotUTF8_IsRejected(t *testing.T) {
	t.Parallel()
	path := manifest(t, "path,patient,key\n1.wav,7,Z\xfcrich-1\n")
	_, err := ingest.ReadManifest(path)
	require.ErrorContains(t, err, "line 2: the key is not UTF-8")
	_, err = ingest.ReadManifest(manifest(t, "path,patient,key\n1.wav,7,Zürich-1\n"))
	require.NoError(t, err)
}

// encoding/json replaces bytes that are not UTF-8 by U+FFFD, which would then be in a patient's note.
func TestReadManifest_JSONThatIsNotUTF8_IsRejected(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"\xe9":   "line 1: name is not UTF-8",
		`\ud800`: "line 1: name is not UTF-8",
		`\ufffd`: "",
		"\ufffd": "",
		"é":      "",
	} {
		_, err := ingest.ReadManifest(manifest(t, `{"path":"1.wav","patient":7,"name":"`+name+`"}`))
		if want == "" {
			require.NoError(t, err, name)
			continue
		}
		assert.ErrorContains(t, err, want, name)
	}
}

// problemsOf returns the mistakes of a manifest.
func problemsOf(t *testing.T, path string, opts ...ingest.ManifestOption) []ingest.ManifestProblem {
	t.Helper()
	recordings, err := ingest.ReadManifest(path, opts...)
	assert.Nil(t, recordings)
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	assert.NotContains(t, err.Error(), "Canary", "nothing of a line's own")
	wrong, ok := errors.AsType[*ingest.ManifestError](err)
	require.True(t, ok, err)
	return wrong.Problems
}
