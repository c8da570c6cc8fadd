// The cards of one swarm, kept up to date: loaded page by page, then only what changed.

const PAGE = 1000;
// The first page is small: something is on the screen while the rest is loaded.
const FIRST_PAGE = 200;
const IDS_MAX = 500;
// More than this is neither kept nor shown; the board says so.
export const CARDS_MAX = 20_000;

export class Cards {
  /** `onChange(ids)` after each batch, and after a failure, with `error`; null: everything may have changed. */
  constructor(api, swarm, onChange) {
    this.byId = new Map();
    this.isComplete = false;
    this.isCut = false;
    this.error = null;
    this._api = api;
    this._swarm = swarm;
    this._onChange = onChange;
    this._isAllStale = false;
    this._stale = new Set();
    this._asOf = 0;
    this._working = null;
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

  /** Load all of them. While this goes on, another call leads to one more load: pages may have been read too early. */
  load() {
    this._isAllStale = true;
    return this._work();
  }

  /** Fetch these again. What is asked for while all are loaded comes after it; what has failed is tried again, too. */
  refresh(ids) {
    for (const id of ids) this._stale.add(id);
    return this._work();
  }

  get _isStale() {
    return this._isAllStale || this._stale.size > 0;
  }

  /** Until nothing is stale or a request fails. What has failed stays stale. */
  _work() {
    if (this._isStale) this._working ??= this._fetchStale();
    return this._working ?? Promise.resolve();
  }

  async _fetchStale() {
    try {
      while (this._isStale) await (this._isAllStale ? this._loadAll() : this._refreshSome());
      this._setError(null);
    } catch (error) {
      if (!this._abort.signal.aborted) this._setError(error);
    } finally {
      this._working = null;
    }
  }

  _setError(error) {
    if (error === this.error) return;
    this.error = error;
    this._onChange([]);
  }

  async _loadAll() {
    this._isAllStale = false;
    this._stale.clear();
    try {
      await this._loadPages();
    } catch (error) {
      this._isAllStale = true;
      throw error;
    }
  }

  async _loadPages() {
    const seen = new Set();
    let after = null;
    let isLast = false;
    while (!isLast) {
      const page = await this._fetch(after === null ? { limit: FIRST_PAGE } : { limit: PAGE, after });
      this._keep(page.cards, seen);
      const isFirst = after === null;
      after = page.next_after ?? null;
      isLast = after === null || seen.size >= CARDS_MAX;
      if (isLast) this._endLoad(seen, after !== null);
      this._onChange(null);
      // So little has been read that starting again costs less than another load afterwards.
      if (isFirst && this._isAllStale) return;
    }
  }

  _endLoad(seen, isCut) {
    for (const id of this.byId.keys()) if (!seen.has(id)) this.byId.delete(id);
    this.isComplete = true;
    this.isCut = isCut;
  }

  _keep(cards, seen) {
    for (const card of cards) {
      this.byId.set(card.bead_id, card);
      seen?.add(card.bead_id);
    }
  }

  async _refreshSome() {
    const ids = Array.from(this._stale).slice(0, IDS_MAX);
    for (const id of ids) this._stale.delete(id);
    try {
      await this._refreshBatch(ids);
    } catch (error) {
      for (const id of ids) this._stale.add(id);
      throw error;
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
    try {
      // Its `server_time` says nothing of now: the answer may have been made for another page.
      return await this._api.post("list_cards", request, { signal: this._abort.signal });
    } catch (error) {
      if (asOf === null) this._asOf = null;
      throw error;
    }
  }
}
