// Start: session, change feed, routes, keyboard. Views are modules of `views/`.

import { api } from "./api.js";
import { empty, h, tickAges } from "./dom.js";
import { link, parse } from "./router.js";
import { currentSwarm, Store } from "./store.js";
import { mountHeader } from "./shell/header.js";
import { bindKeys } from "./shell/keys.js";
import { mountNav } from "./shell/nav.js";
import { toast, toastError } from "./shell/toast.js";

const TICK_MS = 1000;

// A module that exports `view`: `{ name, title, keys, mount(root, ctx) }`.
const VIEWS = {
  board: () => import("./views/board.js"),
  inbox: () => import("./views/inbox.js"),
  workers: () => import("./views/workers.js"),
  runs: () => import("./views/runs.js"),
  task: () => import("./views/task.js"),
  receipt: () => import("./views/task.js"),
  graph: () => import("./views/graph.js"),
  events: () => import("./views/events.js"),
  event: () => import("./views/events.js"),
  repos: () => import("./views/repos.js"),
  replay: () => import("./views/replay.js"),
  compare: () => import("./views/compare.js"),
};

const store = new Store(api);
const main = document.getElementById("main");
const page = { route: null, view: null, mounted: null, number: 0 };

function navigate(path, { replace = false } = {}) {
  const fragment = path.startsWith("#") ? path : `#${path}`;
  if (replace) history.replaceState(null, "", fragment);
  else history.pushState(null, "", fragment);
  showRoute();
}

/** Run an action; say that it worked once the server has said so, or why it was refused. */
async function act(label, run, { ids = [] } = {}) {
  try {
    const answer = await run();
    toast(label, { tone: "green" });
    await store.refreshAfterAction(ids);
    return answer ?? true;
  } catch (error) {
    toastError(`${label} did not work`, error);
    return null;
  }
}

async function showRoute() {
  const route = parse(location.hash);
  if (route.view === null) return showFirst();
  if (page.mounted?.navigate && isSameView(page.route, route)) {
    page.route = route;
    page.mounted.navigate(route);
    return;
  }
  await mountView(route);
}

function isSameView(before, after) {
  return before?.view === after.view && before.swarm === after.swarm && before.id === after.id;
}

/** `#/`: the board of the newest live swarm, or the list of runs. */
async function showFirst() {
  const swarms = store.state.hasSwarms ? store.state.swarms : await store.firstSwarms();
  const swarm = currentSwarm(swarms);
  navigate(swarm ? link("s", swarm, "board") : link("runs"), { replace: true });
}

async function mountView(route) {
  const mountNumber = ++page.number;
  const load = VIEWS[route.view];
  const { view } = load ? await load() : { view: NOT_FOUND };
  if (mountNumber !== page.number) return;
  page.mounted?.unmount?.();
  if (route.swarm) store.open(route.swarm);
  const isFirst = page.view === null;
  Object.assign(page, { route, view });
  main.replaceChildren();
  main.dataset.view = view.name;
  main.scrollTop = 0;
  page.mounted = view.mount(main, { api, store, session: store.state.session, route, navigate, toast, act }) ?? {};
  shell.nav.show(route);
  shell.header.setTitle(view.title);
  if (!isFirst && !main.contains(document.activeElement)) main.focus({ preventScroll: true });
}

const NOT_FOUND = {
  name: "unknown",
  title: "Not found",
  mount(root) {
    root.append(h("div.page", null, empty("There is nothing at this address", "The link may be from another version."), h("a", { href: "#/" }, "To the board")));
  },
};

function go(view) {
  const swarm = store.state.swarm;
  if (["inbox", "runs", "repos"].includes(view)) navigate(link(view));
  else if (swarm) navigate(link("s", swarm, view));
}

function keys() {
  return {
    "g b": () => go("board"), "g t": () => go("board"), "g w": () => go("workers"), "g r": () => go("runs"),
    "g i": () => go("inbox"), "g e": () => go("events"), "g g": () => go("graph"),
    j: () => page.mounted.select?.(1), k: () => page.mounted.select?.(-1),
  };
}

const shell = { header: mountHeader(document.getElementById("header"), store), nav: mountNav(document.getElementById("nav"), store) };

async function start() {
  document.getElementById("skip-link").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  await store.loadSession().catch(() => null);
  store.onChange = (change) => {
    if (!page.route?.swarm || change.swarm === page.route.swarm) page.mounted?.update?.(change);
  };
  window.addEventListener("hashchange", showRoute);
  bindKeys(keys);
  setInterval(() => document.hidden || tickAges(), TICK_MS);
  store.connect();
  await showRoute();
}

start();
