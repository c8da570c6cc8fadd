import { empty, h } from "../dom.js";

export const view = {
  name: "replay",
  title: "Replay",
  mount(root) {
    root.append(h("div.page", null, empty("Replay", "This view is being built.")));
    return {};
  },
};
