// The events of a swarm, or of one task: the newest ones, older ones on demand, and new ones as they come.

const PAGE = 200;
const KEPT_MAX = 20_000;
// A filter may find nothing on many pages: after these, the reader decides whether to search on.
const EMPTY_PAGES_MAX = 20;

export class EventHistory {
  /** `filter`: `{kinds, bead_id}`, both optional. `onChange()` after each answer. */
  constructor(api, swarm, filter, onChange) {
    this.events = [];
    this.error = null;
    this.isLoaded = false;
    this._api = api;
    this._body = { swarm_id: swarm, ...filter };
    this._onChange = onChange;
    this._before = null;
    this._newest = 0;
    this._busy = null;
    this._isNewWanted = false;
    this._abort = new AbortController();
  }

  get hasMore() {
    return this._before !== null && this.events.length < KEPT_MAX;
  }

  get isClosed() {
    return this._abort.signal.aborted;
  }

  close() {
    this._abort.abort();
  }

  /** The next older ones. */
  older() {
    if (this.isLoaded && !this.hasMore) return Promise.resolve();
    return this._one(() => this._older());
  }

  /** Those that came since. While another request goes on, they are asked for after it. */
  newer() {
    if (this._busy) {
      this._isNewWanted = true;
      return this._busy;
    }
    return this._one(() => this._upToDate());
  }

  _one(work) {
    this._busy ??= this._work(work);
    return this._busy;
  }

  async _work(work) {
    try {
      await this._guarded(work);
      while (this._isNewWanted && !this.isClosed) {
        this._isNewWanted = false;
        await this._guarded(() => this._upToDate());
      }
    } finally {
      this._busy = null;
    }
  }

  async _guarded(work) {
    try {
      await work();
      this.error = null;
    } catch (error) {
      if (this.isClosed) return;
      this.error = error;
    }
    this._onChange();
  }

  /** A first load that failed is made good. */
  _upToDate() {
    return this.isLoaded ? this._newer() : this._older();
  }

  async _older() {
    for (let page = 0; page < EMPTY_PAGES_MAX; page += 1) {
      const { events = [], ...answer } = await this._ask(this._before === null ? {} : { before: this._before });
      if (!this.isLoaded) this._newest = answer.last_event_id ?? events[0]?.event_id ?? 0;
      this.isLoaded = true;
      this._before = answer.next_before ?? null;
      this.events = [...this.events, ...events];
      if (events.length || this._before === null) return;
    }
  }

  async _newer() {
    for (let page = 0; page < EMPTY_PAGES_MAX; page += 1) {
      const { events = [], ...answer } = await this._ask({ after: this._newest });
      const added = events.filter((event) => event.event_id > this._newest).reverse();
      this.events = [...added, ...this.events].slice(0, KEPT_MAX);
      this._newest = Math.max(this._newest, answer.next_after ?? answer.last_event_id ?? 0);
      if (answer.next_after == null) return;
    }
  }

  _ask(cursor) {
    return this._api.post("list_events", { ...this._body, ...cursor, limit: PAGE }, { signal: this._abort.signal });
  }
}
