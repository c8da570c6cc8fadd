// Which cards are in which column, in which order. An update costs as much as what changed, beside copying
// the lists of the columns concerned.

import { COLUMNS } from "../columns.js";

const NATURAL = new Intl.Collator("en", { numeric: true });

// A card keeps its place while it is in a column: the keys are times that do not change there.
const oldestFirst = (card) => card.started_at ?? card.created_at ?? 0;
const newestFirst = (card) => -(card.ended_at ?? card.updated_at ?? 0);
const ORDER = {
  needs_you: oldestFirst,
  failed: newestFirst,
  running: oldestFirst,
  verifying: oldestFirst,
  waiting: (card) => -(card.priority ?? 0) * 1e14 + (card.created_at ?? 0),
  accepted: newestFirst,
  done: newestFirst,
};

export class BoardModel {
  constructor() {
    this._columns = new Map(COLUMNS.map(({ name }) => [name, []]));
    this._places = new Map();
    this._filter = "";
    this._shown = new Map();
  }

  /** Take over the cards; `changed` are the ids that may differ, or null. Returns the names of the columns that changed. */
  update(byId, changed) {
    const touched = changed === null ? this._rebuild(byId) : this._replace(byId, changed);
    for (const name of touched) this._shown.delete(name);
    return touched;
  }

  _rebuild(byId) {
    for (const name of this._columns.keys()) this._columns.set(name, []);
    this._places.clear();
    for (const card of byId.values()) this._columns.get(this._place(card)).push(entry(card));
    for (const entries of this._columns.values()) entries.sort(compare);
    return new Set(this._columns.keys());
  }

  _replace(byId, changed) {
    const ids = new Set(changed);
    const arrivals = new Map();
    const touched = new Set();
    for (const id of ids) {
      const before = this._places.get(id);
      if (before !== undefined) touched.add(before);
      this._places.delete(id);
      const card = byId.get(id);
      if (!card) continue;
      const name = this._place(card);
      touched.add(name);
      arrivals.set(name, [...(arrivals.get(name) ?? []), entry(card)]);
    }
    for (const name of touched) this._merge(name, ids, arrivals.get(name) ?? []);
    return touched;
  }

  _merge(name, ids, arrivals) {
    const kept = this._columns.get(name).filter(({ card }) => !ids.has(card.bead_id));
    // Nearly sorted input: the sort of the browser is linear for it.
    this._columns.set(name, kept.concat(arrivals).sort(compare));
  }

  _place(card) {
    const name = this._columns.has(card.column) ? card.column : "waiting";
    this._places.set(card.bead_id, name);
    return name;
  }

  setFilter(text) {
    this._filter = text.trim().toLowerCase();
    this._shown.clear();
  }

  get isFiltered() {
    return this._filter !== "";
  }

  total(name) {
    return this._columns.get(name).length;
  }

  /** The cards of a column that match the filter. The same list, until something in it changes. */
  cards(name) {
    let shown = this._shown.get(name);
    if (!shown) {
      shown = this._columns.get(name).map(({ card }) => card);
      if (this._filter) shown = shown.filter((card) => matches(card, this._filter));
      this._shown.set(name, shown);
    }
    return shown;
  }
}

function entry(card) {
  return { card, key: (ORDER[card.column] ?? ORDER.waiting)(card) };
}

function compare(a, b) {
  return a.key - b.key || NATURAL.compare(a.card.bead_id, b.card.bead_id);
}

const SEARCHED = new WeakMap();

/** Whether every word of the filter is somewhere in what the card shows. */
export function matches(card, filter) {
  let text = SEARCHED.get(card);
  if (text === undefined) {
    const parts = [card.bead_id, card.title, card.worker, card.agent, card.model, card.repo, card.reason, card.status, card.milestone];
    text = parts.filter(Boolean).join(" ").toLowerCase();
    SEARCHED.set(card, text);
  }
  return filter.split(/\s+/).every((word) => text.includes(word));
}
