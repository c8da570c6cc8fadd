// Which tasks the graph shows: all, without those that are long done, or those around one of them.

import { edgesOf } from "./layers.js";

export const SHOWN_MAX = 300;
const DONE_ID = "done-tasks";

const isQuiet = (task) => task.column === "done";

/** Everything that a task waits for or that waits for it, directly or not. */
export function around(tasks, id) {
  const { before, after } = edgesOf(tasks);
  const kept = new Set([id]);
  const walk = (edges) => {
    const left = [id];
    while (left.length) for (const next of edges.get(left.pop()) ?? []) if (!kept.has(next)) kept.add(next) && left.push(next);
  };
  walk(before);
  walk(after);
  return tasks.filter((task) => kept.has(task.bead_id));
}

/** Done tasks that only other done tasks depend on become one node; those that unfinished ones use stay. */
export function withoutDone(tasks) {
  const { after } = edgesOf(tasks);
  const byId = new Map(tasks.map((task) => [task.bead_id, task]));
  const isHidden = (task) => isQuiet(task) && (after.get(task.bead_id) ?? []).every((id) => isQuiet(byId.get(id)));
  const hidden = tasks.filter(isHidden);
  if (hidden.length < 3 || tasks.every(isQuiet)) return tasks;
  const gone = new Set(hidden.map((task) => task.bead_id));
  const group = { bead_id: DONE_ID, status: "done", column: "done", depends_on: [], group: [...gone] };
  const needsGroup = (task) => (task.depends_on ?? []).some((id) => gone.has(id));
  return [group, ...tasks.filter((task) => !gone.has(task.bead_id)).map((task) => (needsGroup(task) ? { ...task, depends_on: [...task.depends_on, DONE_ID] } : task))];
}

const URGENCY = { needs_you: 0, failed: 1, running: 2, verifying: 3, accepted: 4, waiting: 5, done: 6 };

/** At most `SHOWN_MAX`, the most urgent first, and those of `path` always. */
export function bounded(tasks, path) {
  if (tasks.length <= SHOWN_MAX) return tasks;
  const onPath = new Set(path);
  const rank = (task) => (onPath.has(task.bead_id) ? -1 : (URGENCY[task.column] ?? 5));
  return [...tasks].sort((left, right) => rank(left) - rank(right)).slice(0, SHOWN_MAX);
}
