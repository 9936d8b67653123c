package backend

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// Sign signs the version that the page showed, as the clinician who is logged in.
func Sign(client *clinicaldoc.Client) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, _ := strconv.ParseInt(r.PathValue("id"), 10, 64) // Sign rejects 0
		// A proxy that compresses the page adds W/.
		version := strings.Trim(strings.TrimPrefix(r.Header.Get("If-Match"), "W/"), `"`)
		if version == "" {
			http.Error(w, "which version was read?", http.StatusPreconditionRequired)
			return
		}
		note, err := client.Notes.Sign(r.Context(), id, clinicaldoc.IfVersion(version))
		if err != nil {
			http.Error(w, err.Error(), status(err)) // contains no patient data
			return
		}
		w.Header().Set("ETag", `"`+note.Version()+`"`)
		w.WriteHeader(http.StatusNoContent)
	}
}

// status returns the status for the page. The order matters: an error can match several cases.
func status(err error) int {
	switch {
	case errors.Is(err, ErrNobody), errors.Is(err, clinicaldoc.ErrUnauthorized):
		return http.StatusUnauthorized // log in
	case errors.Is(err, clinicaldoc.ErrConflict):
		return http.StatusPreconditionFailed // show the note as it is now
	case errors.Is(err, clinicaldoc.ErrOutcomeUnknown):
		return http.StatusBadGateway // it may have succeeded: read the note
	case errors.Is(err, clinicaldoc.ErrInvalidArgument):
		return http.StatusUnprocessableEntity
	case errors.Is(err, clinicaldoc.ErrForbidden):
		return http.StatusForbidden
	case errors.Is(err, clinicaldoc.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, clinicaldoc.ErrNoteIncomplete):
		return http.StatusConflict // not yet
	}
	return http.StatusBadGateway
}
