package jetstream

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/fileheader"
)

// format is the version of all that a store holds. A program that knows another one must not touch it; see upgrade.
const format = 3

// storeHeader is written when all streams of a store exist, and says which they are.
type storeHeader struct {
	Format int `json:"format"`
	// ID is a part of every stream's name: no stream that is made anew can be taken for the old one.
	ID       string `json:"id"`
	Replicas int    `json:"replicas"`
	Buckets  int    `json:"buckets"`
	// Gaps reports that records of the store were lost. Renamed lists the buckets that were made again, by their
	// numbers. They have new names, so a worker that opened the old one cannot write there.
	Gaps    bool           `json:"gaps,omitempty"`
	Renamed map[int]string `json:"renamed,omitempty"`

	// Owner is whose recordings it holds, as package fileheader writes it; empty until the first run.
	Owner string `json:"owner,omitempty"`
}

const (
	headerKey = "header"
	ownerKind = "clinicaldoc-fleet"
	// blockKey is what the format before this one read first, and could not read here: its programs end there.
	blockKey   = "buckets"
	blockValue = "this store needs a later version of the program"

	idLabel   = "clinicaldoc-store" // in the metadata of every stream
	nameLabel = "clinicaldoc-fleet"

	verifyEvery = 10 * time.Second
)

// store is the streams of a fleet.
type store struct {
	conn   *nats.Conn
	js     jetstream.JetStream
	name   string
	header storeHeader

	turn        turn
	patience    time.Duration // with a silent engine, such as a cluster without a leader
	upgradeWait time.Duration // see the constant
	verified    time.Time
	reconnects  uint64
	sequences   map[string]uint64 // the last one of each stream, as it was seen
	rejectedWhy error             // why the store cannot be trusted any more
}

func newStore(conn *nats.Conn, params Params) (*store, error) {
	switch {
	case params.Name != "" && !fleetName.MatchString(params.Name):
		return nil, fail("Name may contain only letters, digits, - and _, at most 100", clinicaldoc.ErrInvalidArgument)
	case params.Replicas < 0 || params.Replicas > 5:
		return nil, fail("Replicas must be from 0 to 5", clinicaldoc.ErrInvalidArgument)
	case params.Lease != 0 && params.Lease < minLease:
		return nil, fail("Lease must be at least 200 ms", clinicaldoc.ErrInvalidArgument)
	}
	if err := checkServer(conn); err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fail(err.Error(), err)
	}
	return &store{
		conn: conn, js: js, name: cmp.Or(params.Name, defaultName), sequences: map[string]uint64{},
		turn: newTurn(), patience: defaultPatience, upgradeWait: upgradeWait,
	}, nil
}

var fleetName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// The streams of a store. Live and limit hold nothing that has to be kept, and are made when they are needed.
func (s *store) prefix() string             { return s.name + "-" + s.header.ID }
func (s *store) queueName() string          { return s.prefix() + "-queue" }
func (s *store) deadName() string           { return s.prefix() + "-dead" }
func (s *store) liveName() string           { return s.prefix() + "-live" }
func (s *store) limitName() string          { return s.prefix() + "-limit" }
func (s *store) subject(kind string) string { return s.prefix() + "." + kind + "." }

func (s *store) bucketName(n int) string {
	return fmt.Sprintf("%s-%d%s", s.prefix(), n, s.header.Renamed[n])
}

// streams returns the configurations of the streams with records, which verify compares. The bucket of live workers and
// the stream of the rate limit are not among them: they are made again if they are missing.
func (s *store) streams() []jetstream.StreamConfig {
	list := []jetstream.StreamConfig{s.rootConfig()}
	for n := range s.header.Buckets {
		list = append(list, s.bucketConfig(s.bucketName(n)))
	}
	queue := s.config(s.queueName(), s.subject(string(freshLane))+"*", s.subject(string(againLane))+"*")
	queue.Retention = jetstream.WorkQueuePolicy
	queue.Metadata[idLabel] = s.queueLabel(s.header.Format)
	return append(list, queue, s.config(s.deadName(), s.subject("dead")+"*"))
}

