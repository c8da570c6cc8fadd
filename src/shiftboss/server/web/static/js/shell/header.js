import { h } from "../dom.js";

export function mountHeader(root) {
  root.append(h("a", { href: "#/" }, "Shiftboss"));
  return {
    setTitle(title) {
      document.title = `${title} · Shiftboss`;
    },
  };
}
