// The palette: everything that can be done to the selection, and every place one can go, by typing.

import { foreign, h, setText, toggleAttribute } from "../dom.js";
import { icon } from "../icons.js";
import { showDialog } from "./dialogs.js";

const SHOWN_MAX = 40;

/**
 * `sources(query)` gives the entries: `{ group, label, detail, icon, tone, keys, run }`. They are filtered by the words that were
 * typed, in the order in which they come.
 */
export function openPalette({ label, placeholder, sources }) {
  document.querySelector("dialog.palette")?.close();
  const field = h("input.palette-field", {
    type: "text", placeholder, "aria-label": label, role: "combobox", "aria-expanded": "true",
    "aria-controls": "palette-list", "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false",
  });
  const list = h("ul.palette-list", { id: "palette-list", role: "listbox", "aria-label": label });
  const none = h("p.palette-none.quiet", { role: "status" });
  const dialog = showDialog(label, h("div.palette-top", null, icon("search"), field, h("kbd", null, "esc")), list, none);
  dialog.classList.add("palette");
  let entries = [];
  let chosen = 0;

  function refresh() {
    const query = field.value.trim().toLowerCase();
    const words = query.split(/\s+/).filter(Boolean);
    entries = sources(query).filter((entry) => entry.isFound || hasWords(entry, words)).slice(0, SHOWN_MAX);
    list.replaceChildren(...rows(entries, run));
    setText(none, entries.length ? "" : "Nothing matches.");
    choose(0);
  }

  function choose(index) {
    chosen = entries.length ? (index + entries.length) % entries.length : 0;
    list.querySelectorAll("[role=option]").forEach((row, position) => {
      toggleAttribute(row, "aria-selected", true, String(position === chosen));
      if (position === chosen) row.scrollIntoView({ block: "nearest" });
    });
    toggleAttribute(field, "aria-activedescendant", entries.length > 0, `palette-${chosen}`);
  }

  function run(index) {
    const entry = entries[index];
    if (!entry) return;
    dialog.close();
    entry.run();
  }

  field.addEventListener("input", refresh);
  field.addEventListener("keydown", (event) => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key] ?? (event.ctrlKey && { n: 1, p: -1, j: 1, k: -1 }[event.key]);
    if (move) choose(chosen + move);
    else if (event.key === "Enter") run(chosen);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  refresh();
  field.focus();
}

function hasWords(entry, words) {
  const text = `${entry.group} ${entry.label} ${entry.detail ?? ""}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

function rows(entries, run) {
  let group = null;
  return entries.flatMap((entry, index) => {
    const heading = entry.group !== group && h("li.palette-group", { role: "presentation" }, entry.group);
    group = entry.group;
    return [heading, row(entry, index, run)].filter(Boolean);
  });
}

function row(entry, index, run) {
  return h(
    "li.palette-row", { role: "option", id: `palette-${index}`, "aria-selected": "false", onclick: () => run(index) },
    h("span", { class: `tone-${entry.tone ?? "quiet"}` }, icon(entry.icon ?? "chevron")),
    foreign("span.one-line", null, entry.label),
    entry.detail && foreign("span.palette-detail.one-line", null, entry.detail),
    entry.keys && h("span.palette-keys", null, entry.keys.split(" ").map((key) => h("kbd", null, key))));
}