func (s *store) config(name string, subjects ...string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: name, Subjects: subjects, Storage: jetstream.FileStorage,
		Replicas: s.header.Replicas, Discard: jetstream.DiscardNew,
		MaxMsgsPerSubject: 1, Metadata: map[string]string{idLabel: s.header.ID, nameLabel: s.name},
	}
}

// bucketConfig returns the configuration of a bucket from which nothing can be deleted. Only its leader answers reads,
// because other replicas lag behind.
func (s *store) bucketConfig(name string) jetstream.StreamConfig {
	config := s.config("KV_"+name, "$KV."+name+".>")
	config.DenyDelete = true
	config.DenyPurge = true
	return config
}

// rootConfig returns the configuration of the bucket with the header. It has no id, because it is made before there is
// one.
func (s *store) rootConfig() jetstream.StreamConfig {
	config := s.bucketConfig(s.name)
	config.Metadata = map[string]string{nameLabel: s.name}
	return config
}

// begin makes a store where there is none.
func (s *store) begin(ctx context.Context, replicas int) error {
	if err := s.mustBeNew(ctx); err != nil {
		return err
	}
	var id [4]byte
	_, _ = rand.Read(id[:])
	s.header = storeHeader{
		Format: format, ID: hex.EncodeToString(id[:]), Replicas: max(replicas, 1), Buckets: singleBuckets,
	}
	if replicas > 1 { // a cluster does not sync each write, so more buckets would not be faster
		s.header.Buckets = 1
	}
	for _, config := range s.streams() {
		if _, err := s.js.CreateStream(ctx, config); err != nil {
			return fail("the stream "+config.Name+" cannot be made: "+err.Error(), err)
		}
	}
	root, err := s.js.KeyValue(ctx, s.name)
	if err != nil {
		return unreachable(err)
	}
	// The value keeps programs of an earlier format out.
	if _, err := root.Put(ctx, blockKey, []byte(blockValue)); err != nil {
		return unreachable(err)
	}
	value, err := json.Marshal(s.header)
	if err != nil {
		return err
	}
	_, err = root.Create(ctx, headerKey, value)
	switch {
	case isConflict(err): // another was faster; what was made here is empty, and its names are nobody else's
		for _, config := range s.streams()[1:] { // without the root, which both share
			_ = s.js.DeleteStream(ctx, config.Name)
		}
		return errExists(s.name)
	case err != nil:
		return unreachable(err)
	}
	return nil
}

func errExists(name string) error {
	return fail("there is already a fleet "+name+": use Join", ErrFleetExists)
}

// mustBeNew returns an error if a stream of a fleet with that name exists and contains messages.
func (s *store) mustBeNew(ctx context.Context) error {
	list := s.js.ListStreams(ctx)
	for info := range list.Info() {
		name := info.Config.Name
		switch {
		case info.State.Msgs == 0: // an earlier Begin may have been cut off
			continue
		case name == "KV_"+s.name:
			_, err := s.readHeader(ctx)
			if !errors.Is(err, ErrNoFleet) {
				return cmp.Or(err, errExists(s.name))
			}
		case s.isPart(info.Config):
			return fail("a part of the fleet "+s.name+" exists ("+name+"), but its bucket "+s.name+
				" was deleted: restore it; without it, recordings that have a note would be uploaded again", ErrStore)
		}
	}
	if err := list.Err(); err != nil {
		return unreachable(err)
	}
	return nil
}

// isPart reports whether a stream belongs to a fleet with that name. In the oldest format only the stream's name shows
// it.
func (s *store) isPart(config jetstream.StreamConfig) bool {
	label := config.Metadata[nameLabel]
	if label != "" {
		return label == s.name
	}
	isOldest, _ := regexp.MatchString("^KV_"+regexp.QuoteMeta(s.name)+`-\d$`, config.Name)
	return isOldest
}

