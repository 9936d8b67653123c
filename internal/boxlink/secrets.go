package boxlink

import (
	"net/url"
	"regexp"
	"strings"
)

// secretHeader matches the names of headers that give access, also to a gateway in front of the service.
var secretHeader = regexp.MustCompile(
	`(?i)authorization|cookie|token|secret|password|credential|(api|auth|access|subscription)-?key`,
)

// secretParameter matches the names of query parameters that give access. It does not match the names of cursors,
// such as page_token.
var secretParameter = regexp.MustCompile(
	`(?i)signature|credential|secret|password|authorization|^(sig|token)$|` +
		`(api|auth|access|id|refresh|security|session)[-_]?token|(api|auth|access|subscription)[-_]?key`,
)

// parameter matches a query parameter in a text that contains an address.
var parameter = regexp.MustCompile(`[?&][^=?&#\s"'<>]+=[^?&#\s"'<>]*`)

// IsSecretHeader reports whether a header of that name gives access to a service.
func IsSecretHeader(name string) bool { return secretHeader.MatchString(name) }

// IsSecretParameter reports whether a query parameter of that name gives access: a token or a signature.
func IsSecretParameter(name string) bool { return secretParameter.MatchString(name) }

// MaskAddresses replaces the values of secret query parameters in a text by mask. The rest of the text stays as it is.
func MaskAddresses(text, mask string) string {
	return parameter.ReplaceAllStringFunc(text, func(pair string) string {
		name, _, _ := strings.Cut(pair[1:], "=")
		plain, err := url.QueryUnescape(name)
		if err != nil {
			plain = name
		}
		if !IsSecretParameter(plain) {
			return pair
		}
		return pair[:1] + name + "=" + mask
	})
}
