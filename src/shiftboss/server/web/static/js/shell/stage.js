// Shows the view of the address: mounts it, tells it what changed, takes it away.

import { empty, h } from "../dom.js";
import { link, parse } from "../router.js";
import { currentSwarm } from "../store.js";
import { errorNotice } from "./errors.js";

// Each exports `view`: `{ name, title, keys, mount(root, ctx) }`. `keys` are those of this view alone:
// `{ key, shown, label, run(mounted, event) }`. The help lists those with a label, as `shown` or `key`. Those without
// `run` are handled by what has the focus.
const VIEWS = {
  board: () => import("../views/board.js"),
  inbox: () => import("../views/inbox.js"),
  workers: () => import("../views/workers.js"),
  runs: () => import("../views/runs.js"),
  task: () => import("../views/task.js"),
  receipt: () => import("../views/task.js"),
  graph: () => import("../views/graph.js"),
  events: () => import("../views/events.js"),
  event: () => import("../views/events.js"),
  repos: () => import("../views/repos.js"),
  replay: () => import("../views/replay.js"),
  compare: () => import("../views/compare.js"),
};

const NOT_FOUND = {
  name: "unknown",
  title: "Not found",
  mount(root) {
    root.append(h("div.page", null, h("h1.visually-hidden", null, "Not found"), empty("There is nothing at this address", "The link may be from another version."), h("a", { href: "#/" }, "To the board")));
  },
};

// The server was away while the page asked for a module, or has other files by now.
const NOT_LOADED = {
  name: "not-loaded",
  title: "Not loaded",
  mount(root) {
    const reason = { message: "the server did not send its code", hint: "is it running? Load the page again when it is" };
    const reload = h("button.button.primary", { type: "button", onclick: () => location.reload() }, "Reload the page");
    root.append(h("div.page", null, h("h1.visually-hidden", null, "Not loaded"), errorNotice("This view could not be loaded", reason), reload));
  },
};

/**
 * What a view mounts may have: `update(change)`, `unmount()`, `navigate(route)` (another part of the same task or view),
 * `select(delta)`, `selectColumn(delta)`, `open()`, `escape()`, `focusFilter()`, `selection()`.
 */
export class Stage {
  constructor(root, ctx) {
    this._root = root;
    this._ctx = ctx;
    this._number = 0;
    this.route = null;
    this.view = null;
    this.mounted = {};
    this.onShown = () => {};
  }

  async show() {
    const route = parse(location.hash);
    if (route.view === null) await this._showFirst();
    else if (this.mounted.navigate && isSameView(this.route, route)) this._moveOn(route);
    else await this._mount(route);
  }

  /** A change of a swarm; views of all swarms get those of each. */
  update(change) {
    if (!this.route?.swarm || change.swarm === this.route.swarm) this.mounted.update?.(change);
  }

  /** `#/`: the board of the newest live swarm, or the list of runs. */
  async _showFirst() {
    const number = ++this._number;
    const { state } = this._ctx.store;
    const swarm = currentSwarm(state.hasSwarms ? state.swarms : await this._ctx.store.firstSwarms());
    // Somebody went elsewhere while the swarms were loaded.
    if (number !== this._number || parse(location.hash).view !== null) return;
    this._ctx.navigate(swarm ? link("s", swarm, "board") : link("runs"), { replace: true });
  }

  _moveOn(route) {
    this.route = route;
    this.mounted.navigate(route);
    this.onShown(route, this.view);
  }

  async _mount(route) {
    const number = ++this._number;
    const view = await viewOf(route);
    // The address changed again while the module was loaded.
    if (number !== this._number) return;
    this.mounted.unmount?.();
    if (route.swarm) this._ctx.store.open(route.swarm);
    const isFirst = this.view === null;
    this.route = route;
    this.view = view;
    this._root.replaceChildren();
    this._root.dataset.view = view.name;
    this._root.scrollTop = 0;
    this.mounted = view.mount(this._root, { ...this._ctx, route }) ?? {};
    this.onShown(route, view);
    if (!isFirst && !this._root.contains(document.activeElement)) this._root.focus({ preventScroll: true });
  }
}

async function viewOf(route) {
  try {
    return (await VIEWS[route.view]?.())?.view ?? NOT_FOUND;
  } catch {
    return NOT_LOADED;
  }
}

function isSameView(before, after) {
  return before?.view === after.view && before.swarm === after.swarm && before.id === after.id;
}
