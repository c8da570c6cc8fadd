// Elements. Text gets into the document through `textContent` alone, and `clean`ed: nothing that a task,
// an agent or a log says is ever read as HTML.

import { age, clean, fullTime, sentence } from "./format.js";

const SAFE_LINK = /^(#|\/(?![/\\])|https?:\/\/)/i;
const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "indeterminate", "readOnly", "required", "open"]);
const TEXT_ATTRIBUTES = new Set(["title", "placeholder", "alt"]);

/**
 * `h("a.button", { href: "#/runs", onclick: run }, "Runs")`.
 *
 * A tag may have classes. Props: `class`, `dataset`, `style` (an object, set through CSSOM, as the policy of
 * the page allows), `on...` handlers, properties such as `value`, and attributes; those that are null or
 * false are left out. Children: nodes, text, lists of these; null and false are left out.
 */
export function h(tag, props, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name || "div");
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(props ?? {})) setProp(element, key, value);
  append(element, children);
  return element;
}

function setProp(element, key, value) {
  if (value == null || value === false) return;
  if (key === "class") element.className = `${element.className} ${value}`.trim();
  else if (key === "dataset") Object.assign(element.dataset, value);
  else if (key === "style") for (const [name, style] of Object.entries(value)) element.style.setProperty(name, style);
  else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
  else if (PROPERTIES.has(key)) element[key] = value;
  else setAttribute(element, key, value);
}

/** Set an attribute. A link that leads to a script is left out; text for people is cleaned. */
export function setAttribute(element, key, value) {
  if (key === "href" && !SAFE_LINK.test(value)) return;
  const isText = TEXT_ATTRIBUTES.has(key) || key.startsWith("aria-");
  element.setAttribute(key, value === true ? "" : isText ? clean(value) : String(value));
}

export function append(element, children) {
  for (const child of children) {
    if (child == null || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else if (child instanceof Node) element.append(child);
    else element.append(document.createTextNode(clean(child)));
  }
}

export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Change the text in place, and only if it is another one: no work for the browser otherwise. */
export function setText(element, value) {
  const text = value == null ? "" : clean(value);
  if (element.textContent !== text) element.textContent = text;
  return element;
}

export function toggleAttribute(element, name, isOn, value = "") {
  if (!isOn) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** Foreign text with its own direction of writing. */
export function foreign(tag, props, text) {
  const element = h(tag, { dir: "auto", ...props }, text);
  element.classList.add("foreign");
  return element;
}

/** The age of something; `tick` keeps all of those that are shown up to date. */
export function ageOf(ms, props = {}) {
  const element = h("time.number", props);
  setAge(element, ms);
  return element;
}

export function setAge(element, ms) {
  if (ms == null) {
    delete element.dataset.since;
    setText(element, "");
    return;
  }
  if (element.dataset.since !== String(ms)) {
    element.dataset.since = String(ms);
    element.title = fullTime(ms);
    element.dateTime = new Date(ms).toISOString();
  }
  setText(element, age(ms));
}

export function tickAges(root = document) {
  for (const element of root.querySelectorAll("time[data-since]")) setText(element, age(Number(element.dataset.since)));
}

/** A share of a whole as a bar, with its words for screen readers. */
export function meter(label) {
  const bar = h("i");
  const element = h("span.meter", { role: "img", "aria-label": label }, bar);
  return element;
}

export function setMeter(element, share, label, tone = "") {
  const bounded = Math.min(1, Math.max(0, share));
  element.firstChild.style.setProperty("transform", `scaleX(${bounded.toFixed(4)})`);
  toggleAttribute(element, "aria-label", true, label);
  element.className = `meter ${tone}`.trim();
  return element;
}

/** A command to run in a terminal, with a button that copies it. */
export function command(text) {
  const copy = h("button.copy", { type: "button", "aria-label": `Copy ${text}` }, "Copy");
  copy.addEventListener("click", async () => {
    setText(copy, (await copied(clean(text))) ? "Copied" : "Not allowed");
    setTimeout(() => setText(copy, "Copy"), 1500);
  });
  const canCopy = Boolean(navigator.clipboard);
  return h("span.command", null, h("code", null, text), canCopy && copy);
}

/** Put a text into the clipboard; false if the browser does not allow it. */
export async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** A hint of the server, which has commands between backticks. */
export function hintParts(text) {
  if (typeof text !== "string") return text;
  return sentence(text).split("`").map((part, index) => (index % 2 ? h("code", null, part) : part));
}

/** What a view shows while it has nothing: what would be there, and what fills it. */
export function empty(title, text, shell = null) {
  return h("div.empty", null, h("h2", null, title), text && h("p", null, hintParts(text)), shell && command(shell));
}
