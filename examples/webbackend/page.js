// A change is sent with the version that the page shows. What comes back for a conflict is a page with both texts.
const note = document.querySelector("[data-etag]");

async function send(method, path, body) {
  const buttons = document.querySelectorAll("main button");
  buttons.forEach((button) => (button.disabled = true));
  const response = await fetch(path, { method, body, headers: { "If-Match": note.dataset.etag } }).catch(() => null);
  if (response?.ok) {
    location.reload();
    return;
  }
  const page = new DOMParser().parseFromString((await response?.text().catch(() => "")) ?? "", "text/html");
  const answer = page.querySelector("main:has(textarea, form)");
  if (answer) {
    document.querySelector("main").replaceWith(answer);
    return;
  }
  // Nothing came, or a page of a proxy: what was written stays where it is.
  buttons.forEach((button) => (button.disabled = false));
  document.querySelector("#hint").textContent = page.querySelector(".problem")?.textContent ?? "No answer came, but it may be done. Try again.";
}

if (note) {
  note.querySelector("form")?.addEventListener("submit", (event) => {
    event.preventDefault();
    send("PUT", location.pathname, new URLSearchParams(new FormData(event.target)));
  });
  note.querySelector("#sign")?.addEventListener("click", () => {
    const text = note.querySelector("textarea");
    if (text.value !== text.defaultValue) {
      document.querySelector("#hint").textContent = "Save the text first: you sign what is saved.";
    } else {
      send("POST", location.pathname + "/sign");
    }
  });
  const stage = note.querySelector(".stage[data-live]");
  if (stage) {
    const events = new EventSource(location.pathname + "/events");
    events.onmessage = (event) => {
      stage.textContent = event.data;
      if (event.data === "complete" || event.data === "signed") {
        location.reload();
      } else if (event.data === "failed") {
        events.close();
      }
    };
  }
}
