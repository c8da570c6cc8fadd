// The page of one task: its head, and one tab at a time.

import { empty, h, toggleAttribute } from "../dom.js";
import { icon } from "../icons.js";
import { taskLink } from "../router.js";
import { oneAtATime } from "../schedule.js";
import { contractElement } from "./contract.js";
import { diffPanel } from "./diff_panel.js";
import { loadFacts } from "./facts.js";
import { taskHeader } from "./header.js";
import { logPanel } from "./log.js";
import { answeredReasons, overviewPanel } from "./overview.js";
import { receiptElement } from "./receipt.js";
import { problem, show } from "./section.js";
import { verdictPanel } from "./verdict.js";

const REFRESH_PAUSE_MS = 400;

const TABS = [
  ["overview", "Overview", []],
  ["log", "Log", ["log"]],
  ["diff", "Diff", ["diff"]],
  ["claim", "Verdict", ["claim"]],
  ["contract", "Contract", ["contract"]],
  ["receipt", "Receipt", ["receipt"]],
  ["events", "Events", ["events"]],
];

export class TaskPage {
  constructor(root, ctx, eventsPanel) {
    this._ctx = ctx;
    this._swarm = ctx.route.swarm;
    this._id = ctx.route.id;
    this._abort = new AbortController();
    this._route = ctx.route;
    this._facts = null;
    this._asked = 0;
    this._shown = 0;
    this._hasActed = false;
    this._panel = null;
    this._diffs = new Map();
    this._eventsPanel = eventsPanel;
    this._header = taskHeader(this._swarm, { ...ctx, act: (...args) => this._act(...args) });
    this._tabs = h("nav.tabs", { "aria-label": "Parts of the task" });
    this._body = h("div.task-body");
    this._page = h("div.page.task-page", { "aria-busy": "true" }, this._header.element, this._tabs, this._body);
    root.append(this._page);
    this._refresh = oneAtATime(() => this._load(), REFRESH_PAUSE_MS);
    this._refresh();
  }

  async _load() {
    const turn = (this._asked += 1);
    const shared = !this._hasActed;
    this._hasActed = false;
    let facts;
    try {
      facts = await loadFacts(this._ctx.api, this._swarm, this._id, this._abort.signal, { shared });
    } catch {
      return; // the page was left
    }
    // Those that were asked for later are shown already.
    if (turn < this._shown) return;
    this._shown = turn;
    this._facts = facts;
    this._page.removeAttribute("aria-busy");
    if (this._facts.task.error) this._noTask(this._facts.task.error);
    else this._show();
  }

  _noTask(error) {
    const text = error.isUnreachable ? "It is shown when the server answers again." : error.hint;
    this._page.replaceChildren(empty(error.message, text, `shiftboss task list --swarm ${this._swarm}`));
  }

  _show() {
    if (!this._header.element.isConnected) this._page.replaceChildren(this._header.element, this._tabs, this._body);
    this._header.update(this._facts, this._tab === "overview" ? answeredReasons(this._facts) : undefined);
    this._showTabs();
    this._showPanel();
  }

  get _tab() {
    const name = this._route.rest[0] ?? "overview";
    return TABS.some(([tab]) => tab === name) ? name : "overview";
  }

  _showTabs() {
    const { claims, task } = this._facts;
    const isShown = { receipt: Boolean(task.receipt_id) };
    show(this._tabs, [isShown, claims[0]?.state], () =>
      TABS.filter(([name]) => isShown[name] ?? true).map(([name, title, rest]) =>
        h("a", { href: taskLink(this._swarm, this._id, ...rest), dataset: { tab: name } }, title, name === "claim" && verdictMark(claims[0]))));
    for (const tab of this._tabs.children) toggleAttribute(tab, "aria-current", tab.dataset.tab === this._tab, "page");
  }

  _showPanel() {
    if (this._panel?.name !== this._tab) {
      this._panel?.close?.();
      this._panel = { name: this._tab, ...this._makePanel(this._tab) };
      this._body.replaceChildren(this._panel.element);
    }
    this._panel.update?.(this._facts, this._route);
  }

  _makePanel(name) {
    const ctx = { ...this._ctx, act: (...args) => this._act(...args) };
    const shared = { api: ctx.api, swarm: this._swarm, id: this._id, ctx, diffOf: (claim) => this._diff(claim.claim_id).catch(() => null) };
    switch (name) {
      case "log": return logPanel({ ...shared, read: (body) => this._post("read_log", body) });
      case "diff": return diffPanel({ ...shared, load: (claim) => this._diff(claim) });
      case "claim": return verdictPanel(shared);
      case "contract": return this._loaded("show_handoff", {}, (view) => contractElement(view, this._facts.task), noContract);
      case "receipt": return this._loaded("show_receipt", {}, receiptElement);
      case "events": return this._eventsPanel(shared);
      default: return overviewPanel({ ...shared, verdict: verdictPanel(shared) });
    }
  }

  /** A panel that shows one answer of the server. */
  _loaded(name, body, build, onMissing = problem) {
    const element = h("div");
    const load = async () => {
      try {
        const answer = await this._post(name, body);
        show(element, answer, build);
      } catch (error) {
        if (error.name !== "AbortError") show(element, error.message, () => onMissing(error, this._swarm));
      }
    };
    return { element, update: load };
  }

  _post(name, body) {
    return this._ctx.api.post(name, { swarm_id: this._swarm, bead_id: this._id, ...body }, { signal: this._abort.signal });
  }

  /** The diff of a claim never changes, so it is asked for once. */
  _diff(claim) {
    if (!claim) return this._post("show_diff", {}).then(withFiles);
    if (!this._diffs.has(claim)) {
      const diff = this._post("show_diff", { claim_id: claim }).then(withFiles);
      diff.catch(() => this._diffs.delete(claim));
      this._diffs.set(claim, diff);
    }
    return this._diffs.get(claim);
  }

  /** Ends when the page shows the effect: until then, the buttons are for what was before. */
  async _act(...args) {
    const answer = await this._ctx.act(...args);
    this._hasActed = true;
    await this._load();
    return answer;
  }

  navigate(route) {
    this._route = route;
    if (this._facts && !this._facts.task.error) this._show();
  }

  update(change) {
    if (change.tasks === null || change.tasks.has(this._id)) this._refresh();
  }

  unmount() {
    this._abort.abort();
    this._panel?.close?.();
  }
}

// Answers leave out lists that are empty.
const withFiles = (diff) => ({ ...diff, files: diff.files ?? [] });

function verdictMark(claim) {
  if (claim?.state === "refused") return h("span.tone-red", null, icon("failed"), h("span.visually-hidden", null, "refused"));
  if (claim?.state === "accepted") return h("span.tone-green", null, icon("accepted"), h("span.visually-hidden", null, "accepted"));
  return null;
}

function noContract(error, swarm) {
  return empty("This task has no contract", `${error.message}. With one, the server checks which files it changes and that its criteria hold.`, `shiftboss handoff spawn --help`);
}
