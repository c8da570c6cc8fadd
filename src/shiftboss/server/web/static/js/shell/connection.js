// The connection: nothing while it holds, a thin line when it is lost.

import { h, replace } from "../dom.js";

export function mountConnection(root, store) {
  const show = (state) => {
    root.dataset.state = state;
    replace(root, state === "lost" && h("span", { role: "status" }, "Connection lost. Trying again …"));
  };
  store.subscribe((state) => state.connection, show);
  show(store.state.connection);
}
