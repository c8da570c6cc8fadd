// The graph as a drawing: a box for each task, a line for each dependency.

import { lookOf } from "../columns.js";
import { icon } from "../icons.js";
import { link, taskLink } from "../router.js";
import { plural } from "../format.js";
import { NODE } from "./positions.js";
import { cutMiddle, fit, s } from "./svg.js";

const ID_CHARACTERS = 22;
// Of the larger id, which is alone in a small drawing.
const LARGE_ID_CHARACTERS = 14;
// Where the lines begin, and the space after them, which is that of the box.
const PADDING = 12;
const DETAIL_FONT = `11px ${getComputedStyle(document.documentElement).getPropertyValue("--sans")}`;

function stateMark(look) {
  const mark = icon(look.icon);
  for (const [name, value] of Object.entries({ width: 14, height: 14 })) mark.setAttribute(name, value);
  return s("g", { class: "graph-mark" }, mark);
}

function detailOf(task) {
  if (task.group) return plural(task.group.length, "task");
  return [lookOf(task).word, task.column === "running" && task.worker, task.title].filter(Boolean).join(" · ");
}

// What is seen comes first, for people who speak to their computer; then what the lines show.
function labelOf(task, [id, detail], isCritical) {
  if (task.group) return `${id} ${detail}. Show them`;
  const needs = task.depends_on?.length ? ` Depends on ${task.depends_on.join(", ")}.` : "";
  return `${id} ${detail}. ${task.title}.${needs}${isCritical ? " On the critical path." : ""}`;
}

export function nodeElement(task, place, { swarm, isCritical }) {
  const look = task.group ? { icon: "done", tone: "green" } : lookOf(task);
  const texts = [cutMiddle(task.group ? "Done" : task.bead_id, ID_CHARACTERS), fit(detailOf(task), NODE.width - 2 * PADDING, DETAIL_FONT)];
  const href = task.group ? `${link("s", swarm, "graph")}?done=1` : taskLink(swarm, task.bead_id);
  return s(
    "a",
    { href, class: `graph-node tone-${look.tone}${isCritical ? " critical" : ""} column-${task.column ?? "done"}`, transform: `translate(${place.x},${place.y})`, "data-id": task.bead_id, "aria-label": labelOf(task, texts, isCritical) },
    s("title", {}, task.group ? task.group.slice(0, 20).join(", ") : `${task.bead_id}\n${task.title}`),
    s("rect", { width: NODE.width, height: NODE.height, rx: 6 }),
    stateMark(look),
    s("text", { x: 32, y: 19, class: "graph-id" }, texts[0]),
    s("text", { x: 38, y: 28, class: "graph-id-large", "aria-hidden": "true" }, cutMiddle(task.group ? `Done (${task.group.length})` : task.bead_id, LARGE_ID_CHARACTERS)),
    s("text", { x: PADDING, y: 35, class: "graph-detail" }, texts[1]),
  );
}

/** What of a task can be seen in its node. */
export function faceOf(task) {
  return JSON.stringify([task.column, task.status, Boolean(task.landed_commit), task.hold, task.worker, task.title, task.group?.length]);
}

function edgeElement(route, isCritical) {
  return s("path", { d: route.path, class: `graph-edge${isCritical ? " critical" : ""}`, "data-from": route.from, "data-to": route.to });
}

/** The whole drawing. `layout` as `positions` makes it, `path` the ids of the critical path. */
export function drawing(tasks, layout, { swarm, path, label }) {
  const onPath = new Set(path);
  const steps = new Set(path.slice(1).map((id, index) => `${path[index]} ${id}`));
  const isStep = (route) => steps.has(`${route.from} ${route.to}`);
  const edges = [...layout.routes].sort((left, right) => isStep(left) - isStep(right));
  return s(
    "svg",
    { class: "graph-drawing", viewBox: `0 0 ${layout.width} ${layout.height}`, role: "group", "aria-label": label },
    s("g", { "aria-hidden": "true" }, ...edges.map((route) => edgeElement(route, isStep(route)))),
    s("g", {}, ...tasks.map((task) => nodeElement(task, layout.places.get(task.bead_id), { swarm, isCritical: onPath.has(task.bead_id) }))),
  );
}
