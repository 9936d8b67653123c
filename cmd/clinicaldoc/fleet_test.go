package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	nats "github.com/nats-io/nats-server/v2/server"
	natsclient "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// natsServer is the URL of one of its own.
func natsServer(t *testing.T) string {
	t.Helper()
	queue, err := nats.NewServer(&nats.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, Username: "u", Password: "canaryPassword"})
	require.NoError(t, err)
	queue.Start()
	t.Cleanup(queue.Shutdown)
	require.True(t, queue.ReadyForConnections(20*time.Second))
	return "nats://u:canaryPassword@" + queue.Addr().String()
}

// jetStream is a connection to the streams of a server.
func jetStream(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	conn, err := natsclient.Connect(url)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	return js
}

// publish puts a message into the fleet's stream of this name, as another machine would.
func publish(t *testing.T, url, stream, subject, message string) {
	t.Helper()
	js := jetStream(t, url)
	for info := range js.ListStreams(t.Context()).Info() {
		if strings.HasSuffix(info.Config.Name, stream) {
			named := strings.NewReplacer("*", subject, ">", subject)
			_, err := js.Publish(t.Context(), named.Replace(info.Config.Subjects[0]), []byte(message))
			require.NoError(t, err)
		}
	}
}

// Two machines share a folder and a journal: each recording becomes one note, whichever of them sends it.
func TestFleet_TwoMachines_CreateEachNoteOnce(t *testing.T) {
	t.Parallel()
	queue := natsServer(t)
	srv := newServer(t)
	folder, recordings := visits(t, 20)
	machine := func() cli { return newCLI(t, srv, "CLINICALDOC_NATS="+queue) } // each with its own folders
	upload := []string{"upload", "--patient", "7", "--prompt", "1", folder}
	// do: if there was one, have it restored; if nothing was uploaded yet, add --begin, once
	said := machine().exits(5, upload...)
	assert.Contains(t, said, "do: if there was one, have it restored; if nothing was uploaded yet, add --begin, once")
	assert.Empty(t, srv.Notes())
	first, firstSaid := machine().command(append(upload, "--begin")...)
	second, secondSaid := machine().command(append(upload, "--begin")...)
	require.NoError(t, first.Start())
	require.NoError(t, second.Start())
	for command, said := range map[*exec.Cmd]*bytes.Buffer{first: firstSaid, second: secondSaid} {
		require.NoError(t, command.Wait(), said)
		assert.NotContains(t, said.String(), "canaryPassword")
	}
	require.NoError(t, srv.CreatedOnce(recordings...))
	said = machine().exits(0, upload...)
	assert.Contains(t, said, "20 with a note, 0 refused, 0 unresolved; notes: 20 complete, 0 processing, 0 failed")
	require.NoError(t, srv.CreatedOnce(recordings...))

	// What is refused for good is a dead letter, which any machine sees and sends again.
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, `{"message":"no"}`))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "visit-20.wav"), []byte("RIFF the last of all recordings"), 0o600))
	machine().exits(9, upload...)
	status := machine().exits(0, "fleet", "status")
	assert.Contains(t, status, "dead letters\t1\t")
	assert.NotContains(t, status, "visit-")
	machine().exits(6, "fleet", "status", "--nats-creds", filepath.Join(folder, "nowhere.creds"))
	kinds := machine().exits(0, "fleet", "status", "--jq", ".workers, .doubts, .dead_letters | type")
	assert.Equal(t, strings.Repeat("array\n", 3), kinds)
	assert.Equal(t, "1\n", machine().exits(0, "fleet", "status", "--jq", ".dead_letters | length"))
	// do: start a worker: run the same upload with --nats again, on any machine that reaches the files
	said = machine().exits(8, "upload", "retry")
	assert.Contains(t, said, "1 recording is in the queue again\n")
	assert.Contains(t, said, "no worker is running: nothing is uploaded until one is")
	machine().exits(0, upload...)
	require.NoError(t, srv.CreatedOnce(append(recordings, []byte("RIFF the last of all recordings"))...))
	assert.Contains(t, machine().exits(0, "fleet", "status"), "dead letters\t0\t")

	// One that cannot be read holds up no other.
	publish(t, queue, "-dead", "damaged", "{")
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, `{"message":"no"}`))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "visit-21.wav"), []byte("RIFF one more recording"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "visit.txt"), nil, 0o600))
	said = machine().exits(9, upload...)
	assert.Contains(t, said, "left out: 1: its extension is not that of an audio file\n")
	said = machine().exits(9, "upload", "retry")
	assert.Contains(t, said, "1 recording is in the queue again\n")
	assert.Contains(t, said, "the dead letter cannot be read: publish its recording again, then discard it")
	said = machine().exits(5, "upload", "retry")
	assert.Contains(t, said, "0 recordings are in the queue again\n")
}

