// The chain that decides when the run ends.

import { edgesOf, inOrder } from "./layers.js";

// Work in review is done by its worker, and still in the way of what follows.
export const isOver = (task) => task.column === "done" || task.column === "accepted";

// Without a start, a task counts as little as possible, but its chain still counts.
const millisecondsOf = (task, now) => (task.started_at ? Math.max(1, (task.ended_at ?? now) - task.started_at) : 1);

/**
 * The ids of the longest chain of unfinished tasks, each counted as one. If nothing is left to do, it is the chain that
 * took the longest time.
 */
export function criticalPath(tasks, now) {
  const left = tasks.filter((task) => !isOver(task));
  const chain = left.length ? left : tasks;
  const byId = new Map(chain.map((task) => [task.bead_id, task]));
  const cost = (id) => (left.length ? 1 : millisecondsOf(byId.get(id), now));
  const edges = edgesOf(chain);
  const length = new Map();
  const previous = new Map();
  for (const id of inOrder(edges)) {
    const longest = edges.before.get(id).reduce((best, need) => ((length.get(need) ?? 0) > (length.get(best) ?? 0) ? need : best), null);
    previous.set(id, longest);
    length.set(id, cost(id) + (length.get(longest) ?? 0));
  }
  return backFrom([...length].reduce((best, each) => (each[1] > (best?.[1] ?? 0) ? each : best), null)?.[0], previous);
}

function backFrom(last, previous) {
  const path = [];
  for (let id = last; id; id = previous.get(id)) path.unshift(id);
  return path;
}
