package jsonscan_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
)

// note is what both decoders of the benchmark fill.
type note struct {
	ID        string    `json:"id"`
	Title     string    `json:"title"`
	CreatedAt string    `json:"created_at"`
	Version   int       `json:"version"`
	Signed    bool      `json:"signed"`
	Author    *string   `json:"author"`
	Sections  []section `json:"sections"`
}

type section struct {
	Heading string `json:"heading"`
	Text    string `json:"text"`
}

type page struct {
	Data    []note `json:"data"`
	HasMore bool   `json:"has_more"`
}

// notesPage returns a page of 100 synthetic notes of about 6.7 KB each, whose
// texts mix plain ASCII, raw UTF-8 and the escapes an API emits.
func notesPage() []byte {
	const sentence = `Synthetic sentence about nothing in particular, placed here to fill a note with words. `
	paragraph := strings.Repeat(sentence, 4) + `Caf\u00e9 na\u00efve see https:\/\/example.invalid\/a.\n` +
		sentence + "Zażółć gęślą jaźń – raw. " + `She said \"sample\".\n`
	var out strings.Builder
	out.WriteString(`{"data":[`)
	for i := range 100 {
		if i > 0 {
			out.WriteString(",")
		}
		fmt.Fprintf(&out, `{"id":"note-%04d","title":"Sample note %d","created_at":"2024-01-02T03:04:05Z",`+
			`"version":%d,"signed":%t,"author":null,"sections":[`, i, i, i, i%2 == 0)
		fmt.Fprintf(&out, `{"heading":"First","text":"%s"},`, strings.Repeat(paragraph, 4))
		fmt.Fprintf(&out, `{"heading":"Second","text":"%s"},`, strings.Repeat(sentence, 30))
		fmt.Fprintf(&out, `{"heading":"Third","text":"%s"}],`, strings.Repeat(paragraph, 3))
		out.WriteString(`"unused":{"tags":["x","y"],"score":1.5e3}}`)
	}
	out.WriteString(`],"has_more":true}`)
	return []byte(out.String())
}

func readPage(d *jsonscan.Decoder) (p page) {
	for key := range d.Fields() {
		switch string(key) {
		case "data":
			p.Data = make([]note, 0, 100)
			for range d.Elements() {
				p.Data = append(p.Data, readNote(d))
			}
		case "has_more":
			p.HasMore = d.Bool()
		}
	}
	return p
}

func readNote(d *jsonscan.Decoder) (n note) {
	for key := range d.Fields() {
		switch string(key) {
		case "id":
			n.ID = d.Text()
		case "title":
			n.Title = d.Text()
		case "created_at":
			n.CreatedAt = d.Text()
		case "version":
			n.Version, _ = strconv.Atoi(string(d.Raw()))
		case "signed":
			n.Signed = d.Bool()
		case "author":
			if !d.Null() {
				author := d.Text()
				n.Author = &author
			}
		case "sections":
			n.Sections = make([]section, 0, 4)
			for range d.Elements() {
				n.Sections = append(n.Sections, readSection(d))
			}
		}
	}
	return n
}

func readSection(d *jsonscan.Decoder) (s section) {
	for key := range d.Fields() {
		switch string(key) {
		case "heading":
			s.Heading = d.Text()
		case "text":
			s.Text = d.Text()
		}
	}
	return s
}

func TestDecoder_PageOfNotes_EqualsEncodingJSON(t *testing.T) {
	t.Parallel()
	data := notesPage()
	require.InDelta(t, 6700, len(data)/100, 100)
	var want page
	require.NoError(t, json.Unmarshal(data, &want))
	d := jsonscan.New(data)
	got := readPage(d)
	require.NoError(t, d.End())
	require.Equal(t, want, got)
}

func BenchmarkNotesPage(b *testing.B) {
	data := notesPage()
	run := func(name string, read func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, read())
			}
		})
	}
	run("jsonscan", func() error {
		d := jsonscan.New(data)
		readPage(d)
		return d.End()
	})
	run("jsonscan-skip", func() error {
		d := jsonscan.New(data)
		d.Skip()
		return d.End()
	})
	run("json.Unmarshal", func() error {
		var p page
		return json.Unmarshal(data, &p)
	})
}
