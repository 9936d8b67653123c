package backend

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestClient_WithoutLogin_SendsNothing(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	client, err := NewClient(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	id := srv.AddNote(clinicaldoctest.Note{})
	if _, err := client.Notes.Sign(t.Context(), id); !errors.Is(err, ErrNobody) {
		t.Error(err)
	}
	if sent := len(srv.Requests()); sent != 0 {
		t.Error(sent, "requests in nobody's name")
	}
}

func TestSession_RefusedToken_IsRenewedOnce(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	user := srv.AddUser(clinicaldoctest.User{})
	renewals := 0
	session := NewSession("expired", func(context.Context) (string, error) {
		renewals++
		if renewals == 1 {
			return "", errors.New("identity provider unavailable")
		}
		return user.Token, nil
	})
	client, err := NewClient(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Users.Me(WithSession(t.Context(), session)); err == nil {
		t.Fatal("no error")
	}
	for range 3 {
		me, err := client.Users.Me(WithSession(t.Context(), session))
		if err != nil || me.ID != user.ID || renewals != 2 {
			t.Fatal(me, err, renewals)
		}
	}
}

func TestSign_OnlyWhatWasRead(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	author := srv.AddUser(clinicaldoctest.User{})
	colleague := srv.AddUser(clinicaldoctest.User{})
	id := srv.AddNote(clinicaldoctest.Note{UserID: author.ID})
	client, err := NewClient(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	as := func(u clinicaldoctest.User) context.Context {
		return WithSession(t.Context(), NewSession(u.Token, nil))
	}
	sign := func(u clinicaldoctest.User, version string) int {
		r := httptest.NewRequestWithContext(as(u), "POST", "/", nil)
		r.SetPathValue("id", "1")
		r.Header.Set("If-Match", `W/"`+version+`"`) // as a compressing proxy sends it
		w := httptest.NewRecorder()
		Sign(client)(w, r)
		return w.Code
	}
	old, err := client.Notes.Get(as(colleague), id)
	if err != nil {
		t.Fatal(err)
	}
	edit := clinicaldoc.UpdateNoteParams{Analysis: new("changed since")}
	now, err := client.Notes.Update(as(author), id, edit)
	if err != nil {
		t.Fatal(err)
	}
	if code := sign(author, old.Version()); code != http.StatusPreconditionFailed {
		t.Error("an old version:", code)
	}
	if code := sign(colleague, now.Version()); code != http.StatusForbidden {
		t.Error("somebody else's note:", code)
	}
	if code := sign(author, now.Version()); code != http.StatusNoContent {
		t.Error("what was read:", code)
	}
}

// The page shows or links the code of this package, file by file.
func TestPage_ShowsOrLinksEveryFile(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../../../docs/backends.md")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(string(content), "\r\n", "\n")
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if file == "backend_test.go" || file == "doc.go" {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code := strings.ReplaceAll(string(source), "\r\n", "\n")
		isShown := strings.Contains(page, "\n```go\n"+code+"```")
		isLinked := strings.Contains(page, "](../internal/dev/recipes/backend/"+file+")")
		if !isShown && !isLinked {
			t.Error("the page neither shows nor links", file)
		}
	}
}
