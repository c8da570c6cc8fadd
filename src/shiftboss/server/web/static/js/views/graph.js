// What depends on what, and the chain that decides when the run ends.

import { empty, h, hintParts, setText, toggleAttribute } from "../dom.js";
import { now, percent, plural } from "../format.js";
import { COLUMNS } from "../columns.js";
import { icon } from "../icons.js";
import { link, taskLink } from "../router.js";
import { criticalPath, isOver } from "../graph/critical_path.js";
import { drawing, faceOf, nodeElement } from "../graph/drawing.js";
import { NODE, positions } from "../graph/positions.js";
import { SHOWN_MAX, around, bounded, withoutDone } from "../graph/selection.js";
import { viewport } from "../graph/viewport.js";
import { nextTask } from "../graph/walking.js";

// With more tasks than are shown, those that are shown are chosen anew this often. States change at once.
const CHOICE_MS = 30_000;

export const view = {
  name: "graph",
  title: "Graph",
  keys: [
    { shown: "← ↑ → ↓", label: "From the selected task along the dependencies" },
    { key: "+", label: "Larger", run: (mounted) => mounted.zoom(1) },
    { key: "=", run: (mounted) => mounted.zoom(1) },
    { key: "-", shown: "−", label: "Smaller", run: (mounted) => mounted.zoom(-1) },
    { key: "0", label: "Fit", run: (mounted) => mounted.fit() },
  ],
  mount(root, ctx) {
    return new GraphView(root, ctx);
  },
};

class GraphView {
  constructor(root, ctx) {
    this._ctx = ctx;
    this._route = ctx.route;
    this._layout = null;
    this._shape = "";
    this._faces = new Map();
    this._path = [];
    this._chosenUntil = 0;
    this._head = h("p.graph-path", { role: "status" });
    this._options = h("div.buttons");
    this._zoomed = h("span.quiet.number");
    this._scroller = h("div.graph", { onkeydown: (event) => this._walk(event), onfocusin: (event) => this._near(event) });
    this._note = h("div.graph-note");
    this._page = h("div.page.fill.graph-page", null,
      h("h1.visually-hidden", null, "Graph of the tasks"),
      h("div.graph-top", null, this._head, this._options, this._zoomButtons()), this._note, this._scroller, legend());
    root.append(this._page);
    this._viewport = viewport(this._scroller, (scale) => setText(this._zoomed, percent(scale)));
    ctx.store.needCards();
    this._unsubscribe = ctx.store.subscribe((state) => state.cards, () => this._draw());
    this._draw();
  }

  _zoomButtons() {
    const button = (label, text, run) => h("button.button.icon", { type: "button", "aria-label": label, title: label, onclick: run }, text);
    return h("div.buttons.graph-zoom", null, this._zoomed,
      button("Smaller", "−", () => this.zoom(-1)),
      button("Larger", "+", () => this.zoom(1)),
      h("button.button", { type: "button", onclick: () => this.fit() }, "Fit"));
  }

  zoom(steps) {
    this._viewport.zoom(steps);
  }

  fit() {
    this._viewport.fit();
  }

  _draw() {
    const { cards } = this._ctx.store.state;
    if (performance.now() < this._chosenUntil) return this._drawNodes([...this._faces.keys()].map((id) => cards.byId.get(id)).filter(Boolean));
    const all = [...cards.byId.values()].filter((card) => !card.bead_id.startsWith("packet-"));
    this._page.classList.toggle("is-empty", !all.length);
    if (!all.length) return this._showNothing(cards);
    this._note.replaceChildren();
    const focus = this._route.query.task;
    const near = focus && cards.byId.has(focus) ? around(all, focus) : all;
    const path = criticalPath(near, now());
    const trimmed = this._route.query.done || focus ? near : withoutDone(near);
    const tasks = bounded(trimmed, path);
    this._chosenUntil = all.length > SHOWN_MAX ? performance.now() + CHOICE_MS : 0;
    this._explain(near, tasks, path, focus);
    if (!this._isNewShape(tasks, path)) return this._drawNodes(tasks);
    this._faces = new Map(tasks.map((task) => [task.bead_id, faceOf(task)]));
    this._path = path;
    const svg = drawing(tasks, this._layout, { swarm: this._route.swarm, path, label: `Graph of ${plural(tasks.length, "task")}` });
    this._keepFocus(() => this._viewport.setDrawing(svg, this._layout));
    return undefined;
  }