// open reads the header of the store and verifies its streams. It returns an error matching ErrStore if the store has
// fewer replicas than asked for.
func (s *store) open(ctx context.Context, replicas int) error {
	h, err := s.readHeader(ctx)
	switch {
	case err != nil:
		return err
	case h.Format != format: // see upgrade
		return errFormat
	case replicas > h.Replicas:
		text := fmt.Sprintf("the fleet %s was begun with %d replicas, not with %d", s.name, h.Replicas, replicas)
		return fail(text, ErrStore)
	}
	s.header = h
	return s.verify(ctx, time.Now())
}

// readHeader reads the header of the store. It returns an error matching ErrNoFleet if there is none and no other
// version has written one, and errFormat if the header is not of a format that this version knows.
func (s *store) readHeader(ctx context.Context) (h storeHeader, err error) {
	root, err := s.js.KeyValue(ctx, s.name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return h, fail("there is no fleet "+s.name+" at this server. Check server and name. "+
			"Begin makes a new one, which does not know what was uploaded before", ErrNoFleet)
	}
	var entry jetstream.KeyValueEntry
	if err == nil {
		entry, err = root.Get(ctx, headerKey)
	}
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		status, statusErr := root.Status(ctx)
		switch {
		case statusErr != nil:
			return h, unreachable(statusErr)
		case status.Values() == 0, status.Values() == 1 && hasBlockKey(ctx, root):
			return h, fail("the fleet "+s.name+" was begun only in part: use Begin", ErrNoFleet)
		}
		entry, err = root.Get(ctx, headerKey) // another program may have begun it in between
	}
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound): // the bucket has other values, which another version wrote
		return h, errFormat
	case err != nil:
		return h, unreachable(err)
	}
	err = json.Unmarshal(entry.Value(), &h)
	isKnown := h.Format == format || h.Format == formatBefore
	if err != nil || !isKnown || h.ID == "" || h.Buckets < 1 {
		return h, errFormat
	}
	return h, nil
}

// hasBlockKey reports whether begin has written blockKey, which is its first write.
func hasBlockKey(ctx context.Context, root jetstream.KeyValue) bool {
	entry, err := root.Get(ctx, blockKey)
	return err == nil && string(entry.Value()) == blockValue
}

var errFormat = fail("the store was written by another version of this program: run that version",
	ErrStore, ingest.ErrJournalVersion)

// check verifies the store, unless that was done in the last ten seconds and the connection was not lost since. Once
// the store was rejected, check returns the same error for ever.
func (s *store) check(ctx context.Context) error {
	if err := s.turn.take(ctx); err != nil {
		return err
	}
	defer s.turn.leave()
	if s.rejectedWhy != nil {
		return s.rejectedWhy
	}
	now := time.Now()
	reconnects := s.reconnected()
	isRecent := now.Sub(s.verified) < verifyEvery
	if isRecent && reconnects == s.reconnects {
		return nil
	}
	err := patiently(ctx, s.patience, func(ctx context.Context) error {
		err := s.verifyInTurn(ctx, now)
		if errors.Is(err, ErrStore) {
			s.rejectedWhy = err
			return nil // an answer, so patiently does not repeat the request
		}
		return err
	})
	if err == nil && s.rejectedWhy == nil {
		s.reconnects = reconnects
	}
	return cmp.Or(s.rejectedWhy, err)
}

// reconnected returns how often the connection was made again.
func (s *store) reconnected() uint64 {
	if s.conn == nil { // tests have none
		return 0
	}
	return s.conn.Stats().Reconnects
}

// verify returns an error matching ErrStore if a stream is missing or is not as it was made.
func (s *store) verify(ctx context.Context, now time.Time) error {
	if err := s.turn.take(ctx); err != nil {
		return unreachable(err)
	}
	defer s.turn.leave()
	return s.verifyInTurn(ctx, now)
}

