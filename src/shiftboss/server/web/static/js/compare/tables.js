// Two runs as tables: the totals, and task by task.

import { h } from "../dom.js";
import { lookOf } from "../columns.js";
import { icon } from "../icons.js";
import { compact, dollars, duration, number } from "../format.js";
import { link, taskLink } from "../router.js";
import { millisOf, retriesOf } from "./run_facts.js";

const SHOWN_MAX = 500;

// Less of the first group is better; of the others it depends.
const MEASURES = [
  ["milliseconds", "Duration", duration, true],
  ["dollars", "Cost", dollars, true],
  ["tokens", "Tokens", compact, true],
  ["tasks", "Tasks", number, null],
  ["done", "Done", number, false],
  ["landed", "Landed", number, false],
  ["failed", "Failed", number, true],
  ["refusals", "Refused claims", number, true],
  ["retries", "Further attempts", number, true],
];

function change(left, right, write, lessIsBetter) {
  const difference = right - left;
  if (!difference) return h("span.quiet", null, "same");
  const share = left ? ` (${difference > 0 ? "+" : "−"}${Math.abs(Math.round((100 * difference) / left))}%)` : "";
  const isBetter = lessIsBetter === null ? null : difference < 0 === lessIsBetter;
  const tone = isBetter === null ? "" : isBetter ? "tone-green" : "tone-amber";
  const word = isBetter === null ? "" : isBetter ? ", better" : ", worse";
  return h("span.number", { class: tone }, `${difference > 0 ? "+" : "−"}${write(Math.abs(difference))}${share}${word}`);
}

const swarmHead = (run) => h("th", { scope: "col" }, h("a.mono", { href: link("s", run.swarm, "board") }, run.swarm));

export function totalsTable(left, right) {
  return h("div.table-scroll", { tabindex: "0", role: "region", "aria-label": "Totals" }, h("table.compare", null,
    h("thead", null, h("tr", null, h("th", { scope: "col" }, "Measure"), swarmHead(left), swarmHead(right), h("th", { scope: "col" }, "Change"))),
    h("tbody", null, MEASURES.map(([name, title, write, lessIsBetter]) =>
      h("tr", null, h("th", { scope: "row" }, title),
        h("td.number", null, write(left.totals[name] ?? 0)), h("td.number", null, write(right.totals[name] ?? 0)),
        h("td", null, change(left.totals[name] ?? 0, right.totals[name] ?? 0, write, lessIsBetter)))))));
}

function cells(card, swarm) {
  if (!card) return [h("td.quiet", { colspan: "4" }, "not in this run")];
  const look = lookOf(card);
  const time = millisOf(card);
  return [
    h("td", null, h("a.state", { href: taskLink(swarm, card.bead_id), class: `tone-${look.tone}` }, icon(look.icon), look.word)),
    h("td.number", null, time === null ? "" : duration(time)),
    h("td.number", null, card.dollars ? dollars(card.dollars) : ""),
    h("td.number", null, [retriesOf(card) && `${retriesOf(card)} more`, card.refusals && `${card.refusals} refused`].filter(Boolean).join(", ")),
  ];
}

export function tasksTable(list, left, right) {
  const names = ["State", "Time", "Cost", "Attempts"].map((name) => h("th", { scope: "col" }, name));
  return h("div.table-scroll", { tabindex: "0", role: "region", "aria-label": "Tasks" }, h("table.compare", null,
    h("thead", null,
      h("tr", null, h("td"), h("th", { scope: "colgroup", colspan: "4" }, left.swarm), h("th", { scope: "colgroup", colspan: "4" }, right.swarm)),
      h("tr", null, h("th", { scope: "col" }, "Task"), names, names.map((name) => name.cloneNode(true)))),
    h("tbody", null, list.slice(0, SHOWN_MAX).map((pair) =>
      h("tr", null, h("th.mono", { scope: "row", title: pair.title }, pair.id), cells(pair.left, left.swarm), cells(pair.right, right.swarm))))),
    list.length > SHOWN_MAX && h("p.quiet", null, `and ${number(list.length - SHOWN_MAX)} more tasks`));
}
