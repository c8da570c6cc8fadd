// The entries of the palette: actions on the selection and the run, views, tasks, runs.

import { allowed, swarmActions, taskActions } from "../actions.js";
import { lookOf } from "../columns.js";
import { copied } from "../dom.js";
import { link, taskLink } from "../router.js";
import { matches } from "../board/model.js";
import { openPalette } from "./palette.js";
import { perform } from "./perform.js";
import { PLACES } from "./places.js";
import { toggleTheme } from "./theme_button.js";

const TASKS_MAX = 20;

export function openCommands(ctx, selection, go, showHelp, logOut) {
  const { store } = ctx;
  openPalette({
    label: "Commands",
    placeholder: "Do something, or go somewhere …",
    sources: (query) => [
      ...ofSelection(ctx, selection),
      ...ofSwarm(ctx),
      ...places(go),
      ...tasks(ctx, query),
      ...swarms(ctx),
      { group: "Page", label: "Light or dark theme", icon: "moon", keys: "d", run: toggleTheme },
      { group: "Page", label: "Show all keys", icon: "question", keys: "?", run: showHelp },
      ...(store.state.session?.logged_in ? [{ group: "Page", label: "Log out", icon: "cross", run: logOut }] : []),
    ],
  });
}

export function openSwitcher(ctx) {
  openPalette({
    label: "Switch run",
    placeholder: "Run …",
    sources: () => [...swarms(ctx), { group: "More", label: "All runs", icon: "runs", run: () => ctx.navigate(link("runs")) }],
  });
}

function ofSelection(ctx, selection) {
  if (!selection) return [];
  const { swarm, card } = selection;
  const group = card.title || card.bead_id;
  const actions = allowed(taskActions(swarm, card, ctx.store.state.status?.holds), ctx.store.state.session);
  return [
    { group, label: "Open task", icon: "open", keys: "enter", run: () => ctx.navigate(taskLink(swarm, card.bead_id)) },
    ...(card.review === "open" ? [{ group, label: "Review …", icon: "accepted", run: () => ctx.navigate(taskLink(swarm, card.bead_id, "diff")) }] : []),
    ...actions.map((each) => entryOf(each, group, ctx, [card.bead_id])),
    { group, label: "Show diff", icon: "diff", run: () => ctx.navigate(taskLink(swarm, card.bead_id, "diff")) },
    { group, label: "Show log", icon: "events", run: () => ctx.navigate(taskLink(swarm, card.bead_id, "log")) },
    { group, label: "Copy the task's id", detail: card.bead_id, icon: "copy", run: () => copy(ctx, card.bead_id) },
  ];
}

function ofSwarm(ctx) {
  const { swarm, status, usage, session } = ctx.store.state;
  if (!swarm || !status || status.error) return [];
  return allowed(swarmActions(swarm, status.holds, usage), session).map((each) => entryOf(each, "This run", ctx, []));
}

function entryOf(each, group, ctx, ids) {
  return { group, label: each.label, icon: each.icon, tone: each.tone === "danger" ? "red" : "quiet", run: () => perform(each, ctx, { ids }) };
}

function places(go) {
  return PLACES.map(({ view, title, key }) => ({ group: "Go to", label: title, icon: view, keys: key, run: () => go(view) }));
}

/** Tasks are found when something was typed: there may be ten thousand. */
function tasks(ctx, query) {
  if (query.length < 2) return [];
  const found = [];
  for (const card of ctx.store.state.cards.byId.values()) {
    if (!matches(card, query)) continue;
    const look = lookOf(card);
    found.push({
      group: "Tasks", label: card.title || card.bead_id, detail: card.bead_id, icon: look.icon, tone: look.tone, isFound: true,
      run: () => ctx.navigate(taskLink(ctx.store.state.swarm, card.bead_id)),
    });
    if (found.length === TASKS_MAX) break;
  }
  return found;
}

function swarms(ctx) {
  return ctx.store.state.swarms.map((swarm) => ({
    group: "Runs", label: swarm.feature || swarm.swarm_id, detail: swarm.feature ? `${swarm.swarm_id} · ${swarm.status}` : swarm.status,
    icon: "runs", run: () => ctx.navigate(link("s", swarm.swarm_id, "board")),
  }));
}

async function copy(ctx, text) {
  if (await copied(text)) ctx.toast("Copied");
  else ctx.toast("The browser blocked copying", { tone: "red" });
}
