// The controls of the box, or of the way to a real service, and the notes or departures.

import { $, make, ask, page, say } from "./page.js";
import * as list from "./list.js";

const stages = ["uploaded", "transcribing", "transcribed", "analysing", "complete"];
const notes = new Map();
let drawSoon = false;
let drawn = ""; // what the list of notes or departures was made from

export function takeNote(note) {
  if (note.gone) notes.delete(note.id);
  else notes.set(note.id, note);
  while (notes.size > 100) notes.delete(Math.min(...notes.keys()));
  drawLater();
}

function drawLater() {
  if (drawSoon) return;
  drawSoon = true;
  requestAnimationFrame(() => {
    drawSoon = false;
    drawThings();
  });
}

function drawThings() {
  const { state } = page;
  const count = state.mode === "upstream" ? state.departures.length : notes.size;
  $("thing-count").textContent = count;
  $("no-things").hidden = count > 0;
  if ($("notes-panel").hidden) return; // nobody sees them
  const things = state.mode === "upstream" ? state.departures : [...notes.values()].sort((a, b) => b.id - a.id);
  const made = JSON.stringify(things);
  if (drawn === made) return; // so that nobody loses the focus, or half a click
  drawn = made;
  $("thing-list").replaceChildren(...things.map(state.mode === "upstream" ? drawDeparture : drawNote));
}

function drawNote(note) {
  const reached = { signed: 5, failed: 2 }[note.stage] ?? stages.indexOf(note.stage) + 1;
  const steps = make("span", { class: "steps", "aria-hidden": "true" }, ...stages.map((_, i) => make("i", { class: i < reached ? "done" : undefined })));
  const find = make("button", { type: "button", class: "name", title: "Find its requests", onclick: () => list.findText(`note:${note.id}`) }, `${note.id} ${note.name}`);
  return make("li", { class: "thing", "data-stage": note.stage, "data-note": note.id },
    find, make("span", { class: "stage" }, note.stage), steps, note.error && make("span", { class: "what" }, note.error));
}

function drawDeparture(d) {
  return make("li", { class: "thing" }, make("span", { class: "name" }, d.route), make("span", {}, `${d.times}×`), make("span", { class: "what" }, d.what));
}

// ---- Panels, one at a time

const panels = { "toggle-notes": "notes-panel", "toggle-controls": "controls-panel" };

export function closePanels() {
  const was = Object.values(panels).some((id) => !$(id).hidden);
  for (const [button, panel] of Object.entries(panels)) {
    $(panel).hidden = true;
    $(button).setAttribute("aria-expanded", "false");
  }
  return was;
}

for (const [button, panel] of Object.entries(panels)) {
  $(button).addEventListener("click", () => {
    const wanted = $(panel).hidden;
    closePanels();
    $(panel).hidden = !wanted;
    $(button).setAttribute("aria-expanded", String(wanted));
    drawThings();
  });
}

// ---- What the proxy tells of itself

let clockAhead = 0;

export function showState(fresh) {
  page.state = fresh;
  const upstream = fresh.mode === "upstream";
  $("mode").textContent = upstream ? "proxy" : "box";
  $("target").textContent = upstream ? `to ${fresh.upstream}` : fresh.base_url;
  $("banner").hidden = !upstream || !fresh.bodies;
  $("toggle-notes").firstChild.textContent = $("things-title").textContent = upstream ? "Departures " : "Notes ";
  $("no-things").textContent = upstream ? "Every response so far was as described." : "No notes yet.";
  $("box-controls").hidden = upstream;
  for (const id of ["save", "load"]) $(id).hidden = !fresh.bodies;
  fill($("route"), ["", ...fresh.routes], (route) => route || "every route");
  showFaults();
  if (!upstream) showBox();
  drawLater();
  list.schedule();
}

function showFaults() {
  const { state } = page;
  fill($("fault-route"), ["*", ...state.routes], (route) => (route === "*" ? "every route" : route));
  fill($("fault-kind"), state.fault_kinds.map((kind) => kind.name));
  showKind();
  $("fault-count").textContent = state.faults.length || "";
  $("faults").replaceChildren(...state.faults.map((fault) => make("li", {},
    make("span", {}, `${fault.route || "every route"}: ${fault.fault}${fault.struck ? `, struck ${fault.struck}` : ""}`),
    make("button", { type: "button", onclick: () => ask("DELETE", "faults", { id: fault.id }) }, "Take back"))));
}

// fill sets the choices of a select, which keeps what is chosen.
function fill(select, values, label = (value) => value) {
  if (select.dataset.values === values.join("\n")) return;
  const chosen = select.value;
  select.dataset.values = values.join("\n");
  select.replaceChildren(...values.map((value) => make("option", { value }, label(value))));
  if (values.includes(chosen)) select.value = chosen;
}

function showKind() {
  const kind = page.state.fault_kinds.find((one) => one.name === $("fault-kind").value);
  if (!kind) return;
  $("fault-usage").textContent = kind.usage;
  $("fault-argument").disabled = !kind.example;
  $("fault-argument").placeholder = kind.example;
}

function showBox() {
  const { state } = page;
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
    else setInput(input, one, page.state.variant[one.name]);
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
  const { state } = page;
  if (state.mode !== "box") return;
  const now = new Date(state.frozen ? Date.parse(state.now) : Date.now() + clockAhead).toISOString();
  $("now").dateTime = now;
  $("now").textContent = `${now.slice(0, 10)} ${now.slice(11, 19)} UTC${state.frozen ? ", standing still" : ""}`;
}
setInterval(tick, 1000);

// ---- Changing it

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
$("freeze").addEventListener("click", () => ask("POST", "clock", { frozen: !page.state.frozen }));
$("fates").addEventListener("click", async (event) => {
  const { fate } = event.target.dataset;
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

// What takes everything away asks first: the button itself does.
function sure(button, act) {
  const label = button.textContent;
  let asked;
  const forget = () => {
    clearTimeout(asked);
    asked = undefined;
    button.textContent = label;
    button.classList.remove("danger");
  };
  button.addEventListener("click", () => {
    if (asked) {
      forget();
      act();
      return;
    }
    button.textContent = `Really ${label.toLowerCase()}?`;
    button.classList.add("danger");
    asked = setTimeout(forget, 4000);
  });
}

sure($("reset"), async () => {
  if (await ask("POST", "reset")) say("everything is as at the start");
});
$("clear").addEventListener("click", () => ask("DELETE", "requests"));
$("load").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", async () => {
  const [file] = $("file").files;
  if (!file) return;
  const loaded = await ask("POST", "har", await file.text());
  if (loaded) say(`${loaded.loaded} requests were loaded`);
  $("file").value = "";
});
