// Sections of the task's page, which are built again only when their facts changed: what a person types or has opened
// stays while the page is live.

import { h, hintParts, replace } from "../dom.js";

const shown = new WeakMap();

/** Build the content of `element` from `facts`, unless it shows them already. */
export function show(element, facts, build) {
  const key = JSON.stringify(facts) ?? "";
  if (shown.get(element) === key) return;
  shown.set(element, key);
  const content = build(facts);
  element.hidden = content == null;
  replace(element, content);
}

export function section(title, ...children) {
  return [h("h2", null, title), ...children];
}

/** A list of names and values; those without a value are left out. */
export function facts(entries) {
  const known = entries.filter(([, value]) => value != null && value !== "" && value !== false);
  return h("dl.facts", null, known.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));
}

/** Why something could not be shown, with the server's hint. */
export function problem(error) {
  return h("div.notice", { role: "status" }, h("p", null, error.message), error.hint && h("p.hint", null, hintParts(error.hint)));
}
