// One task, or one receipt.

import { empty, foreign, h } from "../dom.js";
import { eventsPanel } from "../events/panel.js";
import { TaskPage } from "../task/page.js";
import { receiptElement } from "../task/receipt.js";

export const view = {
  name: "task",
  title: "Task",
  mount(root, ctx) {
    return ctx.route.view === "receipt" ? mountReceipt(root, ctx) : new TaskPage(root, ctx, eventsPanel);
  },
};

function mountReceipt(root, { api, route }) {
  const page = h("div.page", { "aria-busy": "true" });
  root.append(page);
  const abort = new AbortController();
  api
    .post("show_receipt", { swarm_id: route.swarm, bead_id: route.id }, { signal: abort.signal })
    .then((answer) => page.replaceChildren(h("header.page-head", null, h("h1", null, "Receipt"), foreign("p.mono", null, route.id)), receiptElement(answer)))
    .catch((error) => abort.signal.aborted || page.replaceChildren(empty(error.message, error.hint, "shiftboss receipt list")))
    .finally(() => page.removeAttribute("aria-busy"));
  return { unmount: () => abort.abort() };
}
