import { empty, h } from "../dom.js";

export const view = {
  name: "repos",
  title: "Repos",
  mount(root) {
    root.append(h("div.page", null, empty("Repos", "This view is being built.")));
    return {};
  },
};
