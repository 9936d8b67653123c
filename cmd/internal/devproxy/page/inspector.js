// The inspector's page: what the proxy tells as it happens, the keys, and links to a request.

import { $, ask, page } from "./page.js";
import * as list from "./list.js";
import * as detail from "./detail.js";
import { closePanels, showState, takeNote } from "./controls.js";

// ---- Links: the address tells what is shown

function address() {
  const parts = new URLSearchParams();
  if (detail.openedId()) parts.set("id", detail.openedId());
  if (detail.comparedId()) parts.set("with", detail.comparedId());
  for (const name of ["filter", "route", "status"]) if ($(name).value) parts.set(name, $(name).value);
  const hash = parts.size ? `#${parts}` : "";
  if (location.hash !== hash) history.replaceState(null, "", hash || location.pathname);
}

function follow() {
  const parts = new URLSearchParams(location.hash.slice(1));
  for (const name of ["filter", "route", "status"]) {
    if (parts.has(name) || location.hash === "") $(name).value = parts.get(name) ?? "";
  }
  if (parts.has("with")) detail.compareWith(Number(parts.get("with")));
  list.find();
  if (parts.has("id")) list.select(Number(parts.get("id")));
}

list.on("select", (id) => detail.open(id));
list.on("change", detail.changed);
list.on("find", address);
detail.on("open", address);
window.addEventListener("hashchange", follow);

// ---- Keys

const opened = () => list.get(detail.openedId());

const keys = {
  j: () => list.move(1),
  k: () => list.move(-1),
  ArrowDown: () => list.move(1),
  ArrowUp: () => list.move(-1),
  Home: () => list.move(-Infinity),
  End: () => list.move(Infinity),
  Enter: () => {
    if (!list.selectedId()) list.move(0);
    list.select(list.selectedId());
    $("detail").focus();
  },
  "/": () => $("filter").focus(),
  "?": () => $("help").showModal(),
  p: list.pause,
  r: () => opened() && page.state.mode === "box" && detail.replay(detail.openedId()),
  e: () => opened() && $("edit")?.click(),
  c: () => opened() && detail.compare(detail.openedId()),
};

document.addEventListener("keydown", (event) => {
  if ($("help").open || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (event.target.matches("input, select, textarea")) event.target.blur();
    else if (!closePanels()) {
      detail.close();
      $("rows").focus();
    }
    return;
  }
  if (event.target.matches("input, select, textarea")) return;
  const inside = event.target.closest("button, a, summary, audio");
  const act = keys[event.key];
  if (!act || inside && (event.key === "Enter" || inside.matches("audio"))) return;
  if (event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End") {
    if (!$("rows").contains(event.target)) return; // they scroll what has the focus
  }
  event.preventDefault();
  act();
});

// ---- Events

let underWay = 0;
const held = [];

const chunk = 500; // requests are fetched at a time
const budget = 5; // milliseconds of a frame for taking requests
const frame = () => new Promise(requestAnimationFrame);

const waiting = [];
let taking;

// take takes as many requests as a frame bears, and the others in the frames after it. It ends when all are taken.
function take(requests) {
  for (const request of requests) waiting.push(request);
  return taking ??= takeWaiting();
}

async function takeWaiting() {
  do {
    const end = performance.now() + budget;
    let taken = 0;
    while (taken < waiting.length && performance.now() < end) list.take(waiting[taken++]);
    waiting.splice(0, taken);
    await frame();
  } while (waiting.length);
  taking = undefined;
}

// fetching holds back what the stream tells until the work is done: what is fetched may be older and would replace it.
async function fetching(work) {
  underWay++;
  try {
    await work();
    while (underWay === 1 && held.length) {
      for (const [take, content] of held.splice(0)) take(content);
    }
  } finally {
    underWay--;
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

const refresh = () => fetching(async () => {
  const fresh = await ask("GET", "state");
  if (fresh) showState(fresh);
});

let refreshSoon;

function refreshLater() {
  refreshSoon ??= setTimeout(() => { refreshSoon = undefined; refresh(); }, 100);
}

let startingOver = false;
let onceMore = false;
let firstTime = true;

// startOver fetches everything: at the start, and after more came than the stream could hold. A flood does not pile it up.
async function startOver() {
  onceMore = startingOver;
  if (startingOver) return;
  startingOver = true;
  await fetchAll();
  if (firstTime) follow();
  firstTime = false;
  setTimeout(() => {
    startingOver = false;
    if (onceMore) startOver();
  }, 300);
}

const fetchAll = () => fetching(async () => {
  await refresh();
  const fetched = [];
  for (let after = 0; ;) {
    const some = await ask("GET", `requests?after=${after}&limit=${chunk}`);
    if (!some) return;
    fetched.push(...some);
    if (some.length < chunk) break;
    after = some.at(-1).id;
  }
  waiting.length = 0; // what was fetched is as new
  list.clear();
  await take(fetched);
});

let stream;

function connect() {
  stream = new EventSource("events");
  stream.addEventListener("open", () => connection("live"));
  stream.addEventListener("error", () => connection("reconnecting"));
  stream.addEventListener("reset", startOver);
  stream.addEventListener("state", refreshLater);
  stream.addEventListener("note", tell(takeNote));
  stream.addEventListener("requests", tell((requests) => {
    take(requests);
    if (requests.some((request) => request.fault || request.findings)) refreshLater();
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
