// `?`: all keys.

import { h } from "../dom.js";
import { icon } from "../icons.js";
import { showDialog } from "./dialogs.js";

const GROUPS = [
  ["Move", [["j k", "Next, previous"], ["h l", "Column to the left, right"], ["enter", "Open"], ["esc", "Back, or close"], ["/", "Filter"]]],
  ["Go to", [["g b", "Board"], ["g t", "Graph of tasks"], ["g w", "Workers"], ["g e", "Events"], ["g i", "Inbox"], ["g r", "Runs"]]],
  ["Do", [["ctrl k", "Commands for the selection, and everything else"], ["s", "Switch run"], ["d", "Light or dark"], ["?", "This help"]]],
];

/** `viewKeys` are those of the view that is shown: `[{ key, label }]`. */
export function showHelp(viewTitle, viewKeys = []) {
  const groups = viewKeys.length ? [...GROUPS, [viewTitle, viewKeys.map(({ key, label }) => [key, label])]] : GROUPS;
  const close = h("button.button.ghost.icon", { type: "button", "aria-label": "Close", onclick: () => dialog.close() }, icon("cross"));
  const dialog = showDialog("Keys", h("div.dialog-head", null, h("h2", null, "Keys"), close), h("div.dialog-body.help", null, groups.map(group)));
}

function group([title, keys]) {
  return h("section", null, h("h3", null, title), h("dl.keys", null, keys.map(([key, label]) => [
    h("dt", null, key.split(" ").map((name) => h("kbd", null, name))), h("dd", null, label),
  ])));
}
