// The board as it was at an event.

import { foreign, h } from "../dom.js";
import { COLUMNS, lookOf } from "../columns.js";
import { icon } from "../icons.js";
import { number } from "../format.js";
import { taskLink } from "../router.js";

const SHOWN_MAX = 50;

function chip(task, swarm, isTouched) {
  const look = lookOf(task);
  return h("a.replay-task", { href: taskLink(swarm, task.bead_id), class: isTouched ? "touched" : "" },
    h("span", { class: `tone-${look.tone}` }, icon(look.icon), h("span.visually-hidden", null, look.word)),
    foreign("span.replay-title", { title: task.title }, task.title || task.bead_id),
    h("bdi.mono.one-line.quiet", null, task.worker && task.status === "active" ? `${task.bead_id} · ${task.worker}` : task.bead_id));
}

/** All columns, with the task that the event was about marked. */
export function replayBoard(state, swarm) {
  const touched = state.event?.bead_id;
  const columns = COLUMNS.map((column) => [column, (state.tasks ?? []).filter((task) => task.column === column.name)]);
  return columns.map(([column, tasks]) => {
    const shown = inView(tasks, touched);
    // The state has a page of the tasks, and the counts of all of them.
    const total = state.counts?.[column.name] ?? tasks.length;
    return h("section.replay-column", { class: total ? "" : "is-empty", "aria-label": column.title },
      h("h2", null, h("span.state", { class: `tone-${column.tone}` }, icon(column.name)), column.title, h("span.badge", null, number(total))),
      h("ul", null, shown.map((task) => h("li", null, chip(task, swarm, task.bead_id === touched)))),
      total > shown.length && h("p.quiet", null, `and ${number(total - shown.length)} more`));
  });
}

// The touched task is always among those that are shown.
function inView(tasks, touched) {
  if (tasks.length <= SHOWN_MAX) return tasks;
  const first = tasks.slice(0, SHOWN_MAX);
  const missed = tasks.slice(SHOWN_MAX).find((task) => task.bead_id === touched);
  return missed ? [missed, ...first.slice(1)] : first;
}
