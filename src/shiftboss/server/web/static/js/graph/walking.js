// The arrow keys: along a dependency to the left and right, to the next task of the layer up and down.

const DIRECTIONS = {
  ArrowRight: (from, to) => to.x > from.x && to.x - from.x + 2 * Math.abs(to.y - from.y),
  ArrowLeft: (from, to) => to.x < from.x && from.x - to.x + 2 * Math.abs(to.y - from.y),
  ArrowDown: (from, to) => to.y > from.y && to.y - from.y + 3 * Math.abs(to.x - from.x),
  ArrowUp: (from, to) => to.y < from.y && from.y - to.y + 3 * Math.abs(to.x - from.x),
};

function neighbours(id, key, routes) {
  if (key === "ArrowRight") return routes.filter((route) => route.from === id).map((route) => route.to);
  if (key === "ArrowLeft") return routes.filter((route) => route.to === id).map((route) => route.from);
  return [];
}

/** The id of the task that a key leads to, or null. */
export function nextTask(id, key, { places, routes }) {
  const distance = DIRECTIONS[key];
  const from = places.get(id);
  if (!distance || !from) return null;
  const linked = neighbours(id, key, routes);
  const candidates = linked.length ? linked : [...places.keys()].filter((each) => typeof each === "string");
  let best = null;
  for (const each of candidates) {
    const far = distance(from, places.get(each));
    if (far !== false && (best === null || far < best.far)) best = { id: each, far };
  }
  return best?.id ?? null;
}
