// The cards of one swarm, kept up to date: loaded page by page, then only what changed.

const PAGE = 1000;
// The first page is small: something is on the screen while the rest is loaded.
const FIRST_PAGE = 200;
const IDS_MAX = 500;
// More than this is neither kept nor shown; the board says so.
export const CARDS_MAX = 20_000;

export class Cards {
  /** `onChange(ids)` after each batch; null: everything may have changed. */
  constructor(api, swarm, onChange) {
    this.byId = new Map();
    this.isComplete = false;
    this.isCut = false;
    this.error = null;
    this._api = api;
    this._swarm = swarm;
    this._onChange = onChange;
    this._stale = new Set();
    this._asOf = 0;
    this._loading = null;
    this._abort = new AbortController();
  }

  close() {
    this._abort.abort();
  }

  /**
   * The newest event that the feed has told of. The server answers all pages that have heard of the same events
   * together. Null: what this page itself has just done must be in the answer.
   */
  heardOf(eventId) {
    this._asOf = eventId === null || this._asOf === null ? null : Math.max(this._asOf, eventId);
  }

  /** Load all of them. A second call while this goes on waits for the first. */
  load() {
    this._loading ??= this._loadAll().finally(() => (this._loading = null));
    return this._loading;
  }

  async _loadAll() {
    const seen = new Set();
    let after = null;
    this.isCut = false;
    do {
      const page = await this._fetch(after === null ? { limit: FIRST_PAGE } : { limit: PAGE, after });
      this._keep(page.cards, seen);
      after = page.next_after ?? null;
      if (seen.size >= CARDS_MAX) this.isCut = after !== null;
      this.isComplete = after === null || this.isCut;
      this._onChange(null);
    } while (!this.isComplete);
    for (const id of this.byId.keys()) if (!seen.has(id)) this.byId.delete(id);
    this._onChange(null);
    if (this._stale.size) await this.refresh([]);
  }

  _keep(cards, seen) {
    for (const card of cards) {
      this.byId.set(card.bead_id, card);
      seen?.add(card.bead_id);
    }
  }

  /** Fetch these again. What is asked for while all are loaded comes after it. */
  async refresh(ids) {
    for (const id of ids) this._stale.add(id);
    while (this._stale.size && !this._loading) {
      const batch = Array.from(this._stale).slice(0, IDS_MAX);
      for (const id of batch) this._stale.delete(id);
      await this._refreshBatch(batch);
    }
  }

  async _refreshBatch(ids) {
    const page = await this._fetch({ bead_ids: ids });
    const present = new Set(page.cards.map((card) => card.bead_id));
    const kept = page.cards.filter((card) => this.byId.has(card.bead_id) || this.byId.size < CARDS_MAX);
    this._keep(kept, null);
    for (const id of ids) if (!present.has(id)) this.byId.delete(id);
    this._onChange(ids);
  }

  async _fetch(body) {
    const asOf = this._asOf;
    this._asOf ??= 0;
    const request = { swarm_id: this._swarm, ...body, ...(asOf !== null && { as_of: asOf }) };
    // Its `server_time` says nothing of now: the answer may have been made for another page.
    return this._api.post("list_cards", request, { signal: this._abort.signal });
  }
}
