// The events of a swarm, or one of them.

import { h } from "../dom.js";
import { mountEvent } from "../events/detail.js";
import { eventsPanel } from "../events/panel.js";

export const view = {
  name: "events",
  title: "Events",
  mount(root, ctx) {
    return ctx.route.view === "event" ? mountEvent(root, ctx) : mountList(root, ctx);
  },
};

function mountList(root, ctx) {
  const panel = eventsPanel({ api: ctx.api, swarm: ctx.route.swarm, ctx });
  root.append(h("div.page.fill", null, h("h1.visually-hidden", null, "Events"), panel.element));
  panel.update(null, ctx.route);
  return {
    navigate: (route) => panel.update(null, route),
    update: () => panel.refresh(),
    select: (delta) => panel.select(delta),
    focusFilter: () => panel.focusFilter(),
    unmount: () => panel.close(),
  };
}
