import { empty, h } from "../dom.js";

export const view = {
  name: "workers",
  title: "Workers",
  mount(root) {
    root.append(h("div.page", null, empty("Workers", "This view is being built.")));
    return {};
  },
};