// oldestName returns the name of the first user's fleet in the first format. It was made of the base URL as it was
// written, here with 127.0.0.1.
func oldestName(srv *clinicaldoctest.Server) string {
	sum := sha256.Sum256([]byte(srv.URL))
	return "clinicaldoc-" + hex.EncodeToString(sum[:6]) + "-user1"
}

// A journal of the first format must not be replaced by an empty one.
func TestFleet_OldestStoreUnderItsName_IsRejected(t *testing.T) {
	t.Parallel()
	queue := natsServer(t)
	srv := newServer(t)
	folder, _ := visits(t, 1)
	machine := newCLI(t, srv, "CLINICALDOC_NATS="+queue)
	config := jetstream.KeyValueConfig{Bucket: oldestName(srv)}
	bucket, err := jetStream(t, queue).CreateKeyValue(t.Context(), config)
	require.NoError(t, err)
	_, err = bucket.Put(t.Context(), "a.recording", []byte("{}"))
	require.NoError(t, err)
	for _, arguments := range [][]string{nil, {"--begin"}} {
		said := machine.exits(5, append([]string{"upload", "--patient", "7", "--prompt", "1", folder}, arguments...)...)
		assert.Contains(t, said, "the store was written by another version of this program: run that version")
	}
	assert.Empty(t, srv.Notes())
}

// A program of the first format beside a fleet that has just begun would make a journal of its own, under its own name,
// and upload again what the fleet has. It reads the number of buckets first, and ends if that is no number.
func TestFleet_JustBegun_KeepsOldestProgramsOut(t *testing.T) {
	t.Parallel()
	queue := natsServer(t)
	srv := newServer(t)
	folder, recordings := visits(t, 2)
	machine := newCLI(t, srv, "CLINICALDOC_NATS="+queue)
	machine.exits(0, "upload", "--begin", "--patient", "7", "--prompt", "1", filepath.Join(folder, "visit-00.wav"))
	js := jetStream(t, queue)
	bucket, err := js.KeyValue(t.Context(), oldestName(srv))
	require.NoError(t, err)
	entry, err := bucket.Get(t.Context(), "buckets")
	require.NoError(t, err)
	_, err = strconv.Atoi(string(entry.Value()))
	require.ErrorIs(t, err, strconv.ErrSyntax)

	// It is no store: another fleet can be begun if this one is lost.
	for name := range js.StreamNames(t.Context()).Name() {
		if name != "KV_"+bucket.Bucket() {
			require.NoError(t, js.DeleteStream(t.Context(), name))
		}
	}
	machine.exits(0, "upload", "--begin", "--patient", "7", "--prompt", "1", filepath.Join(folder, "visit-01.wav"))
	require.NoError(t, srv.CreatedOnce(recordings...))
}

// If another patient's recording waits under the same key, a recording is refused. It does not hold up the others.
func TestFleet_KeyIsTaken_OthersGoOn(t *testing.T) {
	t.Parallel()
	queue := natsServer(t)
	srv := newServer(t)
	folder, recordings := visits(t, 4)
	run := newCLI(t, srv, "CLINICALDOC_NATS="+queue)
	run.exits(0, "upload", "--begin", "--patient", "7", "--prompt", "1", filepath.Join(folder, "visit-00.wav"))
	key := sha256.Sum256([]byte("E1"))
	file := filepath.Join(folder, "visit-01.wav")
	publish(t, queue, "-queue", hex.EncodeToString(key[:]),
		fmt.Sprintf(`{"key":"E1","file":%q,"name":"Visit","patient_id":7,"prompt_id":1}`, file))
	list := filepath.Join(folder, "list.csv")
	require.NoError(t, os.WriteFile(list, []byte("path,key,patient\nvisit-02.wav,E1,8\nvisit-03.wav,E2,7\n"), 0o600))
	said := run.exits(9, "upload", "--prompt", "1", "--manifest", list)
	assert.Contains(t, said, "1 recording was put into the queue; this machine handled 3 of the fleet's recordings: 2 with a note, 1 refused, 0 unresolved")
	assert.Contains(t, said, "give each recording its own key")
	require.NoError(t, srv.CreatedOnce(recordings[0], recordings[1], recordings[3]))
	assert.Len(t, srv.Notes(), 3)
}

