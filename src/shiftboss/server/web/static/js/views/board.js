// The board: every task as a card, in columns by state.

import { BoardModel } from "../board/model.js";
import { Column } from "../board/column.js";
import { SmallBoard } from "../board/small.js";
import { CARDS_MAX } from "../cards.js";
import { COLUMNS } from "../columns.js";
import { empty, h, setText } from "../dom.js";
import { number, plural } from "../format.js";
import { link } from "../router.js";
import { errorNotice } from "../shell/errors.js";

const SMALL = "(max-width: 719px)";
// What a worker reports with heartbeats (its step, its context) makes no event: look again now and then.
const HEARTBEATS_MS = 15_000;
const HEARTBEATS_MAX = 100;

export const view = {
  name: "board",
  title: "Board",
  mount: (root, ctx) => new Board(root, ctx),
};

class Board {
  constructor(root, ctx) {
    this._ctx = ctx;
    this._model = new BoardModel();
    this._media = matchMedia(SMALL);
    this._notes = h("div.board-notes");
    this._host = h("div.board-host");
    this._filter = h("input.field.board-filter", {
      type: "search", placeholder: "Filter by title, worker, agent …", "aria-label": "Filter the tasks", autocomplete: "off", spellcheck: "false",
    });
    this._found = h("span.quiet", { role: "status" });
    const tools = h("div.board-tools", null, h("h1.visually-hidden", null, "Board"), this._filter, h("kbd.only-wide", { "aria-hidden": "true" }, "/"), this._found);
    root.append(tools, this._notes, this._host);
    this._filter.addEventListener("input", () => this._filterChanged());
    this._filter.value = ctx.route.query.q ?? "";
    this._model.setFilter(this._filter.value);
    this._onMedia = () => this._layout();
    this._media.addEventListener("change", this._onMedia);
    ctx.store.needCards();
    this._unsubscribe = ctx.store.subscribe((state) => state.cards, (cards) => this._show(cards));
    this._timer = setInterval(() => this._lookAtHeartbeats(), HEARTBEATS_MS);
    this._layout();
  }

  unmount() {
    this._unsubscribe();
    clearInterval(this._timer);
    this._media.removeEventListener("change", this._onMedia);
    this._close();
  }

  _close() {
    this._small?.close();
    this._columns?.forEach((column) => column.close());
    this._small = this._columns = null;
  }

  _layout() {
    this._close();
    const { swarm } = this._ctx.route;
    if (this._media.matches) {
      this._small = new SmallBoard(swarm);
      this._host.replaceChildren(this._small.element);
    } else {
      this._columns = COLUMNS.map((column) => new Column(column, swarm));
      this._host.replaceChildren(h("div.board", null, this._columns.map((column) => column.element)));
    }
    this._show({ ...this._ctx.store.state.cards, changed: null });
  }

  _show(cards) {
    this._model.update(cards.byId, cards.changed);
    // What a page of the first load, or a filter, brings is not new.
    this._draw({ marksNew: cards.changed !== null });
    this._showNotes(cards);
  }

  _draw({ marksNew = false } = {}) {
    this._small?.show(this._model, { marksNew });
    const { isComplete } = this._ctx.store.state.cards;
    this._columns?.forEach((column) => {
      column.show(this._model.cards(column.name), { total: this._model.total(column.name), isFiltered: this._model.isFiltered, isComplete, marksNew });
    });
  }

  _showNotes({ byId, isComplete, isCut, error }) {
    const isEmpty = isComplete && byId.size === 0;
    // An error that stays is not announced again with each change.
    const noted = JSON.stringify([error?.message, isEmpty, isCut]);
    const hasNothing = isEmpty || Boolean(error && byId.size === 0);
    this._host.hidden = hasNothing;
    this._filter.parentElement.hidden = hasNothing;
    if (noted === this._noted) return;
    this._noted = noted;
    this._notes.replaceChildren(...[
      error && (error.code === "unknown_swarm" ? noSuchRun(error) : errorNotice("The tasks could not be loaded", error)),
      isEmpty && nothingYet(),
      isCut && h("p.notice", null, `Only the first ${number(CARDS_MAX)} tasks are shown.`),
    ].filter(Boolean));
  }

  _filterChanged() {
    this._model.setFilter(this._filter.value);
    this._draw();
    const shown = COLUMNS.reduce((sum, { name }) => sum + this._model.cards(name).length, 0);
    setText(this._found, this._model.isFiltered ? plural(shown, "task") : "");
  }

  _lookAtHeartbeats() {
    if (document.hidden) return;
    const atWork = ["running", "verifying"].flatMap((name) => this._model.cards(name).slice(0, HEARTBEATS_MAX));
    this._ctx.store.refreshCards(atWork.slice(0, HEARTBEATS_MAX).map((card) => card.bead_id));
  }

  focusFilter() {
    this._filter.focus();
    this._filter.select();
  }

  /** Escape: out of the filter, then out of its text. */
  escape() {
    if (document.activeElement === this._filter && this._filter.value) {
      this._filter.value = "";
      this._filterChanged();
      return true;
    }
    if (document.activeElement === this._filter) {
      this._filter.blur();
      return true;
    }
    return false;
  }

  select(delta) {
    if (this._small) return this._selectSmall(delta);
    const open = this._columns.filter((column) => column.list.items.length);
    const current = open.find((column) => column.list.focusedIndex >= 0) ?? open[0];
    current?.list.move(delta);
  }

  _selectSmall(delta) {
    const { list } = this._small;
    let index = Math.max(0, list.focusedIndex) + delta;
    while (list.items[index]?.heading) index += delta || 1;
    list.focusIndex(index);
  }

  /** `h` and `l`: to the column beside it. */
  selectColumn(delta) {
    if (!this._columns) return;
    const open = this._columns.filter((column) => column.list.items.length);
    const current = open.findIndex((column) => column.list.focusedIndex >= 0);
    open[Math.max(0, Math.min(open.length - 1, current + delta))]?.list.move(0);
  }

  selection() {
    const lists = this._small ? [this._small.list] : this._columns.map((column) => column.list);
    const list = lists.find(({ focusedIndex }) => focusedIndex >= 0);
    const card = list?.items[list.focusedIndex];
    return card && !card.heading ? { swarm: this._ctx.route.swarm, card } : null;
  }
}

function noSuchRun(error) {
  return h("div.page", null, empty(error.message, "It may have been deleted, or the link is for another server.", "shiftboss swarm list"), h("a", { href: link("runs") }, "To the runs"));
}

function nothingYet() {
  return h("div.page", null, empty(
    "No tasks yet", "Every task of this run appears here as a card, as soon as it is added. A plan fills the board:",
    "shiftboss run plan.yaml"));
}
