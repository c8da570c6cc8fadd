// What the page knows: snapshots from the server, refreshed by the change feed. Views subscribe to parts of it.

import { Cards } from "./cards.js";
import { openFeed } from "./feed.js";
import { millis, setServerTime } from "./format.js";
import { oneAtATime, perFrame } from "./schedule.js";

const CARDS_PAUSE_MS = 250;
// Between two loads of all cards: when more has changed than the feed lists.
const ALL_CARDS_PAUSE_MS = 10_000;
// Before cards that could not be loaded are asked for again.
const RETRY_CARDS_MS = 3000;
const STATUS_PAUSE_MS = 1000;
const INBOX_PAUSE_MS = 1000;
const SWARMS_PAUSE_MS = 5000;
const SESSION_PAUSE_MS = 1000;
const SWARMS_LISTED = 50;
// Events that never change what waits for a person.
const QUIET_KINDS = new Set([
  "task_added", "task_assigned", "task_started", "task_progress", "checkpoint_stored", "milestone_reported",
  "bus_worker_joined", "progress_update", "worker_registered", "ci_run_found", "ci_passed", "answer_delivered",
  "heartbeat",
]);

const EMPTY_INBOX = { items: [], total: 0, error: null, isLoaded: false };

/**
 * `state` has `session`, `connection` (connecting, live or lost), `swarms`, `swarm` (the id that is shown),
 * `status` and `usage` of that swarm, `inbox`, and `cards` (`{ byId, isComplete, changed }`; a new object with
 * every batch, `changed` is a list of ids, or null for all).
 */
export class Store {
  constructor(api) {
    this._api = api;
    this._watchers = new Set();
    this._cards = null;
    this._staleCards = new Set();
    this._retryTimer = null;
    this._changedCards = [];
    this._changes = new Map();
    this._isBehind = false;
    this._isUsageOld = true;
    this._notify = perFrame(() => this._tell());
    this._deliver = perFrame(() => this._deliverChanges());
    this._askCards = oneAtATime(() => this._ifSeen(() => this._refreshCards()), CARDS_PAUSE_MS);
    this._askAllCards = oneAtATime(() => this._ifSeen(() => this._loadAllCards()), ALL_CARDS_PAUSE_MS);
    this._askStatus = oneAtATime(() => this._ifSeen(() => this._loadStatus()), STATUS_PAUSE_MS);
    this._askInbox = oneAtATime(() => this._loadInbox({ shared: true }), INBOX_PAUSE_MS);
    this._askSession = oneAtATime(() => this.loadSession().catch(() => null), SESSION_PAUSE_MS);
    this._askSwarms = oneAtATime(() => this._ifSeen(() => this._loadSwarms()), SWARMS_PAUSE_MS);
    this.onChange = () => {};
    this.state = {
      session: null, connection: "connecting", swarms: [], hasSwarms: false, swarm: null,
      status: null, usage: null, inbox: EMPTY_INBOX, cards: noCards(),
    };
  }

  /** `subscribe((state) => state.inbox, (inbox) => ...)`: called in the frame after it changed. Returns a function that ends it. */
  subscribe(selector, listener) {
    const watcher = { selector, listener, last: selector(this.state) };
    this._watchers.add(watcher);
    return () => this._watchers.delete(watcher);
  }

  _set(changes) {
    Object.assign(this.state, changes);
    this._notify();
  }

  _tell() {
    for (const watcher of [...this._watchers]) {
      const value = watcher.selector(this.state);
      if (value === watcher.last || !this._watchers.has(watcher)) continue;
      watcher.last = value;
      watcher.listener(value);
    }
    this._changedCards = [];
  }

  async loadSession() {
    const session = await this._api.get("/session");
    if (session.server_time) setServerTime(session.server_time);
    this._set({ session });
    return session;
  }

  connect() {
    openFeed({
      onHello: (hello) => this._hello(hello),
      onChanges: (swarms) => this._changed(swarms),
      onReload: () => this.reload(),
      onLost: () => this._lost(),
    });
    document.addEventListener("visibilitychange", () => document.hidden || this._catchUp());
  }

  _hello(hello) {
    if (hello.server_time) setServerTime(hello.server_time);
    this._set({ connection: "live" });
    this._askSession();
    this.reload();
  }

  /** The server may be gone, or the session is over. */
  _lost() {
    this._set({ connection: "lost" });
    this._askSession();
  }

  /** Load again whatever is shown: after a connection was lost, or after an action. */
  reload() {
    this._askSwarms();
    this._askInbox();
    if (this.state.swarm) {
      this._isUsageOld = true;
      this._askStatus();
      this._cards?.load();
    }
    // Also without a swarm: some views are about all of them.
    this._remember(this.state.swarm, { tasks: null, kinds: [] }, true);
    this._deliver();
  }

  _changed(swarms) {
    for (const [swarm, change] of Object.entries(swarms)) {
      this._remember(swarm, change, false);
      if (change.kinds.some((kind) => !QUIET_KINDS.has(kind))) this._askInbox();
      if (swarm === this.state.swarm && !document.hidden) this._changedHere(change);
    }
    if (document.hidden) {
      this._isBehind = true;
      return;
    }
    this._askSwarms();
    this._deliver();
  }

