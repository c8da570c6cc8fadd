import { empty, h } from "../dom.js";

export const view = {
  name: "runs",
  title: "Runs",
  mount(root) {
    root.append(h("div.page", null, empty("Runs", "This view is being built.")));
    return {};
  },
};
