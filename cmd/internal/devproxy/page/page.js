// What every part of the page uses. Text is only ever set as text.

export const $ = (id) => document.getElementById(id);

export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false && value !== null) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

// state is what the proxy tells of itself.
export const page = { state: { mode: "", faults: [], departures: [], bodies: false } };

// ask uses a control and shows what went wrong, if anything did.
export async function ask(method, path, content) {
  const options = { method };
  if (content !== undefined) {
    options.body = typeof content === "string" ? content : JSON.stringify(content);
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

let silence;

export function say(text, bad = false) {
  const message = $("message");
  message.textContent = text;
  message.toggleAttribute("data-bad", bad);
  message.hidden = !text;
  clearTimeout(silence);
  silence = setTimeout(() => { message.hidden = true; }, bad ? 12000 : 5000);
}

export function duration(ms) {
  return ms < 1000 ? `${ms.toFixed(ms < 10 ? 1 : 0)} ms` : `${(ms / 1000).toFixed(ms < 100000 ? 1 : 0)} s`;
}

export function bytes(n) {
  if (n < 1000) return `${n} B`;
  return n < 1e6 ? `${(n / 1000).toFixed(1)} kB` : `${(n / 1e6).toFixed(1)} MB`;
}

export function clock(at) {
  const time = new Date(at);
  const two = (n) => String(n).padStart(2, "0");
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}.${String(time.getMilliseconds()).padStart(3, "0")}`;
}

// pathOf is a request's path and query; of a real service the route's, with the names alone.
export function pathOf(r) {
  return page.state.mode === "upstream" && !page.state.bodies ? (r.route?.split(" ")[1] ?? "(unknown path)") + r.target : r.target;
}

// statusOf is a request's status in words, and the class of its colour.
export function statusOf(r) {
  if (r.pending) return ["...", "wait"];
  return [r.status ? String(r.status) : "none", `s${Math.floor((r.status || 0) / 100)}`];
}

export async function copyText(text, button) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select it below";
  }
  setTimeout(() => { button.textContent = label; }, 2000);
}
