// The inspector's page. What comes is collected and drawn once a frame, and never more than a few hundred rows, so that
// thousands of requests do not slow it. Text is only ever set as text.

const maxRows = 300;
const maxKept = 2000;
const stages = ["uploaded", "transcribing", "transcribed", "analysing", "complete"];

const $ = (id) => document.getElementById(id);

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

// ask uses a control and shows what went wrong, if anything did.
async function ask(method, path, content) {
  const options = { method };
  if (content !== undefined) {
    options.body = JSON.stringify(content);
    options.headers = { "Content-Type": "application/json" };
  }
  try {
    const response = await fetch(path, options);
    const result = await response.json();
    if (!response.ok) throw new Error(result.message);
    return result;
  } catch (problem) {
    say(problem.message, true);
    return null;
  }
}

function say(text, bad = false) {
  $("message").textContent = text;
  $("message").toggleAttribute("data-bad", bad);
}

// ---- Requests

const requests = new Map(); // by id
const calls = new Map(); // by the id of the first attempt: the ids of all
const drawn = new Map(); // by call: its element
const changed = new Set(); // calls to draw
let redrawAll = false;
let scheduled = false;
let paused = false;
let waiting = 0;
let total = 0;
let opened = 0; // the request whose details are shown

function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    draw();
  });
}

function take(request) {
  const known = requests.has(request.id);
  requests.set(request.id, request);
  if (!known) {
    total = Math.max(total, request.id);
    if (!calls.has(request.call)) calls.set(request.call, []);
    calls.get(request.call).push(request.id);
    forgetOld();
  }
  if (paused) {
    if (!known) waiting++;
  } else {
    changed.add(request.call);
  }
  schedule();
}

function forgetOld() {
  while (requests.size > maxKept) {
    const [oldest] = calls.keys();
    for (const id of calls.get(oldest)) requests.delete(id);
    calls.delete(oldest);
    drawn.get(oldest)?.remove();
    drawn.delete(oldest);
  }
}

function matches(call) {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  return words.every((word) => calls.get(call).some((id) => {
    const r = requests.get(id);
    return [r.method, r.route, r.target, r.status || "none", r.fault, ...(r.findings || [])].join(" ").toLowerCase().includes(word);
  }));
}

function draw() {
  $("pause").textContent = paused && waiting ? `Go on (${waiting} new)` : paused ? "Go on" : "Pause";
  $("request-count").textContent = total;
  if (!paused) drawCalls();
  $("no-requests").hidden = requests.size > 0;
  drawThings();
}

function drawCalls() {
  const list = $("calls");
  if (redrawAll) {
    list.replaceChildren();
    drawn.clear();
    changed.clear();
    let rows = 0;
    for (const call of [...calls.keys()].reverse()) {
      if (rows >= maxRows) break;
      if (!matches(call)) continue;
      list.append(drawCall(call));
      rows += calls.get(call).length;
    }
    redrawAll = false;
  }
  // Of a flood only the newest can be seen: the others are not even made.
  const fresh = [...changed].filter((call) => calls.has(call)).sort((a, b) => a - b).slice(-maxRows);
  changed.clear();
  for (const call of fresh) {
    const before = drawn.get(call);
    if (before) before.replaceWith(drawCall(call));
    else if (matches(call)) list.prepend(drawCall(call));
  }
  while (list.children.length > maxRows) {
    drawn.delete(Number(list.lastElementChild.dataset.call));
    list.lastElementChild.remove();
  }
  const hidden = calls.size - list.children.length;
  $("more").hidden = hidden <= 0;
  $("more").textContent = $("filter").value ? `${hidden} other calls are not shown.` : `${hidden} older calls are kept; the filter finds them.`;
  keepOneStop();
}

function drawCall(call) {
  const ids = calls.get(call);
  const focused = document.activeElement?.dataset?.id;
  const item = make("li", { class: ids.length > 1 ? "call grouped" : "call", "data-call": call });
  if (ids.length > 1) item.append(make("div", { class: "several" }, `one call, ${ids.length} attempts`));
  for (const id of ids) {
    item.append(drawRow(requests.get(id)));
    if (id === opened) item.append(details.element);
  }
  drawn.set(call, item);
  if (focused && ids.includes(Number(focused))) {
    requestAnimationFrame(() => item.querySelector(`[data-id="${focused}"]`)?.focus());
  }
  return item;
}

