import { empty, h } from "../dom.js";

export const view = {
  name: "task",
  title: "Task",
  mount(root) {
    root.append(h("div.page", null, empty("Task", "This view is being built.")));
    return {};
  },
};
