// Short messages at the edge: what an action did, or why it was refused and what helps.

import { h, hintParts } from "../dom.js";
import { icon } from "../icons.js";

const SHOWN_MS = 5000;
const SHOWN_MAX = 4;

export function toast(text, { tone = "plain", hint = "" } = {}) {
  const host = document.getElementById("toasts");
  const close = h("button.button.ghost.icon", { type: "button", "aria-label": "Dismiss", onclick: () => item.remove() }, icon("cross"));
  const mark = { red: "failed", green: "done" }[tone];
  const words = h("div", null, h("p", null, text), hint && h("p.soft", null, hintParts(hint)));
  const item = h("div.toast", { class: tone }, mark && h("span", { class: `tone-${tone}` }, icon(mark)), words, close);
  host.append(item);
  while (host.children.length > SHOWN_MAX) host.firstChild.remove();
  // An error stays until it is read.
  if (tone !== "red") setTimeout(() => item.remove(), SHOWN_MS);
}

export function toastError(label, error) {
  toast(`${label}: ${error.message}`, { tone: "red", hint: error.hint });
}
