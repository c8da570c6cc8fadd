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
    this._abort = new AbortController();
  }

  get hasMore() {
    return this._before !== null && this.events.length < KEPT_MAX;
  }

  close() {
    this._abort.abort();
  }

  /** The next older ones. */
  older() {
    if (this.isLoaded && !this.hasMore) return Promise.resolve();
    return this._one(() => this._older());
  }

  /** Those that came since. */
  newer() {
    if (!this.isLoaded) return Promise.resolve();
    return this._one(() => this._newer());
  }

  _one(work) {
    this._busy ??= this._guarded(work).finally(() => (this._busy = null));
    return this._busy;
  }

  async _guarded(work) {
    try {
      await work();
      this.error = null;
    } catch (error) {
      if (this._abort.signal.aborted) return;
      this.error = error;
    }
    this._onChange();
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
      this._newest = Math.max(this._newest, added[0]?.event_id ?? 0, answer.next_after ?? 0);
      if (answer.next_after == null) return;
    }
  }

  _ask(cursor) {
    return this._api.post("list_events", { ...this._body, ...cursor, limit: PAGE }, { signal: this._abort.signal });
  }
}
