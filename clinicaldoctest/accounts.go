package clinicaldoctest

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
)

func (s *state) me(c call) answer {
	return success(s.variant().wrapped(s.userObject(c.user)))
}

func (s *state) listTokens(c call) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	var own []token
	for _, t := range s.tokens {
		if t.userID == c.user.id {
			own = append(own, *t)
		}
	}
	slices.SortFunc(own, func(a, b token) int { return cmp.Compare(a.id, b.id) })
	records := []object{}
	for _, t := range own {
		records = append(records, s.variant().tokenObject(t))
	}
	return success(object{"tokens": records})
}

func (s *state) revokeToken(c call) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	for secret, t := range s.tokens {
		if t.userID == c.user.id && strconv.FormatInt(t.id, 10) == c.id {
			delete(s.tokens, secret)
			return s.variant().confirmation("Token revoked")
		}
	}
	return s.variant().notFound("PersonalAccessToken", c.id)
}

// confirmation answers a deletion.
func (v *Variant) confirmation(message string) answer {
	if v.DeleteStatus == http.StatusNoContent {
		return answer{status: http.StatusNoContent}
	}
	return answer{status: v.DeleteStatus, body: v.extended(object{"message": message})}
}
