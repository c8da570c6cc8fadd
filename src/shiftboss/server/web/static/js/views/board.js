import { h } from "../dom.js";

export const view = {
  name: "board",
  title: "Board",
  mount(root, { store }) {
    store.needCards();
    root.append(h("div.page", null, "…"));
    return {};
  },
};