function drawRow(r) {
  const status = r.pending ? "..." : r.status || "none";
  const kind = r.pending ? "wait" : `s${Math.floor((r.status || 0) / 100)}`;
  const bar = make("i");
  bar.style.width = `${Math.min(100, Math.log10(10 * r.ms + 1) * 20)}%`; // a fifth for each power of ten; ten seconds fill it
  const time = make("span", { class: "time" }, r.pending ? "" : span(r.ms), bar);
  const path = [r.route ? r.route.split(" ")[1] : "", r.target];
  const tags = [r.fault && `fault ${r.fault}`, r.note && `note ${r.note}`, r.findings && `${r.findings.length} departure${r.findings.length > 1 ? "s" : ""}`].filter(Boolean);
  return make("button", {
    type: "button", class: "row", "data-id": r.id, tabindex: -1, "aria-expanded": String(r.id === opened),
  },
    make("span", {}, r.method),
    make("span", { class: "path", title: path.join(" ") }, state.mode === "upstream" ? (path[0] || "(unknown path)") + r.target : r.target),
    make("span", { class: "tag" }, tags.join(", ")),
    make("span", { class: `status ${kind}` }, String(status)),
    time);
}

function span(ms) {
  return ms < 1000 ? `${ms.toFixed(ms < 10 ? 1 : 0)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

// keepOneStop lets Tab reach the list once; up and down move inside.
function keepOneStop() {
  const rows = $("calls").querySelectorAll(".row");
  if (rows.length && !$("calls").querySelector(".row[tabindex='0']")) rows[0].tabIndex = 0;
}

const details = { element: make("div", { class: "detail", role: "region", "aria-label": "Request" }) };

async function open(id) {
  const before = opened;
  opened = opened === id ? 0 : id;
  details.element.replaceChildren();
  for (const one of [before, id]) {
    const call = requests.get(one)?.call;
    if (call && drawn.has(call)) changed.add(call);
  }
  if (opened) {
    const r = await ask("GET", `requests/${id}`);
    if (r && opened === id) showDetails(r);
  }
  if (paused) { // what is shown can still be opened
    for (const call of [...changed]) drawn.get(call)?.replaceWith(drawCall(call));
    changed.clear();
  }
  schedule();
}

function showDetails(r) {
  const part = (title, lines, extra = "") => lines?.length ? [make("h4", {}, title), make("pre", { class: extra }, lines.join("\n"))] : [];
  details.element.replaceChildren(
    make("div", { class: "bar" }, copier("Copy as curl", r.curl), copier("Copy as Go", r.go)),
    ...part("Departures", r.findings, "findings"),
    ...part("Request header", r.request_header), ...part("Request body", r.request_shape),
    ...part("Response header", r.response_header), ...part("Response body", r.response_shape),
    ...part("curl", [r.curl]), ...part("Go", [r.go]));
}

function copier(label, text) {
  const button = make("button", { type: "button" }, label);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it below";
    }
  });
  return button;
}

$("calls").addEventListener("click", (event) => {
  const row = event.target.closest(".row");
  if (row) open(Number(row.dataset.id));
});

$("calls").addEventListener("focusin", (event) => {
  const row = event.target.closest(".row");
  if (!row) return;
  for (const other of $("calls").querySelectorAll(".row[tabindex='0']")) other.tabIndex = -1;
  row.tabIndex = 0;
});

$("calls").addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
  const row = event.target.closest(".row");
  if (!step || !row) return;
  const rows = [...$("calls").querySelectorAll(".row")];
  const at = Math.max(0, Math.min(rows.length - 1, rows.indexOf(row) + step));
  rows[at].focus();
  event.preventDefault();
});

$("filter").addEventListener("input", () => { redrawAll = true; schedule(); });
$("request-bar").addEventListener("submit", (event) => event.preventDefault());
$("clear").addEventListener("click", () => ask("DELETE", "requests"));
$("pause").addEventListener("click", pause);

function pause() {
  paused = !paused;
  waiting = 0;
  $("pause").setAttribute("aria-pressed", String(paused));
  if (!paused) redrawAll = true;
  schedule();
}

document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    $("filter").focus();
    event.preventDefault();
  }
  if (event.key === "p") pause();
});

// ---- Notes, or the departures of a real service

const notes = new Map();
let notesChanged = false;

function takeNote(note) {
  if (note.gone) notes.delete(note.id);
  else notes.set(note.id, note);
  while (notes.size > 100) notes.delete(Math.min(...notes.keys()));
  notesChanged = true;
  schedule();
}

function drawThings() {
  if (!notesChanged) return;
  notesChanged = false;
  const things = state.mode === "upstream" ? state.departures.map(drawDeparture) : [...notes.values()].sort((a, b) => b.id - a.id).map(drawNote);
  $("thing-list").replaceChildren(...things);
  $("thing-count").textContent = things.length;
  $("no-things").hidden = things.length > 0;
}

function drawNote(note) {
  const reached = { signed: 5, failed: 2 }[note.stage] ?? stages.indexOf(note.stage) + 1;
  const steps = make("span", { class: "steps", "aria-hidden": "true" }, ...stages.map((_, i) => make("i", { class: i < reached ? "done" : undefined })));
  return make("li", { class: "thing", "data-stage": note.stage, "data-note": note.id },
    make("span", { class: "name" }, `${note.id} ${note.name}`), make("span", { class: "stage" }, note.stage), steps,
    ...(note.error ? [make("span", { class: "what" }, note.error)] : []));
}

function drawDeparture(d) {
  return make("li", { class: "thing" },
    make("span", { class: "name" }, d.route), make("span", {}, `${d.times}×`), make("span", { class: "what" }, d.what));
}

// ---- Controls

let state = { mode: "", faults: [], departures: [] };
let clockAhead = 0;

const refresh = () => fetching(async () => {
  const fresh = await ask("GET", "state");
  if (!fresh) return;
  state = fresh;
  const upstream = state.mode === "upstream";
  $("mode").textContent = upstream ? "proxy" : "box";
  $("target").textContent = upstream ? `to ${state.upstream}` : state.base_url;
  $("things-title").firstChild.textContent = upstream ? "Departures " : "Notes ";
  $("things-link").textContent = upstream ? "Departures" : "Notes";
  $("no-things").textContent = upstream ? "Every response so far was as described." : "No notes yet.";
  $("box-controls").hidden = upstream;
  showFaults();
  if (!upstream) showBox();
  notesChanged = true;
  schedule();
});

function showFaults() {
  fill($("fault-route"), ["*", ...state.routes], (route) => (route === "*" ? "every route" : route));
  fill($("fault-kind"), state.fault_kinds.map((kind) => kind.name));
  showKind();
  $("faults").replaceChildren(...state.faults.map((fault) => {
    const remove = make("button", { type: "button" }, "Take back");
    remove.addEventListener("click", () => ask("DELETE", "faults", { id: fault.id }));
    return make("li", {}, make("span", {}, `${fault.route || "every route"}: ${fault.fault}${fault.struck ? `, struck ${fault.struck}` : ""}`), remove);
  }));
}

// fill sets the choices of a select, which keeps what is chosen.
function fill(select, values, label = (value) => value) {
  if (select.dataset.values === values.join("\n")) return;
  select.dataset.values = values.join("\n");
  select.replaceChildren(...values.map((value) => make("option", { value }, label(value))));
}

function showKind() {
  const kind = state.fault_kinds.find((one) => one.name === $("fault-kind").value);
  if (!kind) return;
  $("fault-usage").textContent = kind.usage;
  $("fault-argument").disabled = !kind.example;
  $("fault-argument").placeholder = kind.example;
}

function showBox() {
  notes.clear();
  for (const note of state.notes) notes.set(note.id, note);
  clockAhead = Date.parse(state.now) - Date.now();
  $("freeze").setAttribute("aria-pressed", String(state.frozen));
  tick();
  fill($("variant"), state.variants);
  if (document.activeElement !== $("variant")) $("variant").value = state.variant.name || "default";
  if (!$("switches").children.length) $("switches").append(...state.switches.filter((one) => one.kind !== "object").map(makeSwitch));
  for (const one of state.switches) {
    const input = $(`switch-${one.name}`);
    if (input && document.activeElement !== input) setInput(input, one, state.variant[one.name]);
  }
}

function makeSwitch(one) {
  const id = `switch-${one.name}`;
  const input = one.kind === "choice" ? make("select", { id }, ...one.values.map((value) => make("option", { value }, value)))
    : make("input", { id, type: { flag: "checkbox", number: "number" }[one.kind] || "text", autocomplete: "off" });
  input.addEventListener("change", async () => {
    const done = await ask("POST", "variant", { switches: { [one.name]: inputValue(input, one) } });
    if (done) say(`${one.name} is set`);
    else setInput(input, one, state.variant[one.name]);
  });
  return make("label", { for: id }, one.name.replaceAll("_", " "), input);
}

function setInput(input, one, value) {
  if (one.kind === "flag") input.checked = value;
  else input.value = one.kind === "list" ? (value || []).join(", ") : value;
}

function inputValue(input, one) {
  switch (one.kind) {
    case "flag": return input.checked;
    case "number": return Number(input.value);
    case "list": return input.value.split(",").map((part) => part.trim()).filter(Boolean);
    default: return input.value;
  }
}

function tick() {
  if (state.mode !== "box") return;
  const now = new Date(state.frozen ? Date.parse(state.now) : Date.now() + clockAhead).toISOString();
  $("now").dateTime = now;
  $("now").textContent = `${now.slice(0, 10)} ${now.slice(11, 19)} UTC${state.frozen ? ", standing still" : ""}`;
}
setInterval(tick, 1000);

async function inject(fault) {
  if (await ask("POST", "faults", { fault })) say(`injected ${fault}`);
}

$("quick").addEventListener("click", (event) => event.target.dataset.fault && inject(event.target.dataset.fault));
$("fault-kind").addEventListener("change", showKind);
$("fault-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const argument = $("fault-argument").disabled ? "" : `=${$("fault-argument").value || $("fault-argument").placeholder}`;
  inject(`${$("fault-route").value}:${$("fault-kind").value}${argument}:${$("fault-often").value || 1}`);
});
$("clear-faults").addEventListener("click", () => ask("DELETE", "faults"));
$("clock").addEventListener("click", (event) => event.target.dataset.advance && ask("POST", "clock", { advance: event.target.dataset.advance }));
$("freeze").addEventListener("click", () => ask("POST", "clock", { frozen: !state.frozen }));
$("fates").addEventListener("click", async (event) => {
  const fate = event.target.dataset.fate;
  if (fate && await ask("POST", "next", JSON.parse(fate))) say("the next note will meet it");
});
$("variant").addEventListener("change", async () => {
  if (await ask("POST", "variant", { name: $("variant").value })) say(`variant ${$("variant").value}`);
});
$("seed").addEventListener("click", () => ask("POST", "seed", 10));
$("add-user").addEventListener("click", async () => {
  const user = await ask("POST", "users", {});
  if (user) say(`user ${user.id} has the token ${user.token}`);
});
$("add-token").addEventListener("click", async () => {
  const token = await ask("POST", "tokens", { user_id: 1, name: "added here" });
  if (token) say(`one more token of user 1: ${token.token}`);
});
$("reset").addEventListener("click", async () => {
  if (await ask("POST", "reset")) say("everything is as at the start");
});

// ---- Events

let underWay = 0;
const held = [];

// fetching holds back what the stream tells until the work is done: what is fetched may be older and would replace it.
async function fetching(work) {
  underWay++;
  try {
    await work();
  } finally {
    if (--underWay === 0) for (const [take, event] of held.splice(0)) take(event);
  }
}

// tell calls take with what the stream tells, now or after what is being fetched.
function tell(take) {
  return (event) => {
    const content = JSON.parse(event.data);
    if (underWay) held.push([take, content]);
    else take(content);
  };
}

let stream;
let refreshSoon;

function refreshLater() {
  refreshSoon ??= setTimeout(() => { refreshSoon = undefined; refresh(); }, 100);
}

let startingOver = false;
let onceMore = false;

// startOver fetches everything: at the start, and after more came than the stream could hold. A flood does not pile it up.
async function startOver() {
  onceMore = startingOver;
  if (startingOver) return;
  startingOver = true;
  await fetchAll();
  setTimeout(() => {
    startingOver = false;
    if (onceMore) startOver();
  }, 300);
}

const fetchAll = () => fetching(async () => {
  await refresh();
  const list = await ask("GET", "requests");
  if (!list) return;
  requests.clear();
  calls.clear();
  if (!list.length) total = 0;
  for (const request of list) {
    requests.set(request.id, request);
    if (!calls.has(request.call)) calls.set(request.call, []);
    calls.get(request.call).push(request.id);
    total = Math.max(total, request.id);
  }
  redrawAll = true;
  schedule();
});

function connect() {
  stream = new EventSource("events");
  stream.addEventListener("open", () => connection("live"));
  stream.addEventListener("error", () => connection("reconnecting"));
  stream.addEventListener("reset", startOver);
  stream.addEventListener("state", refreshLater);
  stream.addEventListener("note", tell(takeNote));
  stream.addEventListener("request", tell((request) => {
    take(request);
    if (request.fault || request.findings) refreshLater();
  }));
}

function connection(text) {
  $("connection").textContent = text;
  $("connection").dataset.state = text;
}

// A browser has few connections to a host; a page that nobody sees needs none.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    stream?.close();
    connection("asleep");
  } else {
    connect();
  }
});

if (!document.hidden) connect();
