package ingest

import (
	"slices"
	"strconv"
	"strings"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/nfc"
)

// Keys and names are hashed in NFC, so all spellings of a name have one hash. Earlier versions composed only some Latin
// letters, so the hash of another name depended on its spelling, and journals still contain these hashes. A recording
// that the journal knows only under such a hash keeps it.

// earlierForms returns what earlier versions may have hashed for a text instead of its NFC: the text as it is spelled,
// or decomposed. It returns nothing for most texts.
func earlierForms(text string) (forms []string) {
	current := nfc.String(text)
	for _, spelled := range []string{text, nfc.Decompose(text)} {
		form := composeLatin(spelled)
		if form != current && !slices.Contains(forms, form) {
			forms = append(forms, form)
		}
	}
	return forms
}

// composeLatin composes a text as earlier versions did: some Latin letters with the mark after them.
var composeLatin = func() func(string) string {
	var pairs []string
	// By the mark, each letter before its composed form.
	for mark, letters := range map[string]string{
		"\u0300": "AÀEÈIÌOÒUÙaàeèiìoòuù",
		"\u0301": "AÁCĆEÉIÍNŃOÓSŚUÚYÝZŹaácćeéiínńoósśuúyýzź",
		"\u0302": "AÂEÊIÎOÔUÛaâeêiîoôuû",
		"\u0303": "AÃNÑOÕaãnñoõ",
		"\u0306": "AĂGĞaăgğ",
		"\u0307": "ZŻzż",
		"\u0308": "AÄEËIÏOÖUÜaäeëiïoöuüyÿ",
		"\u030a": "AÅUŮaåuů",
		"\u030b": "OŐUŰoőuű",
		"\u030c": "CČDĎEĚNŇRŘSŠTŤZŽcčdďeěnňrřsštťzž",
		"\u0327": "CÇSŞcçsş",
		"\u0328": "AĄEĘaąeę",
	} {
		for pair := range slices.Chunk([]rune(letters), 2) {
			pairs = append(pairs, string(pair[0])+mark, string(pair[1]))
		}
	}
	return strings.NewReplacer(pairs...).Replace
}()

// keys returns the recording's key and the keys that earlier versions may have used for it. A recording with the key of
// its file may come from a queue, where an earlier version left it.
func (r Recording) keys() (key string, earlier []string) {
	if r.SHA256 == "" || r.File == "" {
		return r.Key, earlierForms(r.Key)
	}
	fileKey := contentKey(r.SHA256, r.File, r.Params)
	for _, form := range earlierForms(nameInKey(r.File, r.Params)) {
		earlier = append(earlier, hashContent(r.SHA256, r.Params, form))
	}
	isOfFile := r.Key == fileKey || slices.Contains(earlier, r.Key)
	if !isOfFile {
		return r.Key, earlierForms(r.Key)
	}
	return fileKey, earlier
}

// earlierNames returns the hashes that earlier versions may have kept of a name.
func earlierNames(service string, params clinicaldoc.CreateNoteParams) (hashes []uint32) {
	patient := strconv.FormatInt(params.PatientID, 10)
	for _, form := range earlierForms(strings.TrimSpace(params.Name)) {
		hashes = append(hashes, shortHash("name", service, patient, form))
	}
	return hashes
}

// findKey returns the hash under which the journal keeps the recording; see [Binding.Keys]. If there are several
// hashes, and the journal has none of them, findKey also returns the journal's error: a damaged entry may be the
// recording's.
func (r *run) findKey(t *task) (Key, error) {
	keys := Binding{Origin: r.service}.Keys(t.recording)
	if len(keys) == 1 {
		return keys[0], nil
	}
	entries, err := r.uploader.Journal.EntriesForPatient(r.ctx, t.own.Patient, anyTime)
	for _, key := range keys {
		if slices.ContainsFunc(entries, func(e Entry) bool { return e.Key == key }) {
			return key, nil
		}
	}
	return keys[0], err
}

// withCurrentName returns an entry with the current hash of its name, if it is the task's name and an earlier version
// hashed it.
func (t *task) withCurrentName(e Entry) Entry {
	if slices.Contains(t.earlierNames, e.Name) {
		e.Name = t.own.Name
	}
	return e
}

// withCurrentNames is withCurrentName for several entries. It changes none of them.
func (t *task) withCurrentNames(entries []Entry) []Entry {
	if len(t.earlierNames) == 0 {
		return entries
	}
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i] = t.withCurrentName(entries[i])
	}
	return entries
}
