// The inbox: everything that waits for a person, in all runs, oldest first within each kind.

import { mayAct } from "../actions.js";
import { empty, h, setText } from "../dom.js";
import { plural } from "../format.js";
import { createItem, setCurrent, setNew, updateItem } from "../inbox/item.js";
import { keyOf } from "../inbox/kinds.js";
import { perFrame } from "../schedule.js";
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
    this._unsubscribe = ctx.store.subscribe((state) => state.inbox, (inbox) => this._changed(inbox));
    this._items = [];
    this._isPointedAt = false;
    this._listenToList();
    this._wanted = ctx.route.query.task ? ctx.route.query : null;
    this._abort = new AbortController();
    for (const kind of ["pointerdown", "keydown", "wheel"]) {
      window.addEventListener(kind, () => (this._wanted = null), { capture: true, passive: true, signal: this._abort.signal });
    }
    this._show(ctx.store.state.inbox);
  }

  unmount() {
    this._unsubscribe();
    this._abort.abort();
  }

  _listenToList() {
    const settle = perFrame(() => this._isInUse() || this._sort());
    this._list.addEventListener("pointerenter", () => (this._isPointedAt = true));
    this._list.addEventListener("pointerleave", () => {
      this._isPointedAt = false;
      settle();
    });
    this._list.addEventListener("focusout", settle);
  }

  /** What is not in the inbox by now is not waited for: the focus must not jump while somebody reads. */
  _changed(inbox) {
    this._show(inbox);
    if (inbox.isLoaded) this._wanted = null;
  }

  /** While somebody points at the list, or works in it with the keyboard, no item moves. */
  _isInUse() {
    return this._isPointedAt || this._list.contains(document.activeElement);
  }

  _show({ items, total, error, isLoaded }) {
    const keys = new Set(items.map(keyOf));
    for (const [key, element] of this._elements) {
      if (keys.has(key)) continue;
      this._leave(element);
      this._elements.delete(key);
    }
    this._items = items;
    const isInUse = this._isInUse();
    for (const item of items) this._update(item, isInUse);
    if (isInUse) this._number();
    else this._sort();
    setText(this._count, isLoaded && total ? headline(items.length, total) : "");
    this._showNotes(isLoaded, total, error);
    this._focusWanted(items);
  }

  /** A new item comes last; `isNew` marks it until the list is in order again. */
  _update(item, isNew) {
    const known = this._elements.get(keyOf(item));
    if (known) return updateItem(known, item);
    const element = createItem(item, this._ctx);
    setNew(element, isNew);
    this._elements.set(keyOf(item), element);
    return this._list.append(element);
  }

  _sort() {
    this._items.forEach((item, index) => {
      const element = this._elements.get(keyOf(item));
      setNew(element, false);
      if (this._list.children[index] !== element) this._list.insertBefore(element, this._list.children[index] ?? null);
    });
    this._number();
  }

  _number() {
    const { children } = this._list;
    [...children].forEach((element, index) => {
      element.setAttribute("aria-posinset", String(index + 1));
      element.setAttribute("aria-setsize", String(children.length));
    });
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

  /** `inboxLink`, from a card. The item itself gets the focus, not its first button: a key must not approve it. */
  _focusWanted(items) {
    const wanted = this._wanted;
    const item = wanted && items.find((each) => each.swarm_id === wanted.run && each.bead_id === wanted.task);
    if (!item) return;
    this._wanted = null;
    const element = this._elements.get(keyOf(item));
    element.scrollIntoView({ block: "center" });
    this._choose(element);
  }

  _choose(element) {
    for (const each of this._list.children) setCurrent(each, each === element);
    element.focus({ preventScroll: true });
  }

  select(delta) {
    const elements = [...this._list.children];
    const current = elements.findIndex((element) => element.contains(document.activeElement));
    const next = elements[current < 0 ? 0 : Math.max(0, Math.min(elements.length - 1, current + delta))];
    if (!next) return;
    this._choose(next);
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
