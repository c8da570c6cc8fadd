// The inbox: everything that waits for a person, in all runs, oldest first within each kind.

import { mayAct } from "../actions.js";
import { empty, h, setText } from "../dom.js";
import { plural } from "../format.js";
import { createItem, setCurrent, updateItem } from "../inbox/item.js";
import { keyOf } from "../inbox/kinds.js";
import { errorNotice } from "../shell/errors.js";

export const view = {
  name: "inbox",
  title: "Inbox",
  mount: (root, ctx) => new InboxView(root, ctx),
};

class InboxView {
  constructor(root, ctx) {
    this._ctx = ctx;
    this._elements = new Map();
    this._count = h("p");
    this._notes = h("div");
    this._list = h("div.items", { role: "feed", "aria-label": "What needs you", "aria-busy": "false" });
    root.append(h("div.page.narrow", null, h("div.page-head", null, h("h1", null, "Inbox"), this._count), this._notes, this._list));
    this._unsubscribe = ctx.store.subscribe((state) => state.inbox, (inbox) => this._show(inbox));
    this._wanted = ctx.route.query.task ?? null;
    this._show(ctx.store.state.inbox);
  }

  unmount() {
    this._unsubscribe();
  }

  _show({ items, total, error, isLoaded }) {
    const keys = new Set(items.map(keyOf));
    for (const [key, element] of this._elements) {
      if (keys.has(key)) continue;
      this._leave(element);
      this._elements.delete(key);
    }
    items.forEach((item, index) => this._place(item, index, items.length));
    setText(this._count, isLoaded && total ? headline(items.length, total) : "");
    this._showNotes(isLoaded, total, error);
    this._focusWanted(items);
  }

  _place(item, index, size) {
    const key = keyOf(item);
    let element = this._elements.get(key);
    if (element) updateItem(element, item);
    else this._elements.set(key, (element = createItem(item, this._ctx)));
    element.setAttribute("aria-posinset", String(index + 1));
    element.setAttribute("aria-setsize", String(size));
    // A field that has the focus would lose it if it were moved.
    if (this._list.children[index] !== element && !element.contains(document.activeElement)) {
      this._list.insertBefore(element, this._list.children[index] ?? null);
    }
  }

  /** The focus goes to the item that follows, so that one can work through the list. */
  _leave(element) {
    const next = element.nextElementSibling ?? element.previousElementSibling;
    const hadFocus = element.contains(document.activeElement);
    element.remove();
    if (hadFocus) next?.focus();
  }

  _showNotes(isLoaded, total, error) {
    const canAct = mayAct(this._ctx.store.state.session);
    this._notes.replaceChildren(...[
      error && errorNotice("The inbox could not be loaded", error),
      isLoaded && total === 0 && empty("Nothing needs you", "Questions of agents, requests for files, reviews, refused work and spent budgets appear here."),
      isLoaded && total > 0 && !canAct && h("p.notice", null, "You can look, but not answer: log in with ", h("code", null, "shiftboss open"), "."),
    ].filter(Boolean));
  }

  /** `#/inbox?task=ID`, from a card. */
  _focusWanted(items) {
    const item = this._wanted && items.find((each) => each.bead_id === this._wanted);
    if (!item) return;
    this._wanted = null;
    const element = this._elements.get(keyOf(item));
    element.scrollIntoView({ block: "center" });
    (element.querySelector("textarea, button") ?? element).focus({ preventScroll: true });
  }

  select(delta) {
    const elements = [...this._list.children];
    const current = elements.findIndex((element) => element.contains(document.activeElement));
    const next = elements[current < 0 ? 0 : Math.max(0, Math.min(elements.length - 1, current + delta))];
    if (!next) return;
    for (const element of elements) setCurrent(element, element === next);
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  }

  open() {
    const current = document.activeElement?.closest(".item");
    current?.querySelector("textarea, button, a")?.focus();
  }

  escape() {
    const item = document.activeElement?.closest(".item");
    if (!item || document.activeElement === item) return false;
    item.focus();
    return true;
  }
}

function headline(shown, total) {
  return shown < total ? `${plural(total, "thing")} need you; the first ${shown} are shown` : total === 1 ? "1 thing needs you" : `${total} things need you`;
}