  _changedHere(change) {
    this._isUsageOld ||= change.kinds.includes("budget_set");
    this._askStatus();
    if (!this._cards) return;
    this._cards.heardOf(change.last_event_id ?? 0);
    if (change.tasks === null) this._askAllCards();
    else this.refreshCards(change.tasks);
  }

  /** A tab that nobody sees only counts what needs a person; the rest is loaded when it is seen again. */
  _catchUp() {
    if (!this._isBehind) return;
    this._isBehind = false;
    this.reload();
    this._deliver();
  }

  /** A load may have waited for its turn until after the tab was hidden. */
  async _ifSeen(load) {
    if (document.hidden) this._isBehind = true;
    else await load();
  }

  _remember(swarm, change, isReload) {
    const known = this._changes.get(swarm) ?? { swarm, tasks: new Set(), kinds: new Set(), isReload: false };
    if (change.tasks === null) known.tasks = null;
    else if (known.tasks !== null) for (const id of change.tasks) known.tasks.add(id);
    for (const kind of change.kinds) known.kinds.add(kind);
    known.isReload ||= isReload;
    this._changes.set(swarm, known);
  }

  _deliverChanges() {
    const changes = [...this._changes.values()];
    this._changes.clear();
    for (const change of changes) this.onChange(change);
  }

  /** Show another swarm: what is known of the last one is dropped. */
  open(swarm) {
    if (swarm === this.state.swarm) return;
    this._cards?.close();
    this._cards = null;
    this._staleCards.clear();
    this._isUsageOld = true;
    this._set({ swarm, status: null, usage: null, cards: noCards() });
    if (swarm) this._askStatus();
  }

  /** For views that show cards: from now on, those of this swarm are loaded and kept up to date. */
  needCards() {
    if (this._cards || !this.state.swarm) return;
    const cards = new Cards(this._api, this.state.swarm, (ids) => this._cardsChanged(cards, ids));
    this._cards = cards;
    cards.load();
  }

  refreshCards(ids) {
    for (const id of ids) this._staleCards.add(id);
    if (this._staleCards.size) this._askCards();
  }

  async _loadAllCards() {
    await this._cards?.load();
  }

  async _refreshCards() {
    const ids = [...this._staleCards];
    this._staleCards.clear();
    await this._cards?.refresh(ids);
  }

  _cardsChanged(cards, ids) {
    if (cards !== this._cards) return;
    // Several batches may come in one frame.
    if (ids === null || this._changedCards === null) this._changedCards = null;
    else this._changedCards.push(...ids);
    const { byId, isComplete, isCut, error } = cards;
    this._set({ cards: { byId, isComplete, isCut, changed: this._changedCards, error } });
    if (error?.isTemporary) this._retryCards();
  }

  _retryCards() {
    this._retryTimer ??= setTimeout(() => {
      this._retryTimer = null;
      this._askCards();
    }, RETRY_CARDS_MS);
  }

  async _loadStatus() {
    const swarm = this.state.swarm;
    if (!swarm) return;
    const [status, usage] = await Promise.all([
      this._api.get(`/swarm/${encodeURIComponent(swarm)}/status?shared=true`).catch((error) => (error.isUnreachable ? this.state.status : { error })),
      this._isUsageOld ? this._loadUsage(swarm) : this.state.usage,
    ]);
    if (swarm === this.state.swarm) this._set({ status, usage });
  }

  /** The budget; what is spent is part of the status. */
  async _loadUsage(swarm) {
    this._isUsageOld = false;
    try {
      return await this._api.post("show_usage", { swarm_id: swarm, limit: 1 });
    } catch {
      this._isUsageOld = true;
      return null;
    }
  }

  /** `shared`: what all pages get that have heard of the same changes. */
  async _loadInbox({ shared }) {
    try {
      const inbox = await this._api.post("list_inbox", { shared });
      this._set({ inbox: { items: inbox.items ?? [], total: inbox.total ?? 0, error: null, isLoaded: true } });
    } catch (error) {
      this._set({ inbox: { ...this.state.inbox, error } });
    }
  }

  async _loadSwarms() {
    try {
      const { swarms } = await this._api.get(`/swarms?limit=${SWARMS_LISTED}`);
      this._set({ swarms, hasSwarms: true });
    } catch (error) {
      if (!error.isUnreachable) this._set({ hasSwarms: true });
    }
  }

  async firstSwarms() {
    await this._loadSwarms();
    return this.state.swarms;
  }

  /** After an action: its effect is shown when the server says so. */
  async refreshAfterAction(ids = []) {
    this._isUsageOld = true;
    this._askStatus();
    this._cards?.heardOf(null);
    this.refreshCards(ids);
    await this._loadInbox({ shared: false });
  }
}

function noCards() {
  return { byId: new Map(), isComplete: false, isCut: false, changed: null, error: null };
}

/** The swarm that somebody most likely wants to see: the newest that is not over. */
export function currentSwarm(swarms) {
  const isLive = (swarm) => !["complete", "failed"].includes(swarm.status) && !swarm.completed_at;
  const byUpdate = [...swarms].sort((a, b) => millis(b.last_update) - millis(a.last_update));
  return (byUpdate.find((swarm) => isLive(swarm) && swarm.bus?.total) ?? byUpdate.find(isLive) ?? null)?.swarm_id ?? null;
}
