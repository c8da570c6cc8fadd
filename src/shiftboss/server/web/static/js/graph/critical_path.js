// The chain that decides when the run ends.

import { edgesOf, inOrder } from "./layers.js";

export const isOver = (task) => task.status === "done" || task.status === "cancelled";

function millisecondsOf(task, now) {
  return task.started_at ? Math.max(1, (task.ended_at ?? now) - task.started_at) : 0;
}

/**
 * The ids of the longest chain of unfinished tasks, each counted as one. If nothing is left to do, it is the chain that
 * took the longest time.
 */
export function criticalPath(tasks, now) {
  const left = tasks.filter((task) => !isOver(task));
  const chain = left.length ? left : tasks.filter((task) => task.started_at);
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
