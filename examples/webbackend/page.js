// A change is sent with the version that the page shows. Whatever comes back, the clinician's text stays on the page.
const find = (selector) => document.querySelector(selector);
const hint = (text) => find("#hint")?.replaceChildren(text);
let leaving = false;

function unsaved() {
  const text = find("#text textarea");
  return text && !leaving && ("unsaved" in text.dataset || text.value !== text.defaultValue);
}

async function parsed(response) {
  const text = (await response?.text().catch(() => "")) ?? "";
  return new DOMParser().parseFromString(text, "text/html");
}

// adopt shows who is logged in according to another page.
function adopt(answer) {
  const header = answer.querySelector("body > header");
  if (header) {
    find("body > header").replaceWith(header);
  }
}

// send sends a change in the name of the user whom the page shows. The session may be somebody else's by now.
async function send(method, path, body) {
  hint("");
  const buttons = document.querySelectorAll("main button");
  buttons.forEach((button) => (button.disabled = true));
  const user = find("body > header form")?.dataset.user ?? "";
  const headers = { "If-Match": find("article").dataset.etag, "X-User": user };
  const response = await fetch(path, { method, body, headers }).catch(() => null);
  if (response?.ok) {
    leaving = true;
    location.reload();
    return;
  }
  const answer = await parsed(response);
  buttons.forEach((button) => (button.disabled = false));
  find("article > .problem")?.remove();
  if (response?.status === 412 && answer.querySelector("article")) {
    find("main").replaceWith(answer.querySelector("main"));
    localTimes();
    scrollTo(0, 0);
    return;
  }
  const problem = answer.querySelector(".problem");
  if (problem) {
    adopt(answer);
    find(".whose").after(problem);
    problem.scrollIntoView({ block: "center" });
    hint(find("#login") ? "Nothing was saved. Log in, then try again." : "");
  } else {
    hint("No answer came, but it may be done. Try again."); // or a page of a proxy came
  }
}

// logIn logs in without leaving a text that is not saved. The page then says who is logged in.
async function logIn(form) {
  const response = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) }).catch(() => null);
  const answer = await parsed(response);
  adopt(answer);
  form.parentElement.replaceWith(answer.querySelector(".problem:has(#login)") ?? "");
  hint(response?.ok ? "You are logged in. Your text is not saved yet." : "");
}

function localTimes() {
  const parts = { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short" };
  const format = new Intl.DateTimeFormat([], parts);
  document.querySelectorAll("time").forEach((time) => (time.textContent = format.format(new Date(time.dateTime))));
}

document.addEventListener("submit", (event) => {
  if (event.target.id === "text") {
    event.preventDefault();
    send("PUT", location.pathname, new URLSearchParams(new FormData(event.target)));
  } else if (event.target.id === "login" && find("#text")) {
    event.preventDefault();
    logIn(event.target);
  }
});

document.addEventListener("click", (event) => {
  if (event.target.id === "sign" && unsaved()) {
    hint("Save the text first: you sign what is saved.");
  } else if (event.target.id === "sign") {
    find("#signer").textContent = find("body > header form span")?.textContent ?? "nobody";
    find("#signing").showModal();
  } else if (event.target.id === "confirm") {
    find("#signing").close();
    send("POST", location.pathname + "/sign", new URLSearchParams({ patient: find("#text [name=patient]").value }));
  }
});

addEventListener("beforeunload", (event) => unsaved() && event.preventDefault());

const live = find(".stage[data-live]");
if (live) {
  const events = new EventSource(location.pathname + "/events");
  events.onmessage = (event) => {
    live.textContent = event.data;
    if (["complete", "signed", "failed"].includes(event.data)) {
      events.close();
      location.reload();
    }
  };
}
localTimes();
