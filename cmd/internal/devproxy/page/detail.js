// One request: what was sent, what was answered, what the SDK makes of it, and the same again.

import { $, make, ask, bytes, clock, copyText, duration, page, pathOf, say, statusOf } from "./page.js";
import * as list from "./list.js";

const first = 256 * 1024; // of a body are fetched at once
const more = 1024 * 1024;
const coloured = 64 * 1024; // of JSON are drawn in colours
const block = 16 * 1024; // of a text are laid out at a time
const pane = $("detail");
let shown = 0;
let answered = 0; // the request that is shown with its answer
let base = 0; // the request that others are compared with
const listeners = { open: () => {} };

export const on = (name, listener) => { listeners[name] = listener; };
export const openedId = () => shown;
export const comparedId = () => base;

export async function open(id) {
  shown = id;
  answered = 0;
  document.body.classList.add("opened");
  listeners.open();
  const r = await ask("GET", `requests/${id}`);
  if (shown !== id || answered === id) return;
  if (!r) {
    pane.replaceChildren(make("div", { class: "empty" }, make("p", {}, `Request ${id} is not kept any more.`)));
    return;
  }
  if (base && base !== id) await showDifference(id);
  else show(r);
}

export function close() {
  shown = 0;
  document.body.classList.remove("opened");
  pane.replaceChildren(make("div", { class: "empty" }, make("p", {}, "Choose a request to see what was sent and answered.")));
  listeners.open();
}

// changed shows a request anew that has been answered meanwhile.
export function changed(r) {
  if (r.id === shown && r.id !== answered) open(r.id);
}

function show(r) {
  answered = r.pending ? 0 : r.id;
  const [status, kind] = statusOf(r);
  const canReplay = page.state.mode === "box" && !r.pending;
  pane.replaceChildren(
    make("div", { class: "top" },
      make("button", { type: "button", class: "back", onclick: close }, "‹ Requests"),
      make("h2", {}, make("span", { class: "number" }, `#${r.id}`), " ", make("span", { class: "method" }, r.method), " ", make("span", { class: "path" }, pathOf(r)), " ", make("span", { class: `status ${kind}` }, status)),
      make("div", { class: "bar" },
        canReplay && make("button", { type: "button", class: "main", id: "replay", title: "r", onclick: () => replay(r.id) }, "Send again"),
        canReplay && make("button", { type: "button", id: "edit", title: "e", onclick: () => edit(r) }, "Edit and send"),
        page.state.bodies && make("button", { type: "button", id: "compare", title: "c", onclick: () => compare(r.id) }, "Compare"),
        make("button", { type: "button", onclick: (event) => copyText(r.curl, event.target) }, "Copy as curl"),
        make("button", { type: "button", onclick: (event) => copyText(r.go, event.target) }, "Copy as Go"))),
    make("dl", { class: "facts" }, ...facts(r)),
    ...timeLine(r),
    ...verdict(r.verdict),
    ...departures(r.findings),
    part("Request", r, "request"),
    part("Response", r, "response"),
    section("The same as curl", [make("pre", { class: "code" }, r.curl)], false),
    section("The same in Go", [make("pre", { class: "code" }, r.go)], false));
  pane.scrollTop = 0;
}

function facts(r) {
  const known = list.get(r.id) ?? r;
  const earlier = list.before(known);
  const lines = [
    ["Time", `${clock(r.at)}${earlier ? `, ${duration(r.at - earlier.at)} after #${earlier.id}` : ""}`],
    ["Took", r.pending ? "not answered yet" : `${duration(r.ms)}, ${bytes(r.received)} sent, ${bytes(r.sent)} answered`],
    ["Route", r.route || "none of the service's"],
    r.request_id && ["Request id", r.request_id],
    ["Connection", [r.proto, r.conn].filter(Boolean).join(", ")],
    r.fault && ["Fault", r.fault],
    r.note && ["Note", make("a", { href: "#", onclick: link(() => list.findText(`note:${r.note}`)) }, `note ${r.note}`)],
    r.replays && ["Sent again", make("a", { href: `#id=${r.replays}` }, `as #${r.replays} was`)],
    r.loaded && ["Loaded", "from a file: it was sent elsewhere"],
  ];
  return lines.filter(Boolean).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]);
}

const maxAttempts = 20; // of a call are drawn; the filter shows all

