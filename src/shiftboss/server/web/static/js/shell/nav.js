// The ways to the views: a column at the side, a row at the bottom on small screens.

import { h, toggleAttribute, setText } from "../dom.js";
import { icon } from "../icons.js";
import { link } from "../router.js";
import { OF_ALL, OF_SWARM } from "./places.js";

// Where a view without an entry of its own belongs.
const PARENT = { task: "board", compare: "runs", event: "events", receipt: "board" };

export function mountNav(root, store) {
  const entries = new Map();
  const count = h("span.badge.red", { "data-empty": true });
  const entry = ({ view, title }) => {
    const item = h("a.nav-item", { dataset: { view } }, icon(view, "nav-icon"), h("span", null, title), view === "inbox" && count);
    entries.set(view, item);
    return h("li", null, item);
  };
  const home = h("a.nav-home", { href: "#/", "aria-label": "Shiftboss" }, h("img", { src: "/static/favicon.svg", alt: "", width: "26", height: "26" }), h("span", null, "Shiftboss"));
  root.append(home, h("ul.nav-group", null, OF_SWARM.map(entry)), h("ul.nav-group", null, OF_ALL.map(entry)));

  function show(route) {
    const swarm = route.swarm ?? store.state.swarm;
    for (const { view } of OF_SWARM) {
      entries.get(view).setAttribute("href", swarm ? link("s", swarm, view) : "#/");
    }
    for (const { view } of OF_ALL) entries.get(view).setAttribute("href", link(view));
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
