// The board on a small screen: one list, with a heading for each state that has cards.

import { COLUMNS } from "../columns.js";
import { h, setText } from "../dom.js";
import { number } from "../format.js";
import { icon } from "../icons.js";
import { VirtualList } from "../list.js";
import { cardHeight, createCard, updateCard } from "./card.js";

const HEADING = 40;

export class SmallBoard {
  constructor(swarm) {
    this.element = h("div.board-list");
    this.list = new VirtualList(this.element, {
      label: "Tasks",
      key: (item) => (item.heading ? `heading ${item.heading}` : item.bead_id),
      height: (item) => (item.heading ? HEADING : cardHeight(item)),
      create: (item) => (item.heading ? createHeading(item) : createCard(item, swarm)),
      update: (element, item) => (item.heading ? updateHeading(element, item) : updateCard(element, item)),
    });
  }

  show(model, { marksNew }) {
    const items = [];
    for (const { name, title, tone } of COLUMNS) {
      const cards = model.cards(name);
      if (!cards.length) continue;
      items.push({ heading: name, title, tone, count: cards.length });
      for (const card of cards) items.push(card);
    }
    this.list.setItems(items, { marksNew });
  }

  close() {
    this.list.close();
  }
}

function createHeading(item) {
  const count = h("span.column-count");
  const element = h("h2.column-title", null, h("span", { class: `tone-${item.tone}` }, icon(item.heading)), h("span", null, item.title), count);
  element.count = count;
  updateHeading(element, item);
  return element;
}

function updateHeading(element, item) {
  setText(element.count, number(item.count));
}