// verifyInTurn is verify for a caller that has the turn.
func (s *store) verifyInTurn(ctx context.Context, now time.Time) error {
	if s.conn != nil { // tests have none
		if err := checkServer(s.conn); err != nil {
			return err
		}
	}
	for _, want := range s.streams() {
		stream, err := s.js.Stream(ctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return fail("the stream "+want.Name+" of the fleet is gone, with its records; nothing is "+
				"uploaded. Repair makes it again, and recordings that are not known are then searched for at the "+
				"service", ErrStore)
		}
		if err != nil {
			return unreachable(err)
		}
		info := stream.CachedInfo()
		if s.isUpgradedBeyond(info.Config) {
			return errFormat
		}
		reason := s.differenceOf(info.Config, want)
		if reason != "" {
			return fail("the stream "+want.Name+" of the fleet "+reason+"; nothing is uploaded. "+
				"Repair corrects that, and unknown recordings are then searched for at the service", ErrStore)
		}
		if info.State.LastSeq < s.sequences[want.Name] {
			return fail("the stream "+want.Name+" of the fleet contains less than before: an older copy was restored; "+
				"nothing is uploaded", ErrStore)
		}
		s.sequences[want.Name] = info.State.LastSeq
	}
	s.verified = now
	return nil
}

// firstDifference returns the first setting of a stream that may lose or hide messages, or "" if there is none. Limits
// on the number and size of messages are an administrator's own.
func firstDifference(is, want jetstream.StreamConfig) string {
	for label, value := range want.Metadata {
		if is.Metadata[label] != value {
			return "was made again, or its metadata were removed"
		}
	}
	expires := is.AllowMsgTTL || is.SubjectDeleteMarkerTTL != 0
	copied := is.Mirror != nil || len(is.Sources) > 0
	canBePurged := want.DenyPurge && (!is.DenyPurge || !is.DenyDelete)
	isAsync := is.PersistMode == jetstream.AsyncPersistMode
	kept := is.MaxMsgsPerSubject
	for _, difference := range []struct {
		found  bool
		reason string
	}{
		{is.Storage != jetstream.FileStorage, "is in memory: file storage is needed"},
		{is.MaxAge != 0, "deletes messages older than " + is.MaxAge.String() + ": max age must be 0"},
		{expires, "lets messages expire: that must be off"},
		{is.Replicas < want.Replicas, fmt.Sprintf("has %d replicas: %d are needed", is.Replicas, want.Replicas)},
		{is.Discard != jetstream.DiscardNew, "deletes the oldest messages when it is full: discard must be new"},
		{is.DiscardNewPerSubject, "refuses new values of a key: discard new per subject must be off"},
		{is.Retention != want.Retention, "has another retention policy: " + want.Retention.String() + " is needed"},
		{kept != want.MaxMsgsPerSubject, fmt.Sprintf("keeps %d messages a subject: 1 is needed", kept)},
		{copied, "is a copy of another stream"},
		{is.AllowDirect, "is read from replicas that lag behind: allow direct must be off"},
		{is.AllowRollup, "can be rolled up: that must be off"},
		{canBePurged, "can be purged: that must be denied"},
		{!slices.Equal(is.Subjects, want.Subjects), "has other subjects than " + strings.Join(want.Subjects, " ")},
		{is.Sealed, "is sealed"},
		{isAsync, "responds before it has written: persist mode must be the default"},
	} {
		if difference.found {
			return difference.reason
		}
	}
	return ""
}

// repair makes missing streams again and corrects the settings of others. Before that it writes into the header that
// records may be lost. A complete store is not changed.
func (s *store) repair(ctx context.Context) error {
	h, err := s.readHeader(ctx)
	if err != nil {
		return err
	}
	s.header = h
	renamed, err := s.renameMissing(ctx)
	if err != nil {
		return err
	}
	if !renamed && !s.isHarmed(ctx) {
		return nil
	}
	s.header.Gaps = true
	if err := s.writeHeader(ctx); err != nil {
		return err
	}
	return s.restoreStreams(ctx)
}