// Each case is a fault of a fleet's store. The command that the error names repairs it.
func TestFleet_EachRemedy_Works(t *testing.T) {
	t.Parallel()
	queue := natsServer(t)
	srv := newServer(t)
	folder, recordings := visits(t, 20)
	run := newCLI(t, srv, "CLINICALDOC_NATS="+queue)
	upload := []string{"upload", "--patient", "7", "--prompt", "1", folder}
	js := jetStream(t, queue)
	change := func(change func(*jetstream.StreamConfig)) {
		for info := range js.ListStreams(t.Context()).Info() {
			if strings.HasSuffix(info.Config.Name, "-queue") {
				change(&info.Config)
				_, err := js.UpdateStream(t.Context(), info.Config)
				require.NoError(t, err)
			}
		}
	}

	// do: check the URL, and the file of --nats-creds
	said := newCLI(t, srv, "CLINICALDOC_NATS=nats://127.0.0.1:1").exits(6, append(upload, "--begin")...)
	assert.Contains(t, said, "do: check the URL, and the file of --nats-creds")
	run.exits(0, append(upload[:len(upload)-1:len(upload)-1], filepath.Join(folder, "visit-00.wav"), "--begin")...)

	// do: ask whoever runs the NATS server to raise the limit of the queue's stream; then run the same command again
	change(func(c *jetstream.StreamConfig) { c.MaxBytes = 1 })
	said = run.exits(5, upload...)
	assert.Contains(t, said, "do: ask whoever runs the NATS server to raise the limit of the queue's stream; then run the same command again")
	assert.Len(t, srv.Notes(), 1)
	change(func(c *jetstream.StreamConfig) { c.MaxBytes, c.MaxMsgs = -1, 3 }) // less than there are recordings
	run.exits(0, upload...)
	require.NoError(t, srv.CreatedOnce(recordings...))

	// A file that nobody can send is told at once, and does not wait in the queue.
	bad := filepath.Join(folder, "visit-bad.wav")
	require.NoError(t, os.WriteFile(bad, nil, 0o600))
	said = run.exits(9, upload...)
	assert.Contains(t, said, "the recording is empty")
	require.NoError(t, os.Remove(bad))

	// do: ask whoever runs the NATS server to restore the fleet's streams; if that is not possible, end all workers and run "clinicaldoc fleet repair"
	for name := range js.StreamNames(t.Context()).Name() {
		if strings.HasPrefix(name, "KV_") && strings.HasSuffix(name, "-1") {
			require.NoError(t, js.DeleteStream(t.Context(), name))
		}
	}
	said = run.exits(5, upload...)
	assert.Contains(t, said, `do: ask whoever runs the NATS server to restore the fleet's streams; if that is not possible, end all workers and run "clinicaldoc fleet repair"`)
	run.exits(0, "fleet", "repair")
	said = run.exits(0, upload...)
	assert.Contains(t, said, "20 with a note, 0 refused, 0 unresolved; notes: 20 complete, 0 processing, 0 failed")
	assert.NoError(t, srv.CreatedOnce(recordings...))
}

