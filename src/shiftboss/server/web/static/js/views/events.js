import { empty, h } from "../dom.js";

export const view = {
  name: "events",
  title: "Events",
  mount(root) {
    root.append(h("div.page", null, empty("Events", "This view is being built.")));
    return {};
  },
};
