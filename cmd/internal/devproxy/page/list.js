// The list of requests. Only the rows that can be seen are made, however many there are.

import { $, make, ask, clock, duration, page, pathOf, statusOf } from "./page.js";

const maxKept = 20000;
const rows = $("rows");
const space = $("space");

const all = []; // oldest first
const byId = new Map();
const calls = new Map(); // by call: when it began and ended, how many attempts it has, and the id of the last
let view = []; // of all, what matches the filter: oldest call first, and of a call the last attempt first
let selected = 0;
let paused = false;
let held = 0; // came while paused
let added = 0; // rows above what is seen since the last frame
let seenTop = 0; // where the list stood in the last frame
let redraw = false;
let refilter = false;
let height = 30;
const pool = [];
const listeners = { select: () => {}, change: () => {} };

export const on = (name, listener) => { listeners[name] = listener; };
export const get = (id) => byId.get(id);
export const selectedId = () => selected;
export const before = (r) => all[position(all, r) - 1];
export const attempts = (r) => all.filter((other) => other.call === r.call);

const byTime = (a, b) => a.id - b.id;
const byCall = (a, b) => a.call - b.call || b.id - a.id;

// position finds a request in a list, or where it would be. Without an order the list is one of ids.
function position(requests, request, order = byTime) {
  let [low, high] = [0, requests.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (order(requests[middle], request) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

const placeInView = (request) => position(view, request, byCall);

// follow keeps what the attempts of a call have in common, so that no row looks at all requests.
function follow({ call, id, at, ms = 0 }) {
  const known = calls.get(call) ?? { from: at, to: at, attempts: new Set(), last: id };
  known.attempts.add(id);
  known.from = Math.min(known.from, at);
  known.to = Math.max(known.to, at + ms);
  known.last = Math.max(known.last, id);
  calls.set(call, known);
}

// spanOf is where an attempt lies in the time of its call, in parts of 1; nothing if the call has no other attempt.
export function spanOf(r) {
  const known = calls.get(r.call);
  if (!known || known.attempts.size < 2) return undefined;
  const whole = Math.max(known.to - known.from, 1);
  return { from: (r.at - known.from) / whole, part: (r.ms ?? 0) / whole, after: r.at - known.from, count: known.attempts.size };
}

// take puts a request where it belongs, in place of what was known of it. It looks at no other one: there may be many.
export function take(request) {
  const known = byId.get(request.id);
  request.hay = hay(request); // now, not for all of them when somebody types
  byId.set(request.id, request);
  follow(request);
  all.splice(position(all, request), known ? 1 : 0, request);
  if (all.length > maxKept) forgetOld();
  const at = placeInView(request);
  const there = view[at]?.id === request.id;
  const stays = paused ? there : matches(request);
  view.splice(at, there ? 1 : 0, ...(stays ? [request] : []));
  if ((view.length - 1 - at) * height <= seenTop) added += stays - there;
  if (paused && !known) held++;
  if (known?.pending && !request.pending) searched = Math.min(searched, request.id - 1); // now there is more to look through
  if (known && request.id === selected && known.pending) listeners.change(request);
  schedule();
}

function forgetOld() {
  for (const old of all.splice(0, maxKept / 10)) {
    byId.delete(old.id);
    if (calls.get(old.call)?.last === old.id) calls.delete(old.call);
  }
  if (!paused) view = view.filter((r) => byId.has(r.id));
}

export function clear() {
  all.length = 0;
  byId.clear();
  calls.clear();
  view = [];
  held = 0;
  schedule();
}

export function pause() {
  paused = !paused;
  held = 0;
  $("pause").setAttribute("aria-pressed", String(paused));
  if (!paused) refilter = true;
  schedule();
}

// ---- Finding

let terms = [];
const inBodies = new Map(); // by word: the ids that the proxy found
let searched = 0; // the last id that was looked through

function parse() {
  terms = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
    const [, key, value] = word.match(/^(status|route|method|note|call|is):(.+)$/) || [];
    return term(key ?? "text", value ?? word);
  });
  if ($("status").value) terms.push(term("status", $("status").value));
  if ($("route").value) terms.push(term("exact", $("route").value));
}

const term = (key, value) => ({ key, value, test: tests[key](value) });

const hay = (r) => [r.method, r.route, r.target, r.fault, ...(r.findings || [])].join(" ").toLowerCase();

const tests = {
  text: (word) => (r) => r.hay.includes(word) || `#${r.id}` === word || !!inBodies.get(word)?.has(r.id),
  status: (wanted) => (r) => !r.pending && (wanted === "none" ? !r.status : wanted.endsWith("xx") ? String(r.status)[0] === wanted[0] : String(r.status) === wanted),
  route: (word) => (r) => (r.route || "").toLowerCase().includes(word),
  exact: (route) => (r) => r.route === route,
  method: (word) => (r) => r.method.toLowerCase() === word,
  note: (id) => {
    const path = new RegExp(`/progress-notes/${id.replace(/\D/g, "")}(?:[/?]|$)`);
    return (r) => String(r.note) === id || path.test(r.target);
  },
  call: (id) => (r) => String(r.call) === id,
  is: (what) => (r) => ({ fault: !!r.fault, error: !r.pending && (!r.status || r.status >= 400), pending: !!r.pending, replay: !!r.replays, loaded: !!r.loaded, departure: !!r.findings })[what],
};

const matches = (r) => terms.every(({ test }) => test(r));

let searchSoon;
let searching = false;
let searches = 0;

// search asks the proxy for the requests whose headers and bodies hold the words of the filter.
function search(afresh) {
  if (afresh) {
    inBodies.clear();
    clearTimeout(searchSoon);
    searches++; // what is under way is for other words
    searched = 0;
    searching = false;
  }
  const words = terms.filter(({ key, value }) => key === "text" && value.length > 1).map(({ value }) => value);
  if (searching || !words.length || !page.state.bodies) return;
  searching = true;
  const own = searches;
  searchSoon = setTimeout(async () => {
    const from = searched;
    searched = all.at(-1)?.id || 0;
    for (const word of words) {
      const found = await ask("GET", `requests?after=${from}&text=${encodeURIComponent(word)}`);
      if (own !== searches) return;
      const known = inBodies.get(word) || new Set();
      for (const id of found || []) known.add(id);
      inBodies.set(word, known);
    }
    searching = false;
    refilter = true;
    schedule();
  }, 150);
}

export function find() {
  parse();
  refilter = true;
  rows.scrollTop = 0;
  search(true);
  listeners.find?.();
  schedule();
}

export function findText(text) {
  $("filter").value = text;
  $("status").value = $("route").value = "";
  find();
}

// ---- Drawing

export function schedule() {
  if (redraw) return;
  redraw = true;
  requestAnimationFrame(() => {
    redraw = false;
    draw();
  });
}

// draw reads where the list stands before it changes anything, so that the browser lays the page out once.
function draw() {
  let top = rows.scrollTop;
  const seen = rows.clientHeight;
  $("pause").textContent = paused && held ? `Go on (${held} new)` : paused ? "Go on" : "Pause";
  if (refilter && !paused) {
    view = all.filter(matches).sort(byCall);
    refilter = false;
  }
  if (terms.some(({ key }) => key === "text") && all.length && all.at(-1).id > searched) search(false);
  const count = String(view.length === all.length || paused ? all.length : `${view.length} of ${all.length}`);
  $("request-count").textContent = count;
  $("no-requests").hidden = all.length > 0;
  rows.hidden = !all.length;
  space.style.height = `${view.length * height}px`;
  if (added && top > height) rows.scrollTop = top += added * height; // whoever reads further down stays there
  added = 0;
  seenTop = top;
  const first = Math.max(0, Math.floor(Math.min(top, view.length * height - seen) / height) - 4);
  const last = Math.min(view.length, first + Math.ceil(seen / height) + 8);
  while (pool.length < last - first) pool.push(makeRow());
  pool.forEach((row, i) => {
    const r = view[view.length - 1 - first - i];
    row.element.hidden = first + i >= last || !r;
    if (!row.element.hidden) drawRow(row, r, first + i);
  });
  rows.setAttribute("aria-activedescendant", byId.has(selected) ? `row-${selected}` : "");
}

function makeRow() {
  const row = {};
  for (const name of ["time", "method", "path", "tag", "line", "status", "took"]) row[name] = make("span", { class: name });
  row.bar = make("i");
  row.line.append(row.bar);
  row.element = make("div", { class: "row", role: "option" }, row.time, row.method, row.path, row.tag, row.line, row.status, row.took);
  space.append(row.element);
  return row;
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function drawRow(row, r, index) {
  const [status, kind] = statusOf(r);
  const path = pathOf(r);
  const { element } = row;
  element.id = `row-${r.id}`;
  element.dataset.id = r.id;
  element.style.transform = `translateY(${index * height}px)`;
  element.setAttribute("aria-selected", String(r.id === selected));
  element.classList.toggle("again", r.attempt > 1);
  set(row.time, clock(r.at));
  set(row.method, r.method);
  set(row.path, path);
  row.path.title = path;
  const span = spanOf(r);
  row.line.hidden = !span;
  if (span) drawBar(row.bar, span, kind);
  set(row.tag, [span && `attempt ${r.attempt} of ${span.count}`, r.fault, r.note && `note ${r.note}`, r.replays && `again ${r.replays}`, r.loaded && "loaded",
    r.findings && `${r.findings.length} departure${r.findings.length > 1 ? "s" : ""}`].filter(Boolean).join(" · "));
  set(row.status, status);
  row.status.className = `status ${kind}`;
  set(row.took, r.pending ? "" : duration(r.ms));
}

// drawBar draws an attempt on the time line of its call.
export function drawBar(bar, { from, part }, kind) {
  bar.className = kind;
  bar.style.left = `min(${from * 100}%, 100% - 4px)`; // which is the least width
  bar.style.width = `${part * 100}%`;
}

// ---- Choosing

export function select(id, open = true) {
  selected = id;
  const index = byId.has(id) ? placeInView(byId.get(id)) : -1;
  if (view[index]?.id === id) {
    const top = (view.length - 1 - index) * height;
    if (top < rows.scrollTop) rows.scrollTop = top;
    else if (top + height > rows.scrollTop + rows.clientHeight) rows.scrollTop = top + height - rows.clientHeight;
  }
  if (open) listeners.select(id);
  schedule();
}

// move chooses the row so many further down; the first when none is chosen.
export function move(step) {
  if (!view.length) return;
  const index = byId.has(selected) ? placeInView(byId.get(selected)) : -1;
  const at = view[index]?.id !== selected ? view.length - 1 : Math.max(0, Math.min(view.length - 1, index - step));
  select(view[at].id, document.body.classList.contains("opened"));
}

rows.addEventListener("click", (event) => {
  const row = event.target.closest(".row");
  if (row) select(Number(row.dataset.id));
});
rows.addEventListener("scroll", schedule, { passive: true });
new ResizeObserver(() => {
  height = Number.parseFloat(getComputedStyle(rows).getPropertyValue("--row"));
  draw();
}).observe(rows);
for (const id of ["filter", "status", "route"]) $(id).addEventListener("input", find);
$("find").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!byId.has(selected) || !matches(byId.get(selected))) selected = 0;
  rows.focus();
  if (!selected) move(0);
});
$("pause").addEventListener("click", pause);
