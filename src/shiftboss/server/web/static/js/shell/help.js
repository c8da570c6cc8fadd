// `?`: all keys.

import { h } from "../dom.js";
import { icon } from "../icons.js";
import { showDialog } from "./dialogs.js";
import { PLACES } from "./places.js";

const GROUPS = [
  ["Move", [["j k", "Next, previous"], ["h l", "Column to the left, right"], ["enter", "Open"], ["esc", "Back, or close"], ["/", "Filter"]]],
  ["Go to", PLACES.map(({ key, title }) => [key, title])],
  ["Do", [["ctrl k", "Commands for the selection, and everything else"], ["s", "Switch run"], ["d", "Light or dark"], ["?", "This help"]]],
];

/** `viewKeys` are those of the view that is shown, see `stage.js`. */
export function showHelp(viewTitle, viewKeys = []) {
  const groups = viewKeys.length ? [...GROUPS, [viewTitle, viewKeys.filter(({ label }) => label).map(({ key, shown, label }) => [shown ?? key, label])]] : GROUPS;
  const close = h("button.button.ghost.icon", { type: "button", "aria-label": "Close", onclick: () => dialog.close() }, icon("cross"));
  const dialog = showDialog("Keys", h("div.dialog-head", null, h("h2", null, "Keys"), close), h("div.dialog-body.help", null, groups.map(group)));
}

function group([title, keys]) {
  return h("section", null, h("h3", null, title), h("dl.keys", null, keys.map(([key, label]) => [
    h("dt", null, key.split(" ").map((name) => h("kbd", null, name))), h("dd", null, label),
  ])));
}