// timeLine shows the attempts of a call, each where it lies in the call's time.
function timeLine(r) {
  const tries = list.attempts(list.get(r.id) ?? r);
  if (tries.length < 2) return [];
  const lines = tries.slice(-maxAttempts).map((one) => {
    const [status, kind] = statusOf(one);
    const span = list.spanOf(one);
    const bar = make("i");
    list.drawBar(bar, span, kind);
    const took = one.pending ? "not answered yet" : `took ${duration(one.ms)}`;
    return make("li", { "aria-current": one.id === r.id && "true" },
      make("a", { href: `#id=${one.id}` }, `Attempt ${one.attempt}`), make("span", { class: `status ${kind}` }, status),
      make("span", { class: "line" }, bar), make("span", { class: "hint" }, span.after ? `after ${duration(span.after)}, ${took}` : took));
  });
  const all = make("a", { href: "#", onclick: link(() => list.findText(`call:${r.call}`)) }, "Show only this call");
  return [make("section", { class: "call" }, make("h3", {}, `One call, ${tries.length} attempts`), make("ol", {}, ...lines), all)];
}

const link = (act) => (event) => {
  event.preventDefault();
  act();
};

function verdict(v) {
  if (!v) return [];
  const title = v.failed ? "A Go program gets this error" : "A Go program gets";
  return [make("section", { class: v.failed ? "verdict bad" : "verdict" }, make("h3", {}, title),
    make("p", {}, make("code", {}, v.type), ...(v.matches || []).flatMap((name) => [" ", make("code", { class: "chip" }, name)]),
      v.failed && make("span", { class: "chip" }, v.retryable ? "may be tried again" : "not to be tried again")),
    v.happened && make("dl", { class: "facts" }, make("dt", {}, "What happened"), make("dd", {}, v.happened), make("dt", {}, "What to do"), make("dd", {}, v.do)),
    v.failed ? make("p", { class: "text" }, v.text) : make("pre", { class: "text" }, v.text),
    v.docs && make("p", { class: "hint" }, "More in ", make("a", { href: v.docs, target: "_blank", rel: "noopener" }, v.docs)))];
}

function departures(findings) {
  return findings ? [section("Departures from the description", [make("pre", { class: "findings" }, findings.join("\n"))])] : [];
}

function section(title, content, opened = true) {
  return make("details", { open: opened }, make("summary", {}, title), ...content);
}

// part is a request or a response: its body, its parts, its header.
function part(title, r, side) {
  const body = r[`${side}_body`];
  const header = r[`${side}_header`] || [];
  const shape = r[`${side}_shape`];
  const content = [];
  if (side === "request" && r.parts?.length) content.push(forms(r));
  else if (body?.kept) content.push(viewer(r, side, body));
  else if (shape?.length) content.push(make("pre", { class: "shape" }, shape.join("\n")));
  else content.push(make("p", { class: "hint" }, body && !body.whole ? "The body is no longer kept." : side === "response" && r.pending ? "No response yet." : "No body."));
  content.push(make("details", {}, make("summary", {}, `Header, ${header.length} lines`), make("pre", { class: "header" }, header.join("\n"))));
  return section(title, content);
}

// forms shows the parts of a form, one by one.
function forms(r) {
  return make("div", { class: "parts" }, ...r.parts.map((p, i) => {
    const address = `requests/${r.id}/parts/${i}`;
    const facts = [p.file, p.type, bytes(p.size)].filter(Boolean).join(", ");
    const playable = p.file && /^audio\/|octet-stream|^$/.test(p.type || "");
    return make("div", { class: "part" }, make("strong", {}, p.name || "(no name)"),
      p.text !== undefined ? make("span", { class: "text" }, p.text) : make("span", { class: "hint" }, facts),
      p.file && make("a", { href: address, download: p.file }, "Download"),
      playable && make("audio", { controls: true, preload: "metadata", src: address }));
  }), make("p", {}, make("a", { href: `requests/${r.id}/request/body?raw`, download: `request-${r.id}.body` }, "The body as it was sent"),
    r.request_body?.whole === false && make("span", { class: "hint" }, " (incomplete)")));
}

