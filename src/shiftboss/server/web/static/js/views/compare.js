import { empty, h } from "../dom.js";

export const view = {
  name: "compare",
  title: "Compare",
  mount(root) {
    root.append(h("div.page", null, empty("Compare", "This view is being built.")));
    return {};
  },
};