// A machine's verdict is about its own recordings, also about those that another machine uploaded.
func TestFleet_TwoMachines_ReportTheirOwnRecordings(t *testing.T) {
	t.Parallel()
	queue := natsServer(t)
	begun, release := make(chan struct{}), make(chan struct{})
	var creates atomic.Int64
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithMiddleware(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				next.ServeHTTP(w, r)
				return
			}
			switch creates.Add(1) {
			case 1: // keeps the only worker of the first machine busy
				close(begun)
				<-release
				next.ServeHTTP(w, r)
			case 2:
				_, _ = io.Copy(io.Discard, r.Body)
				w.WriteHeader(http.StatusUnprocessableEntity)
			default:
				next.ServeHTTP(w, r)
			}
		})
	}))
	defer srv.Close()
	goOn := sync.OnceFunc(func() { close(release) })
	defer goOn() // the server waits for its requests
	folder, _ := visits(t, 3)
	own := filepath.Join(t.TempDir(), "own.wav")
	require.NoError(t, os.WriteFile(own, []byte("RIFF of the second machine"), 0o600))
	run := newCLI(t, srv, "CLINICALDOC_NATS="+queue)
	upload := []string{"upload", "--begin", "--workers", "1", "--patient", "7", "--prompt", "1"}
	first, firstSaid := run.command(append(upload, folder)...)
	require.NoError(t, first.Start())
	<-begun
	second, secondSaid := run.command(append(upload, own)...)
	require.NoError(t, second.Start())
	require.Eventually(t, func() bool { return len(srv.Notes()) == 2 }, time.Minute, 10*time.Millisecond)
	said := run.exits(0, "fleet", "status")
	assert.Contains(t, said, "dead letters\t1\t")
	goOn()
	assert.Equal(t, 0, exitCode(t, second.Wait()), secondSaid)
	assert.Equal(t, 9, exitCode(t, first.Wait()), firstSaid)
	assert.Contains(t, firstSaid.String(), "2 recordings ended on other machines; all recordings of this command: 2 with a note, 1 refused, 0 unresolved")
	assert.Contains(t, firstSaid.String(), "1 of 3 recordings was refused, such as: the recording is a dead letter")
	// do: correct what the reason names; "clinicaldoc upload retry" with the same --nats sends it again
	assert.Contains(t, firstSaid.String(), `do: correct what the reason names; "clinicaldoc upload retry" with the same --nats sends it again`)

	run.exits(8, "upload", "retry")
	// do: run the same command again to see the result
	run.exits(0, "upload", "--patient", "7", "--prompt", "1", folder)
	assert.Len(t, srv.Notes(), 4)
	said = run.exits(0, "fleet", "status")
	assert.Contains(t, said, "dead letters\t0\t")
}

// A recording that the service could not process is a dead letter, and its file must not be deleted. After a manual
// decision it is sent again, which makes one more note.
func TestFleet_ProcessingFails_IsReportedAndSentAgain(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	folder, _ := visits(t, 3)
	run := newCLI(t, srv, "CLINICALDOC_NATS="+natsServer(t))
	upload := []string{"upload", "--begin", "--patient", "7", "--prompt", "1", folder}
	srv.ScriptNext(clinicaldoctest.Script{TranscriptionError: "synthetic error state"})
	for range 2 {
		said := run.exits(9, upload...)
		assert.Contains(t, said, "3 with a note, 0 refused, 0 unresolved; notes: 2 complete, 0 processing, 1 failed")
		assert.Contains(t, said, "1 recording could not be processed by the service")
		assert.NotContains(t, said, "synthetic error state")
	}
	assert.Len(t, srv.Created(), 3)
	said := run.exits(0, "fleet", "status", "--jq", ".dead_letters[].reason")
	assert.Contains(t, said, "the service could not process the recording")

	said = run.exits(9, upload...)
	key := regexp.MustCompile(`(?m)^failed: ([0-9a-f]{12})$`).FindStringSubmatch(said)
	require.Len(t, key, 2, said)
	run.exits(0, "upload", "resolve", key[1], "--send-again")
	said = run.exits(8, "upload", "retry")
	assert.Contains(t, said, "1 recording is in the queue again")
	said = run.exits(0, upload...)
	assert.Contains(t, said, "notes: 3 complete, 0 processing, 0 failed")
	assert.Len(t, srv.Created(), 4)
	said = run.exits(0, "fleet", "status", "--jq", ".dead_letters | length")
	assert.Equal(t, "0\n", said)
}

// Notes that the service has not finished are not waited for without bound, and the next upload reads them again.
func TestFleet_NotesInProcessing_ArePending(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	srv.SetDelays(clinicaldoctest.Delays{Transcribing: time.Hour})
	folder, recordings := visits(t, 2)
	run := newCLI(t, srv, "CLINICALDOC_NATS="+natsServer(t))
	upload := []string{"upload", "--begin", "--max-wait", "0", "--patient", "7", "--prompt", "1", folder}
	said := run.exits(8, upload...)
	assert.Contains(t, said, "2 recordings are still being processed by the service")
	said = run.exits(0, "fleet", "status", "--jq", ".processing")
	assert.Equal(t, "2\n", said)
	srv.SetDelays(clinicaldoctest.Delays{})
	run.exits(0, "upload", "--patient", "7", "--prompt", "1", folder)
	assert.NoError(t, srv.CreatedOnce(recordings...))
}