// viewer shows a body, pretty or raw, a piece at a time.
function viewer(r, side, body) {
  const address = `requests/${r.id}/${side}/body`;
  const output = make("div", { class: "body" });
  const facts = make("span", { class: "hint" }, [body.type, bytes(body.kept), body.packed && "compressed", !body.whole && "incomplete"].filter(Boolean).join(", "));
  const raw = make("a", { href: `${address}?raw`, download: `${side}-${r.id}.body` }, "Download");
  const box = make("div", { class: "viewer" }, make("div", { class: "bar" }, facts, raw), output);
  if (/^audio\//.test(body.type)) {
    output.append(make("audio", { controls: true, preload: "metadata", src: address }));
    return box;
  }
  if (!body.text) {
    output.append(make("p", { class: "hint" }, "No text."));
    return box;
  }
  const text = { start: "", decoder: new TextDecoder(), at: 0, total: Infinity };
  const isJSON = /json/i.test(body.type);
  let pretty = isJSON;
  const states = [["Pretty", true], ["Raw", false]].map(([name, value]) => make("button", { type: "button", "aria-pressed": String(pretty === value), onclick: (event) => {
    pretty = value;
    for (const one of states) one.setAttribute("aria-pressed", String(one === event.target));
    drawStart();
  } }, name));
  if (isJSON) box.firstChild.append(make("span", { class: "states", role: "group", "aria-label": "How the body is shown" }, ...states));
  const drawStart = () => {
    output.replaceChildren(...drawText(pretty ? indent(text.start) : text.start, isJSON));
    if (text.at < text.total) output.append(next());
  };
  const next = () => make("button", { type: "button", class: "more", onclick: async (event) => {
    const piece = await fetchPiece(address, text, more);
    event.target.replaceWith(...drawText(piece), ...(text.at < text.total ? [next()] : []));
  } }, `${bytes(text.at)} of ${bytes(text.total)} are shown: show more`);
  fetchPiece(address, text, first).then((piece) => {
    text.start = piece;
    drawStart();
  }, () => output.append(make("p", { class: "hint" }, "The body could not be fetched.")));
  return box;
}

async function fetchPiece(address, text, size) {
  const response = await fetch(address, { headers: { Range: `bytes=${text.at}-${text.at + size - 1}` } });
  const content = new Uint8Array(await response.arrayBuffer());
  text.total = Number(/\/(\d+)$/.exec(response.headers.get("Content-Range"))?.[1] ?? text.at + content.length);
  text.at += content.length;
  return text.decoder.decode(content, { stream: text.at < text.total });
}

const token = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\d[\d.eE+-]*/g;

// drawText makes a block of each so many lines: the browser lays out those alone that are near what is seen.
function drawText(text, isJSON) {
  const blocks = [];
  for (let at = 0, end; at < text.length; at = end) {
    end = at + block;
    const line = text.lastIndexOf("\n", end - 1) + 1;
    if (end < text.length && line > at) end = line;
    else if (/^[\uDC00-\uDFFF]/.test(text.slice(end, end + 1))) end++; // the second half of a letter
    blocks.push(drawBlock(text.slice(at, end).replace(/\n$/, ""), isJSON && text.length <= coloured));
  }
  return blocks;
}

function drawBlock(text, inColours) {
  const pre = make("pre", {});
  if (!inColours) {
    pre.textContent = text;
    return pre;
  }
  let at = 0;
  for (const found of text.matchAll(token)) {
    const kind = found[2] ? "key" : found[1] ? "string" : "value";
    pre.append(text.slice(at, found.index), make("span", { class: kind }, found[1] ?? found[0]), found[2] ?? "");
    at = found.index + found[0].length;
  }
  pre.append(text.slice(at));
  return pre;
}

