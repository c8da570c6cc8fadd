// The connection: nothing while it holds, a thin line when it is lost. Who is not logged in any more is told so instead.

import { h, replace } from "../dom.js";

export function mountConnection(root, store) {
  const show = () => {
    const { connection, session } = store.state;
    const isLost = connection === "lost" && session?.can_read !== false;
    root.dataset.state = isLost ? "lost" : "live";
    replace(root, isLost && h("span", null, "Connection lost. Trying again …"));
  };
  store.subscribe((state) => state.connection, show);
  store.subscribe((state) => state.session, show);
  show();
}
