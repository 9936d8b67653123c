package command

import (
	"testing"

	natsclient "github.com/nats-io/nats.go"
	natsjetstream "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// A program of the first format may have made its store just before its name is blocked. That store stays as it is.
func TestBlockOldest_NameInUse_IsRejected(t *testing.T) {
	t.Parallel()
	conn, err := natsclient.Connect(natsServer(t))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := natsjetstream.New(conn)
	require.NoError(t, err)
	config := natsjetstream.KeyValueConfig{Bucket: "oldest", Replicas: 1}
	bucket, err := js.CreateKeyValue(t.Context(), config)
	require.NoError(t, err)
	_, err = bucket.Put(t.Context(), "buckets", []byte("4"))
	require.NoError(t, err)
	require.ErrorIs(t, blockOldest(t.Context(), conn, "oldest", 0), ingest.ErrJournalVersion)

	config.Description = "as an administrator set it"
	_, err = js.UpdateKeyValue(t.Context(), config)
	require.NoError(t, err)
	require.ErrorIs(t, blockOldest(t.Context(), conn, "oldest", 0), ingest.ErrJournalVersion)
	entry, err := bucket.Get(t.Context(), "buckets")
	require.NoError(t, err)
	assert.Equal(t, "4", string(entry.Value()))

	require.NoError(t, blockOldest(t.Context(), conn, "free", 0))
	require.NoError(t, blockOldest(t.Context(), conn, "free", 0), "another machine did it")
	conn.Close()
	require.ErrorContains(t, blockOldest(t.Context(), conn, "free", 0), "cannot store the journal, or refuses to")
}
