import { empty, h } from "../dom.js";

export const view = {
  name: "inbox",
  title: "Inbox",
  mount(root) {
    root.append(h("div.page", null, empty("Inbox", "This view is being built.")));
    return {};
  },
};