// indent lays JSON out as it is written: numbers that a script cannot hold stay as they are, and a text may end anywhere.
function indent(text) {
  let out = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const [piece] of text.matchAll(/"(?:[^"\\]|\\.)*"?|[{}[\],:]|[^\s"{}[\],:]+/g)) {
    if (piece === "{" || piece === "[") {
      depth++;
      out += piece + line();
    } else if (piece === "}" || piece === "]") {
      depth = Math.max(0, depth - 1);
      out = /[{[]\s*$/.test(out.slice(-200)) ? out.trimEnd() + piece : out + line() + piece;
    } else if (piece === ",") out += `,${line()}`;
    else if (piece === ":") out += ": ";
    else out += piece;
  }
  return out;
}

// ---- Sending again

export async function replay(id, change) {
  const sent = await ask("POST", `requests/${id}/replay`, change);
  if (!sent) return;
  say(`#${id} was sent again as #${sent.id}`);
  list.select(sent.id);
}

async function edit(r) {
  const text = r.request_body?.text && r.request_body.whole && r.request_body.kept <= more;
  const body = text && r.request_body.kept ? await fetch(`requests/${r.id}/request/body?raw`).then((response) => response.text(), () => "") : "";
  const facts = pane.querySelector(".facts");
  if (shown !== r.id || !facts) return; // another one was opened meanwhile
  const field = (label, element) => make("label", {}, label, element);
  const method = make("input", { value: r.method, name: "method", autocomplete: "off", spellcheck: "false" });
  const target = make("input", { value: r.target, name: "target", autocomplete: "off", spellcheck: "false" });
  const header = make("textarea", { rows: Math.min(12, r.request_header.length + 1), name: "header", spellcheck: "false" });
  header.value = r.request_header.join("\n");
  const content = make("textarea", { rows: 8, name: "body", spellcheck: "false", disabled: !text });
  content.value = text ? body : "(sent as it was: it is long, or no text)";
  const unchanged = content.value; // with other ends of lines than were sent
  const form = make("form", { class: "edit", "aria-label": "Edit and send" }, field("Method", method), field("Target", target), field("Header", header), field("Body", content),
    make("div", { class: "bar" }, make("button", { class: "main" }, "Send"), make("button", { type: "button", onclick: () => open(r.id) }, "Cancel")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const change = { method: method.value, target: target.value, header: header.value.split("\n") };
    if (content.value !== unchanged) change.body = content.value;
    replay(r.id, change);
  });
  facts.replaceWith(form);
  method.focus();
}

// ---- Comparing

export function compare(id) {
  base = base === id ? 0 : id;
  drawBase();
  if (base) say(`open the request to compare #${id} with`);
  listeners.open();
}

export function compareWith(id) {
  base = id;
  drawBase();
}

function drawBase() {
  $("comparing").hidden = !base;
  $("compared").textContent = `#${base}`;
  $("compared").href = `#id=${base}`;
}

$("stop-comparing").addEventListener("click", () => {
  base = 0;
  drawBase();
  if (shown) open(shown);
});

async function asText(id) {
  const r = await ask("GET", `requests/${id}`);
  if (!r) return null;
  const lines = [`${r.method} ${r.target}`, ...r.request_header, ""];
  const bodyOf = async (side) => {
    if (!r[`${side}_body`]?.kept || !r[`${side}_body`].text) return [`(${bytes(r[`${side}_body`]?.kept ?? 0)})`];
    const text = { decoder: new TextDecoder(), at: 0, total: Infinity };
    const piece = await fetchPiece(`requests/${id}/${side}/body`, text, first);
    return (/json/i.test(r[`${side}_body`].type) ? indent(piece) : piece).split("\n");
  };
  lines.push(...(r.parts ? r.parts.map((p) => `${p.name}: ${p.text ?? [p.file, bytes(p.size)].filter(Boolean).join(", ")}`) : await bodyOf("request")));
  lines.push("", `→ ${statusOf(r)[0]}`, ...(r.response_header || []), "", ...await bodyOf("response"));
  return { r, lines };
}

async function showDifference(id) {
  const [one, other] = [await asText(base), await asText(id)];
  if (!one || !other || shown !== id) return;
  const changes = difference(one.lines, other.lines);
  const count = changes.filter((change) => change.kind !== " ").length;
  pane.replaceChildren(
    make("div", { class: "top" },
      make("button", { type: "button", class: "back", onclick: close }, "‹ Requests"),
      make("h2", {}, `#${base} and #${id}: ${count ? `${count} lines differ` : "no difference"}`),
      make("div", { class: "bar" }, make("button", { type: "button", id: "show-one", onclick: () => show(other.r) }, `Show #${id}`))),
    make("pre", { class: "difference" }, ...changes.map((change) => make("span", { class: { "+": "added", "-": "removed" }[change.kind] ?? "same" }, `${change.kind} ${change.line}\n`))));
}

// difference is the shortest way from one list of lines to another, for lists of a bearable length.
function difference(one, other) {
  const limit = 1500;
  const [a, b] = [one.slice(0, limit), other.slice(0, limit)];
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  }
  const changes = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      changes.push({ kind: " ", line: a[i] });
      i++;
      j++;
    } else if (i < a.length && (j >= b.length || lengths[i + 1][j] >= lengths[i][j + 1])) changes.push({ kind: "-", line: a[i++] });
    else changes.push({ kind: "+", line: b[j++] });
  }
  return changes;
}
