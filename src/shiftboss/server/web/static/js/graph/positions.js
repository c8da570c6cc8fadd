// Where every task and every edge of the graph is drawn.

import { edgesOf, layered } from "./layers.js";

export const NODE = { width: 200, height: 44 };
const GAP = { x: 56, y: 12, point: 8, column: 20 };
const MARGIN = 24;
// A layer with more tasks than this is drawn as several columns.
const ROWS_MAX = 24;

const isTask = (item) => typeof item === "string";

function columnsOf(layer) {
  const columns = [[]];
  let tasks = 0;
  for (const item of layer) {
    if (isTask(item) && tasks === ROWS_MAX) {
      columns.push([]);
      tasks = 0;
    }
    columns.at(-1).push(item);
    tasks += isTask(item) ? 1 : 0;
  }
  return columns;
}

const heightOf = (column) => column.reduce((sum, item) => sum + (isTask(item) ? NODE.height + GAP.y : GAP.point), -GAP.y);

function placeColumn(column, x, top, places) {
  let y = top;
  for (const item of column) {
    places.set(item, { x, y: isTask(item) ? y : y + GAP.point / 2 });
    y += isTask(item) ? NODE.height + GAP.y : GAP.point;
  }
}

// Tasks without any edge would make the first layer long: they stand in rows below the graph.
function split(tasks) {
  const { before, after } = edgesOf(tasks);
  const isAlone = (task) => !before.get(task.bead_id).length && !after.get(task.bead_id).length;
  return { linked: tasks.filter((task) => !isAlone(task)), alone: tasks.filter(isAlone) };
}

function placeRows(tasks, top, width, places) {
  const perRow = Math.max(4, Math.floor((width + GAP.column) / (NODE.width + GAP.column)));
  tasks.forEach((task, index) => {
    const x = MARGIN + (index % perRow) * (NODE.width + GAP.column);
    const y = top + Math.floor(index / perRow) * (NODE.height + GAP.y);
    places.set(task.bead_id, { x, y });
  });
  return {
    width: Math.min(tasks.length, perRow) * (NODE.width + GAP.column) - GAP.column,
    height: Math.ceil(tasks.length / perRow) * (NODE.height + GAP.y) - GAP.y,
  };
}

function placeLayers(layers, places) {
  const columns = layers.map(columnsOf);
  const height = Math.max(0, ...columns.flat().map(heightOf));
  let x = MARGIN;
  for (const layer of columns) {
    for (const column of layer) {
      placeColumn(column, x, MARGIN + (height - heightOf(column)) / 2, places);
      x += NODE.width + GAP.column;
    }
    x += GAP.x - GAP.column;
  }
  return { width: Math.max(0, x - MARGIN - GAP.x), height };
}

/** `{places: Map(id -> {x, y}), routes: [{from, to, path}], width, height}`, in pixels. */
export function positions(tasks, rowWidth = 1100) {
  const { linked, alone } = split(tasks);
  const { layers, routes } = layered(linked);
  const places = new Map();
  const graph = placeLayers(layers, places);
  const top = MARGIN + (linked.length ? graph.height + GAP.x : 0);
  const rows = alone.length ? placeRows(alone, top, Math.max(graph.width, rowWidth), places) : { width: 0, height: 0 };
  return {
    places,
    aloneTop: alone.length && linked.length ? top : null,
    routes: routes.map((route) => ({ from: route.from, to: route.to, path: pathOf(route, places) })),
    width: Math.max(graph.width, rows.width) + 2 * MARGIN,
    height: (alone.length ? top + rows.height : MARGIN + graph.height) + MARGIN,
  };
}

function pathOf({ from, to, points }, places) {
  const start = places.get(from);
  const end = places.get(to);
  const stops = [
    { x: start.x + NODE.width, y: start.y + NODE.height / 2 },
    ...points.map((point) => places.get(point)),
    { x: end.x, y: end.y + NODE.height / 2 },
  ];
  let path = `M${stops[0].x},${stops[0].y}`;
  for (let index = 1; index < stops.length; index += 1) {
    const [a, b] = [stops[index - 1], stops[index]];
    const middle = (a.x + b.x) / 2;
    path += ` C${middle},${a.y} ${middle},${b.y} ${b.x},${b.y}`;
    // Through the width of the layer, a long edge is a straight line.
    if (index < stops.length - 1) {
      b.straight ??= { x: b.x + NODE.width, y: b.y };
      path += ` H${b.straight.x}`;
      stops[index] = b.straight;
    }
  }
  return path;
}
