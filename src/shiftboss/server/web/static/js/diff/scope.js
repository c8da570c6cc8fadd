// Whether a file of a diff is within the contract of its task: a mark with a word, not only a colour.

import { h } from "../dom.js";

const MARKS = {
  owned: { word: "owned", tone: "", title: "The contract of the task owns this file." },
  generated: { word: "generated", tone: "", title: "The policy lets this file change: a lock file or generated code." },
  readonly: { word: "read-only", tone: "red", title: "The contract does not allow changes of this file." },
  outside: { word: "outside", tone: "red", title: "The contract of the task does not own this file." },
};

export const isOutOfScope = (file) => file.scope === "readonly" || file.scope === "outside";

export function scopeMark(file) {
  const mark = MARKS[file.scope];
  return mark ? h("span.tag", { class: mark.tone, title: mark.title }, mark.word) : null;
}

const STATUSES = { A: "added", M: "changed", D: "deleted", R: "renamed", C: "copied", T: "type changed" };

export const statusWord = (file) => STATUSES[(file.status ?? "M")[0].toUpperCase()] ?? file.status;

/** `+12 −3`, with words for screen readers. */
export function counts({ added, removed }) {
  return h(
    "span.diff-counts",
    { role: "img", "aria-label": `${added ?? 0} lines added, ${removed ?? 0} removed` },
    h("span.tone-green", null, `+${added ?? 0}`),
    " ",
    h("span.tone-red", null, `−${removed ?? 0}`),
  );
}
