// One row of a diff.

import { h } from "../dom.js";
import { tokens } from "../code/tokens.js";
import { split } from "../code/unseen.js";

export const ROW_HEIGHT = 20;

const WORDS = { "+": "added", "-": "removed", " ": "" };
const CLASSES = { "+": "added", "-": "removed", " ": "same" };

const UNSEEN_TITLE = "A character that cannot be seen";

function coloured(text, language) {
  return split(text).map(([isUnseen, part]) =>
    isUnseen
      ? h("span.code-unseen", { title: UNSEEN_TITLE }, part)
      : tokens(part, language).map(([kind, token]) => (kind ? h(`span.code-${kind}`, null, token) : token)),
  );
}

function codeLine(row, language, isMarked) {
  const word = WORDS[row.sign];
  return h(
    `div.diff-line.${CLASSES[row.sign]}`,
    { class: isMarked ? "marked" : "", dataset: row.after ? { line: String(row.after) } : {} },
    h("span.diff-number", { "aria-hidden": "true" }, row.before ?? ""),
    h("span.diff-number", { "aria-hidden": "true" }, row.after ?? ""),
    h("span.diff-sign", { "aria-hidden": "true" }, row.sign),
    word && h("span.visually-hidden", null, `${word}: `),
    h("code.diff-code", null, coloured(row.text, language)),
  );
}

/** A row of `rowsOf`. Marked lines are those that somebody asked for. */
export function rowElement(row, language, isMarked = false) {
  if (row.type === "line") return codeLine(row, language, isMarked);
  return h(`div.diff-${row.type}`, null, row.text);
}
