// One file of a diff: a head that opens and closes it, and its lines.

import { h, toggleAttribute } from "../dom.js";
import { icon } from "../icons.js";
import { languageOf } from "../code/languages.js";
import { exact } from "../code/unseen.js";
import { lazyBlocks } from "./lazy_blocks.js";
import { ROW_HEIGHT, rowElement } from "./line.js";
import { ROWS_PER_BLOCK, indexOfLine, rowsOf, widestOf } from "./rows.js";
import { counts, isOutOfScope, scopeMark, statusWord } from "./scope.js";

function pathLabel(file) {
  if (!file.old_path || file.old_path === file.path) return h("bdi.mono.diff-path", null, exact(file.path));
  return h("bdi.mono.diff-path", null, exact(file.old_path), " → ", exact(file.path));
}

/** `{file, element, open(), close(), reveal(line), stop()}` of a file. */
export function fileSection(file, { isOpen }) {
  const rows = rowsOf(file);
  const language = languageOf(file.path);
  const body = h("div.diff-body", { role: "region", "aria-label": `Changes of ${exact(file.path)}`, tabindex: "0" });
  body.style.setProperty("--widest", `${Math.min(widestOf(rows), 4000) + 2}ch`);
  const head = h(
    "button.diff-head",
    { type: "button", onclick: () => toggle() },
    icon("chevron", "icon-shape chevron"),
    pathLabel(file),
    h("span.quiet", null, statusWord(file)),
    scopeMark(file),
    counts(file),
  );
  const element = h("section.diff-file", { class: isOutOfScope(file) ? "out-of-scope" : "" }, h("h3", null, head), body);
  let blocks = null;

  function open() {
    blocks ??= lazyBlocks(body, rows, {
      perBlock: ROWS_PER_BLOCK,
      rowHeight: ROW_HEIGHT,
      draw: (row) => rowElement(row, language),
    });
    set(true);
  }

  function set(opened) {
    body.hidden = !opened;
    toggleAttribute(head, "aria-expanded", true, String(opened));
  }

  function toggle() {
    if (body.hidden) open();
    else set(false);
  }

  /** Scrolls to a line of the new file, or to the file. */
  function reveal(line) {
    open();
    const index = line ? indexOfLine(rows, line) : -1;
    const target = index >= 0 ? blocks.show(index) : null;
    (target ?? element).scrollIntoView({ block: target ? "center" : "start" });
    target?.classList.add("marked");
  }

  if (isOpen) open();
  else set(false);
  return { file, element, open, close: () => set(false), reveal, stop: () => blocks?.stop() };
}
