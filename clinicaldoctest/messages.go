package clinicaldoctest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// answer is what an endpoint gives back. A nil body is an empty one; a string
// body is HTML.
type answer struct {
	status int
	header http.Header
	body   any
}

func success(body object) answer { return answer{status: http.StatusOK, body: body} }

// refusal is an answer with an Error body, worded as the description does or
// as the framework does.
func (v *Variant) refusal(status int, described, framework string) answer {
	message := described
	if v.FrameworkTexts {
		message = framework
	}
	return answer{status: status, body: v.errorObject(message, nil)}
}

func (v *Variant) unauthorized() answer {
	return v.refusal(http.StatusUnauthorized, "Unauthorized", "Unauthenticated.")
}

func (v *Variant) forbidden() answer {
	const text = "You do not have permission to modify this note"
	return v.refusal(http.StatusForbidden, text, "This action is unauthorized.")
}

func (v *Variant) notFound(model, id string) answer {
	return v.refusal(http.StatusNotFound, "Resource not found",
		fmt.Sprintf(`No query results for model [App\Models\%s] %s`, model, id))
}

func (v *Variant) unknownPath(path string) answer {
	return v.refusal(http.StatusNotFound, "Resource not found",
		fmt.Sprintf("The route %s could not be found.", strings.TrimPrefix(path, "/")))
}

func (v *Variant) wrongMethod(method, path string, allowed []string) answer {
	refused := v.refusal(http.StatusMethodNotAllowed, "Method not allowed",
		fmt.Sprintf("The %s method is not supported for route %s. Supported methods: %s.",
			method, strings.TrimPrefix(path, "/"), strings.Join(allowed, ", ")))
	refused.header = http.Header{"Allow": {strings.Join(allowed, ", ")}}
	return refused
}

// incomplete refuses to sign an unfinished note. The framework's text ends with a full stop, unlike the description's.
func (v *Variant) incomplete() answer {
	status := v.IncompleteSignStatus
	if v.IncompleteSignGeneric {
		return v.refusal(status, http.StatusText(status), http.StatusText(status))
	}
	const telling = "A note without complete transcription and analysis cannot be signed"
	return v.refusal(status, telling, telling+".")
}

func (v *Variant) alreadySigned() answer {
	return v.refusal(v.SignedChangeStatus, "A signed note cannot be changed", http.StatusText(v.SignedChangeStatus))
}

func (v *Variant) tooLarge() answer {
	switch v.TooLarge {
	case TooLargeHTML:
		return answer{status: http.StatusRequestEntityTooLarge, body: htmlPage("413 Request Entity Too Large")}
	case TooLargeField:
		return v.invalid(map[string][]string{"file": {"The file failed to upload."}})
	default:
		return v.refusal(http.StatusRequestEntityTooLarge, "The POST data is too large.", "")
	}
}

// invalid is the 422 of a validation error.
func (v *Variant) invalid(fields map[string][]string) answer {
	message := "The given data was invalid"
	if v.FrameworkTexts {
		message = firstMessage(fields)
	}
	return answer{status: http.StatusUnprocessableEntity, body: v.errorObject(message, fields)}
}

// firstMessage words a validation error as newer frameworks do.
func firstMessage(fields map[string][]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		all = append(all, fields[name]...)
	}
	switch more := len(all) - 1; more {
	case 0:
		return all[0]
	case 1:
		return all[0] + " (and 1 more error)"
	default:
		return fmt.Sprintf("%s (and %d more errors)", all[0], more)
	}
}

// inHTML returns what a client that did not ask for JSON gets instead of an error. It is a redirect for 401 and 422,
// which sends a browser back to a form, and otherwise a page with the same status.
func (a answer) inHTML() answer {
	switch a.status {
	case http.StatusUnauthorized:
		return redirect("/login")
	case http.StatusUnprocessableEntity:
		return redirect("/")
	default:
		return answer{status: a.status, header: a.header, body: htmlPage(http.StatusText(a.status))}
	}
}

func redirect(path string) answer {
	return answer{
		status: http.StatusFound, header: http.Header{"Location": {path}}, body: htmlPage("Redirecting to " + path),
	}
}

func htmlPage(title string) string {
	return "<!DOCTYPE html>\n" +
		"<html><head><title>" + title + "</title></head><body><h1>" + title + "</h1></body></html>\n"
}
