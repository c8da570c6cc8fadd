// One column of the board: a heading with its count, and a virtual list of its cards.

import { h, setText, toggleAttribute } from "../dom.js";
import { icon } from "../icons.js";
import { number } from "../format.js";
import { VirtualList } from "../list.js";
import { cardHeight, createCard, updateCard } from "./card.js";

export class Column {
  constructor({ name, title, tone }, swarm, onLostFocus) {
    this.name = name;
    this._count = h("span.column-count");
    this._scroller = h("div.column-cards");
    const heading = h("h2.column-title", null, h("span", { class: `tone-${tone}` }, icon(name)), h("span", null, title), this._count);
    this.element = h("section.column", { "aria-label": title, dataset: { column: name } }, heading, this._scroller);
    this.list = new VirtualList(this._scroller, {
      label: title,
      key: (card) => card.bead_id,
      height: cardHeight,
      create: (card) => createCard(card, swarm),
      update: updateCard,
      onLostFocus,
    });
    this._items = null;
  }

  show(cards, { total, isFiltered, isComplete, marksNew }) {
    if (cards !== this._items) {
      this._items = cards;
      this.list.setItems(cards, { marksNew });
    }
    const all = `${number(total)}${isComplete ? "" : "+"}`;
    setText(this._count, isFiltered ? `${number(cards.length)} of ${all}` : all);
    // Once open, it stays open: the columns beside it do not move again.
    if (total > 0) this.element.dataset.open = "";
    toggleAttribute(this.element, "data-empty", total === 0);
  }

  close() {
    this.list.close();
  }
}
