import { empty, h } from "../dom.js";

export const view = {
  name: "graph",
  title: "Graph",
  mount(root) {
    root.append(h("div.page", null, empty("Graph", "This view is being built.")));
    return {};
  },
};
