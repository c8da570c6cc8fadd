// Start: session, change feed, routes, keyboard. Views are modules of `views/`.

import { api } from "./api.js";
import { tickAges } from "./dom.js";
import { link } from "./router.js";
import { Store } from "./store.js";
import { Stage } from "./shell/stage.js";
import { openCommands, openSwitcher } from "./shell/commands.js";
import { mountConnection } from "./shell/connection.js";
import { mountHeader } from "./shell/header.js";
import { showHelp } from "./shell/help.js";
import { bindKeys } from "./shell/keys.js";
import { mountNav } from "./shell/nav.js";
import { PLACES, isOfAll } from "./shell/places.js";
import { loginNeeded, showLogin } from "./shell/login_bar.js";
import { toggleTheme } from "./shell/theme_button.js";
import { toast, toastError } from "./shell/toast.js";

const TICK_MS = 1000;

const store = new Store(api);
const main = document.getElementById("main");
const ctx = { api, store, navigate, toast, act };
const stage = new Stage(main, ctx);

function navigate(path, { replace = false } = {}) {
  const fragment = path.startsWith("#") ? path : `#${path}`;
  if (replace) history.replaceState(null, "", fragment);
  else history.pushState(null, "", fragment);
  stage.show();
}

/**
 * Run an action; say that it worked once the server has said so, or why it was refused. `ids` are the tasks
 * whose cards change. Resolves to the answer, or to null.
 */
async function act(label, run, { ids = [], onError } = {}) {
  try {
    const answer = await run();
    toast(label, { tone: "green" });
    await store.refreshAfterAction(ids);
    return answer ?? true;
  } catch (error) {
    if (onError) onError(error);
    else toastError("That did not work", error);
    return null;
  }
}

function go(view) {
  const { swarm } = store.state;
  if (isOfAll(view)) navigate(link(view));
  else navigate(swarm ? link("s", swarm, view) : "#/");
}

async function logOut() {
  try {
    await api.post("/logout");
    location.reload();
  } catch (error) {
    toastError("That did not work", error);
  }
}

const commands = () => openCommands(ctx, stage.mounted.selection?.() ?? null, go, help, logOut);
const switcher = () => openSwitcher(ctx);
const help = () => showHelp(stage.view.title, stage.view.keys);

function keys() {
  const { mounted } = stage;
  const ofView = (stage.view?.keys ?? []).filter(({ run }) => run).map(({ key, run }) => [key, (event) => run(mounted, event)]);
  const ofPlaces = PLACES.map(({ view, key }) => [key, () => go(view)]);
  return {
    ...Object.fromEntries([...ofPlaces, ...ofView]),
    j: () => mounted.select?.(1), k: () => mounted.select?.(-1),
    h: () => mounted.selectColumn?.(-1), l: () => mounted.selectColumn?.(1),
    enter: () => (isOnControl() ? false : mounted.open?.()),
    escape: () => escape(mounted),
    "/": () => (mounted.focusFilter ? mounted.focusFilter() : commands()),
    "?": help, s: switcher, d: toggleTheme, "mod+k": commands,
  };
}

function isOnControl() {
  return document.activeElement?.matches("a, button, input, textarea, select, summary");
}

/** Escape: what the view makes of it, else out of a field, else up to where this view belongs. */
function escape(mounted) {
  if (mounted.escape?.()) return true;
  if (document.activeElement?.matches("input, textarea")) return document.activeElement.blur();
  const { view } = stage.route;
  if (view === "compare") return go("runs");
  if (["task", "receipt"].includes(view)) return go("board");
  return view === "event" ? go("events") : false;
}

async function start() {
  document.getElementById("skip-link").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  const session = await store.loadSession().catch(() => null);
  if (session && !session.can_read) main.append(loginNeeded());
  else await showPage();
}

async function showPage() {
  const header = mountHeader(document.getElementById("header"), store, { openPalette: () => commands(), openSwitcher: switcher });
  const nav = mountNav(document.getElementById("nav"), store);
  mountConnection(document.getElementById("connection"), store);
  stage.onShown = (route, view) => {
    nav.show(route);
    header.setTitle(view.title);
  };
  store.subscribe((state) => state.session, showLogin);
  showLogin(store.state.session);
  store.onChange = (change) => stage.update(change);
  window.addEventListener("hashchange", () => stage.show());
  bindKeys(keys);
  setInterval(() => document.hidden || tickAges(), TICK_MS);
  store.connect();
  await stage.show();
}

start();