  // Places are computed again only when tasks or dependencies came or went, so that nothing moves while states change.
  _isNewShape(tasks, path) {
    const shape = JSON.stringify(tasks.map((task) => [task.bead_id, task.depends_on]));
    const isSame = shape === this._shape;
    if (!isSame) this._layout = positions(tasks, this._scroller.clientWidth - 48);
    this._shape = shape;
    return !isSame || path.join() !== this._path.join();
  }

  _drawNodes(tasks) {
    for (const task of tasks) {
      const face = faceOf(task);
      if (this._faces.get(task.bead_id) === face) continue;
      this._faces.set(task.bead_id, face);
      const isCritical = this._path.includes(task.bead_id);
      const node = nodeElement(task, this._layout.places.get(task.bead_id), { swarm: this._route.swarm, isCritical });
      this._keepFocus(() => this._node(task.bead_id).replaceWith(node));
    }
  }

  _keepFocus(draw) {
    const id = document.activeElement?.closest?.(".graph-node")?.dataset.id;
    draw();
    if (id) this._node(id)?.focus({ preventScroll: true });
  }

  _node(id) {
    return this._scroller.querySelector(`[data-id="${CSS.escape(id)}"]`);
  }

  _explain(all, shown, path, focus) {
    const left = all.filter((task) => !isOver(task)).length;
    const first = path.find((id) => !isOver(all.find((task) => task.bead_id === id)));
    const text = left
      ? [h("strong", null, "Critical path "), `${plural(path.length, "task")} of ${left} unfinished, next: `, first && h("a.mono", { href: taskLink(this._route.swarm, first) }, first)]
      : [h("strong", null, "Everything is done. "), path.length ? `The longest chain had ${plural(path.length, "task")}.` : ""];
    this._head.replaceChildren(...text);
    const graph = link("s", this._route.swarm, "graph");
    const options = [
      focus && h("a.button", { href: graph }, `Only around ${focus}: show all`),
      !focus && shown.some((task) => task.group) && h("a.button", { href: `${graph}?done=1` }, "Show what is done"),
      this._route.query.done && h("a.button", { href: graph }, "Hide what is done"),
    ];
    this._options.replaceChildren(...options.filter(Boolean));
    if (all.length > SHOWN_MAX && shown.length === SHOWN_MAX) this._note.replaceChildren(h("p.notice", null, `The ${SHOWN_MAX} most urgent of ${plural(all.length, "task")} are shown. Open a task, and its graph, to see the others around it.`));
  }

  _showNothing(cards) {
    const swarm = this._route.swarm;
    this._shape = "";
    this._scroller.replaceChildren();
    if (cards.error) this._note.replaceChildren(h("div.notice.red", null, h("p", null, cards.error.message), h("p.hint", null, hintParts(cards.error.hint))));
    else if (cards.isComplete) this._note.replaceChildren(empty("No tasks yet", "The tasks of the swarm and what they depend on are drawn here.", `shiftboss task add my-task --title 'What to do' --swarm ${swarm}`));
  }

  _walk(event) {
    const id = event.target.closest(".graph-node")?.dataset.id;
    if (!id || !event.key.startsWith("Arrow")) return;
    const next = nextTask(id, event.key, this._layout);
    if (next) this._node(next)?.focus();
    event.preventDefault();
  }

  // What the focused task depends on and what depends on it stand out.
  _near(event) {
    const id = event.target.closest(".graph-node")?.dataset.id;
    for (const edge of this._scroller.querySelectorAll(".graph-edge")) {
      toggleAttribute(edge, "data-near", Boolean(id) && (edge.dataset.from === id || edge.dataset.to === id));
    }
    const place = id && this._layout.places.get(id);
    if (place && !isInSight(event.target, this._scroller)) this._viewport.center(place, NODE);
  }

  navigate(route) {
    this._route = route;
    this._chosenUntil = 0;
    this._draw();
  }

  select(delta) {
    const nodes = [...this._scroller.querySelectorAll(".graph-node")];
    const index = nodes.indexOf(document.activeElement?.closest?.(".graph-node"));
    nodes[Math.max(0, Math.min(nodes.length - 1, index + delta))]?.focus();
  }

  unmount() {
    this._unsubscribe();
  }
}

function isInSight(node, scroller) {
  const [inner, outer] = [node.getBoundingClientRect(), scroller.getBoundingClientRect()];
  return inner.left >= outer.left && inner.right <= outer.right && inner.top >= outer.top && inner.bottom <= outer.bottom;
}

function legend() {
  return h("ul.graph-legend", { "aria-label": "Legend" },
    COLUMNS.map((column) => h("li.state", { class: `tone-${column.tone}` }, icon(column.name), h("span.soft", null, column.title))),
    h("li.state", null, h("span.legend-line", { "aria-hidden": "true" }), h("span.soft", null, "Critical path")));
}