// The header of the store is damaged, so the dead letters cannot be read. A status without them would look complete.
func TestFleetStatus_StoreCannotBeRead_IsAFailure(t *testing.T) {
	t.Parallel()
	queue := natsServer(t)
	srv := newServer(t)
	folder, _ := visits(t, 1)
	run := newCLI(t, srv, "CLINICALDOC_NATS="+queue)
	run.exits(0, "upload", "--begin", "--patient", "7", "--prompt", "1", folder)
	damageOwner(t, queue)
	for _, arguments := range [][]string{nil, {"--json"}} {
		said := run.exits(5, append([]string{"fleet", "status"}, arguments...)...)
		assert.Contains(t, said, "clinicaldoc: the store was written by another version of this program")
		assert.NotContains(t, said, "null")
	}
}

// damageOwner overwrites whose recordings the fleet's store holds.
func damageOwner(t *testing.T, url string) {
	t.Helper()
	js := jetStream(t, url)
	damaged := 0
	for name := range js.KeyValueStoreNames(t.Context()).Name() {
		bucket, err := js.KeyValue(t.Context(), name)
		require.NoError(t, err)
		entry, err := bucket.Get(t.Context(), "header")
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue
		}
		require.NoError(t, err)
		var header map[string]any
		require.NoError(t, json.Unmarshal(entry.Value(), &header))
		header["owner"] = "damaged"
		value, err := json.Marshal(header)
		require.NoError(t, err)
		_, err = bucket.Put(t.Context(), "header", value)
		require.NoError(t, err)
		damaged++
	}
	require.Equal(t, 1, damaged)
}

func TestFleet_RetryBesideAWorker_SaysThatItRuns(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	var block atomic.Bool
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithMiddleware(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && block.CompareAndSwap(true, false) {
				close(begun)
				<-release
			}
			next.ServeHTTP(w, r)
		})
	}))
	defer srv.Close()
	folder, recordings := visits(t, 2)
	run := newCLI(t, srv, "CLINICALDOC_NATS="+natsServer(t))
	upload := []string{"upload", "--begin", "--patient", "7", "--prompt", "1"}
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, `{"message":"no"}`))
	run.exits(5, append(upload, filepath.Join(folder, "visit-00.wav"))...)
	block.Store(true)
	worker, workerSaid := run.command(append(upload, filepath.Join(folder, "visit-01.wav"))...)
	require.NoError(t, worker.Start())
	<-begun
	said := run.exits(0, "upload", "retry")
	assert.Contains(t, said, "1 recording is in the queue again\n")
	assert.Contains(t, said, "A worker uploads them; 1 is running now.")
	close(release)
	require.NoError(t, worker.Wait(), workerSaid)
	assert.NoError(t, srv.CreatedOnce(recordings...))
}

// oldNATS is the URL of a server that reports version 2.9 and responds to nothing else.
func oldNATS(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.WriteString(conn, `INFO {"server_id":"old","version":"2.9.10","proto":1,"headers":true,"max_payload":1048576}`+"\r\n")
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if strings.HasPrefix(lines.Text(), "PING") {
						_, _ = io.WriteString(conn, "PONG\r\n")
					}
				}
			}()
		}
	}()
	return "nats://" + listener.Addr().String()
}

func TestFleet_OldNATSServer_IsRejected(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	folder, _ := visits(t, 1)
	run := newCLI(t, srv, "CLINICALDOC_NATS="+oldNATS(t))
	for _, args := range [][]string{
		{"upload", "--begin", "--patient", "7", "--prompt", "1", folder}, {"upload", "retry"}, {"fleet", "status"}, {"fleet", "repair"},
	} {
		said := run.exits(5, args...)
		assert.Contains(t, said, "has version 2.9.10, but a fleet needs 2.11 or later")
		assert.Contains(t, said, "do: ask whoever runs the NATS server to update it; then run the same command again")
	}
	assert.Empty(t, srv.Notes())
}