// renameMissing gives new names to buckets that are gone, and reports whether there were any. A worker that opened the
// old bucket cannot write to the new one.
func (s *store) renameMissing(ctx context.Context) (bool, error) {
	renamed := false
	for n := range s.header.Buckets {
		_, err := s.js.Stream(ctx, "KV_"+s.bucketName(n))
		if err == nil {
			continue
		}
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return false, unreachable(err)
		}
		if s.header.Renamed == nil {
			s.header.Renamed = map[int]string{}
		}
		s.header.Renamed[n] = "-" + strings.ToLower(rand.Text()[:8])
		renamed = true
	}
	return renamed, nil
}

// isHarmed reports whether a stream is missing, cannot be read or is not as it was made.
func (s *store) isHarmed(ctx context.Context) bool {
	for _, config := range s.streams() {
		stream, err := s.js.Stream(ctx, config.Name)
		if err != nil || s.differenceOf(stream.CachedInfo().Config, config) != "" {
			return true
		}
	}
	return false
}

// writeHeader writes the store's header into its first bucket, over an earlier one.
func (s *store) writeHeader(ctx context.Context) error {
	value, err := json.Marshal(s.header)
	if err != nil {
		return err
	}
	root, err := s.js.KeyValue(ctx, s.name)
	if err == nil {
		_, err = root.Put(ctx, headerKey, value)
	}
	if err != nil {
		return unreachable(err)
	}
	return nil
}

// restoreStreams makes streams anew that are gone, and sets others as they were.
func (s *store) restoreStreams(ctx context.Context) error {
	for _, config := range s.streams() {
		stream, err := s.js.Stream(ctx, config.Name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			_, err = s.js.CreateStream(ctx, config)
		case err == nil && s.differenceOf(stream.CachedInfo().Config, config) != "":
			_, err = s.js.UpdateStream(ctx, config)
		}
		if err != nil {
			return fail("the stream "+config.Name+" cannot be restored to its settings: "+err.Error()+
				". Delete it and repair again: its recordings are then searched for at the service", err)
		}
	}
	return nil
}

// bind writes the owner of the recordings into the header, or what was not known of it before. It returns an error if
// the store belongs to another owner.
func (s *store) bind(ctx context.Context, owner ingest.Owner) (ingest.Binding, error) {
	root, err := s.js.KeyValue(ctx, s.name)
	if err != nil {
		return ingest.Binding{}, unreachable(err)
	}
	for { // until no other program changes the header between the read and the write
		entry, err := root.Get(ctx, headerKey)
		if err != nil {
			return ingest.Binding{}, unreachable(err)
		}
		var h storeHeader
		if err := json.Unmarshal(entry.Value(), &h); err != nil || h.Format != format || h.ID != s.header.ID {
			return ingest.Binding{}, errFormat
		}
		own := fileheader.Header{
			Kind: ownerKind, Version: format, Service: owner.Service, UserID: owner.UserID, Headers: owner.Headers,
		}
		if h.Owner != "" {
			bound, err := s.checkOwner(h.Owner, own)
			if err != nil {
				return ingest.Binding{}, err
			}
			if !own.Completes(bound) {
				return ingest.Binding{Origin: bound.Service, Gaps: h.Gaps}, nil
			}
			own.Service = bound.Service // with it keys are hashed; only the user or the headers are new
			own.UserID = cmp.Or(bound.UserID, own.UserID)
			own.Headers = cmp.Or(bound.Headers, own.Headers)
		}
		h.Owner = own.String()
		value, err := json.Marshal(h)
		if err != nil {
			return ingest.Binding{}, err
		}
		_, err = root.Update(ctx, headerKey, value, entry.Revision())
		switch {
		case err == nil:
			return ingest.Binding{Origin: own.Service, Gaps: h.Gaps}, nil
		case !isConflict(err):
			return ingest.Binding{}, unreachable(err)
		}
	}
}

// checkOwner returns the owner that a header contains. It returns an error if this worker's owner is another one.
func (s *store) checkOwner(written string, own fileheader.Header) (fileheader.Header, error) {
	bound, err := fileheader.Parse(ownerKind, written)
	if err == nil {
		err = bound.Check(own)
	}
	if err != nil {
		return bound, fail("the fleet "+s.name+" is not this worker's: "+err.Error(), err)
	}
	return bound, nil
}
