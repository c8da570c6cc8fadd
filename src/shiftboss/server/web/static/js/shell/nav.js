// The ways to the views: a column at the side, a row at the bottom on small screens.

import { h, toggleAttribute, setText } from "../dom.js";
import { icon } from "../icons.js";
import { link } from "../router.js";

const OF_SWARM = [
  ["board", "Board"], ["graph", "Graph"], ["workers", "Workers"], ["events", "Events"], ["replay", "Replay"],
];
const OF_ALL = [["inbox", "Inbox"], ["runs", "Runs"], ["repos", "Repos"]];
// Where a view without an entry of its own belongs.
const PARENT = { task: "board", compare: "runs", event: "events", receipt: "board" };

export function mountNav(root, store) {
  const entries = new Map();
  const count = h("span.badge.red", { "data-empty": true });
  const entry = ([name, title]) => {
    const item = h("a.nav-item", { dataset: { view: name } }, icon(name, "nav-icon"), h("span", null, title), name === "inbox" && count);
    entries.set(name, item);
    return h("li", null, item);
  };
  const home = h("a.nav-home", { href: "#/", "aria-label": "Shiftboss" }, h("img", { src: "/static/favicon.svg", alt: "", width: "26", height: "26" }), h("span", null, "Shiftboss"));
  root.append(home, h("ul.nav-group", null, OF_SWARM.map(entry)), h("ul.nav-group", null, OF_ALL.map(entry)));

  function show(route) {
    const swarm = route.swarm ?? store.state.swarm;
    for (const [name] of OF_SWARM) {
      entries.get(name).setAttribute("href", swarm ? link("s", swarm, name) : "#/");
    }
    for (const [name] of OF_ALL) entries.get(name).setAttribute("href", link(name));
    const current = PARENT[route.view] ?? route.view;
    for (const [name, item] of entries) toggleAttribute(item, "aria-current", name === current, "page");
  }

  store.subscribe((state) => state.inbox.total, (total) => {
    setText(count, total > 99 ? "99+" : total);
    toggleAttribute(count, "data-empty", total === 0);
    toggleAttribute(entries.get("inbox"), "aria-label", total > 0, `Inbox, ${total} ${total === 1 ? "needs" : "need"} you`);
  });
  return { show };
}
