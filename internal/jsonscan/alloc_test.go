//nolint:paralleltest // AllocsPerRun counts the allocations of all goroutines.
package jsonscan_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
)

var allocationsDocument = `{"plain":"Synthetic café text, long enough for the heap to be needed.",` +
	`"escaped":["\nSynthetic text"` + strings.Repeat(`,"\nSynthetic text A\/B, long enough for the heap."`, 10) + `],` +
	`"objects":[{"n":1.5},{"n":-2},{"n":{"deep":[true,null,{"k\n":false}]}}]}`

// countAllocations is generic code's view of the Decoder: handed to a function
// value it is itself on the heap, and that allocation is not counted.
func countAllocations(read func(*jsonscan.Decoder)) float64 {
	document := []byte(allocationsDocument)
	return testing.AllocsPerRun(100, func() {
		d := jsonscan.New(document)
		read(d)
		if err := d.End(); err != nil {
			panic(err)
		}
	}) - 1
}

// readEscaped copies the first texts of the list of escaped ones.
func readEscaped(texts int) func(*jsonscan.Decoder) {
	return func(d *jsonscan.Decoder) {
		for key := range d.Fields() {
			if string(key) != "escaped" {
				continue
			}
			for index := range d.Elements() {
				if index < texts {
					_ = d.Text()
				}
			}
		}
	}
}

func TestSkip_DoesNotAllocate(t *testing.T) {
	assert.Zero(t, countAllocations((*jsonscan.Decoder).Skip))
	assert.Zero(t, countAllocations(func(d *jsonscan.Decoder) { d.Raw() }))
}

func TestFieldsAndElements_DoNotAllocate(t *testing.T) {
	var views int
	assert.Zero(t, countAllocations(func(d *jsonscan.Decoder) {
		for key := range d.Fields() {
			switch string(key) {
			case "plain":
				views += len(d.TextBytes())
			case "objects":
				for range d.Elements() {
					for range d.Fields() {
						views += len(d.Raw())
					}
				}
			}
		}
	}))
	assert.Positive(t, views)
}

func TestText_AllocatesOnce(t *testing.T) {
	assert.InDelta(t, 1, countAllocations(func(d *jsonscan.Decoder) {
		for key := range d.Fields() {
			if string(key) == "plain" {
				_ = d.Text()
			}
		}
	}), 0)
	// The first escaped text pays for the scratch buffer, too, unless its pool has one; with the race detector that is
	// chance.
	assert.InDelta(t, 10, countAllocations(readEscaped(11))-countAllocations(readEscaped(1)), 1)
}

// A long text without escapes is a view of the document, in any language. A copy of it would be memory that nobody
// asked for, and that is too large to be kept for the next document.
func TestTextBytes_LongTextWithoutEscapes_IsNotCopied(t *testing.T) {
	document := []byte(`"` + strings.Repeat("病歴", 1<<18) + `"`)
	assert.Zero(t, testing.AllocsPerRun(10, func() {
		d := jsonscan.New(document)
		_ = d.TextBytes()
		if err := d.End(); err != nil {
			panic(err)
		}
	}))
}

// Characters that are not ASCII do not make a text with escapes more expensive.
func TestTextBytes_EscapesAndAnyLanguage_DoNotAllocate(t *testing.T) {
	const texts = 50
	document := []byte("[" + strings.Repeat(`"\n`+strings.Repeat("病歴", 50)+`",`, texts) + "0]")
	allocations := testing.AllocsPerRun(100, func() {
		d := jsonscan.New(document)
		for index := range d.Elements() {
			if index < texts {
				_ = d.TextBytes()
			}
		}
		if err := d.End(); err != nil {
			panic(err)
		}
	})
	// With the race detector the pool forgets what it was given now and then.
	assert.Less(t, allocations, float64(texts/2))
}

func TestIntern_TextsShareOneAllocation(t *testing.T) {
	var first, second string
	document := []byte(`["a synthetic text","another, with an \u0065scape"]`)
	run := func() {
		d := jsonscan.New(document)
		for i := range d.Elements() {
			d.Intern([]*string{&first, &second}[i], d.TextBytes())
		}
		if err := d.End(); err != nil {
			panic(err)
		}
	}
	// With the race detector the pool forgets what it was given now and then.
	assert.InDelta(t, 2, testing.AllocsPerRun(100, run), 1, "the decoder and the texts")
	assert.Equal(t, "another, with an escape", second)
}

func TestNew_DecoderStaysOnTheStack(t *testing.T) {
	document := []byte(`[{"n":1},{"n":[2]}]`)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		d := jsonscan.New(document)
		for range d.Elements() {
			for range d.Fields() {
				d.Skip()
			}
		}
		if err := d.End(); err != nil {
			panic(err)
		}
	}))
}
