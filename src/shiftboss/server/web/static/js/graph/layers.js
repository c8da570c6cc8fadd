// Tasks in layers: each to the right of everything that it depends on, with few crossings.

const SWEEPS = 6;

/** `depends_on` without tasks that are not here, and each task's dependents. */
export function edgesOf(tasks) {
  const known = new Set(tasks.map((task) => task.bead_id));
  const before = new Map(tasks.map((task) => [task.bead_id, (task.depends_on ?? []).filter((id) => known.has(id))]));
  const after = new Map(tasks.map((task) => [task.bead_id, []]));
  for (const [id, needs] of before) for (const need of needs) after.get(need).push(id);
  return { before, after };
}

/** The ids so that each comes after what it depends on. A cycle, which the server refuses, is cut. */
export function inOrder({ before, after }) {
  const left = new Map([...before].map(([id, needs]) => [id, needs.length]));
  const order = [...left].filter(([, count]) => count === 0).map(([id]) => id);
  for (let next = 0; next < order.length; next += 1) {
    for (const id of after.get(order[next])) {
      left.set(id, left.get(id) - 1);
      if (left.get(id) === 0) order.push(id);
    }
  }
  return order.length === left.size ? order : [...order, ...[...left.keys()].filter((id) => left.get(id) > 0)];
}

function depths(order, before) {
  const depth = new Map();
  for (const id of order) depth.set(id, 1 + Math.max(-1, ...before.get(id).map((need) => depth.get(need) ?? -1)));
  return depth;
}

// An edge over several layers gets a point in each of them, so that it passes between the tasks.
function withPoints(order, edges, depth) {
  const layers = [];
  const put = (layer, item) => (layers[layer] ??= []).push(item);
  const up = new Map();
  const down = new Map();
  const link = (from, to) => {
    (down.get(from) ?? down.set(from, []).get(from)).push(to);
    (up.get(to) ?? up.set(to, []).get(to)).push(from);
  };
  for (const id of order) put(depth.get(id), id);
  const routes = [];
  for (const id of order) {
    for (const need of edges.before.get(id)) {
      const points = [];
      let last = need;
      for (let layer = depth.get(need) + 1; layer < depth.get(id); layer += 1) {
        const point = Symbol(`${need} to ${id}`);
        put(layer, point);
        link(last, point);
        points.push(point);
        last = point;
      }
      link(last, id);
      routes.push({ from: need, to: id, points });
    }
  }
  return { layers, up, down, routes };
}

function sortByNeighbours(layer, neighbours, position) {
  const wanted = new Map(
    layer.map((item, index) => {
      const places = (neighbours.get(item) ?? []).map((other) => position.get(other));
      return [item, places.length ? places.reduce((sum, place) => sum + place, 0) / places.length : index];
    }),
  );
  layer.sort((left, right) => wanted.get(left) - wanted.get(right));
  layer.forEach((item, index) => position.set(item, index));
}

/** `{layers: [[id or symbol, ...], ...], routes: [{from, to, points}, ...]}`; symbols are the points of long edges. */
export function layered(tasks) {
  const edges = edgesOf(tasks);
  const order = inOrder(edges);
  const { layers, up, down, routes } = withPoints(order, edges, depths(order, edges.before));
  const position = new Map();
  for (const layer of layers) layer.forEach((item, index) => position.set(item, index));
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const forward = sweep % 2 === 0;
    const walk = forward ? layers : [...layers].reverse();
    for (const layer of walk) sortByNeighbours(layer, forward ? up : down, position);
  }
  return { layers, routes };
}
