// Workers: who does what, until when the lease holds, how full the context is, what it has cost.

import { allowed, resetWorker } from "../actions.js";
import { empty, foreign, h, meter, setMeter, setText, toggleAttribute } from "../dom.js";
import { compact, dollars, duration, milestoneOf, now, percent, plural, setServerTime, toneOfContext } from "../format.js";
import { icon } from "../icons.js";
import { VirtualList } from "../list.js";
import { taskLink } from "../router.js";
import { oneAtATime } from "../schedule.js";
import { errorNotice } from "../shell/errors.js";
import { perform } from "../shell/perform.js";

const PAUSE_MS = 1000;
const HEARTBEATS_MS = 10_000;
const LEASE_TICK_MS = 1000;
const ROW = 48;
const SMALL_ROW = 96;
const ORDER = { executing: 0, pending: 1, polling: 2, idle: 3 };
const BY_STATE = { blocked: ["needs_you", "red", "Blocked"], verifying: ["verifying", "plain", "Verifying"], self_review: ["verifying", "plain", "Verifying"] };
const LOOKS = {
  executing: ["running", "plain", "At work"], pending: ["waiting", "plain", "Starting"], polling: ["clock", "quiet", "Waits for work"], idle: ["paused", "quiet", "Idle"],
};

export const view = {
  name: "workers",
  title: "Workers",
  keys: [{ key: "x", label: "Reset the selected worker", run: (mounted) => mounted.reset() }],
  mount: (root, ctx) => new Workers(root, ctx),
};

class Workers {
  constructor(root, ctx) {
    this._ctx = ctx;
    this._swarm = ctx.route.swarm;
    this._count = h("p");
    this._notes = h("div");
    this._scroller = h("div.rows");
    this._head = h("div.row.row-head.workers-row", { "aria-hidden": "true" }, ["Worker", "State", "Task", "Doing", "Context", "Cost", "Lease"].map((name) => h("span", null, name)));
    root.append(h("div.page.fill", null, h("div.page-head", null, h("h1", null, "Workers"), this._count), this._notes, this._head, this._scroller));
    this._media = matchMedia("(max-width: 719px)");
    this._list = new VirtualList(this._scroller, {
      label: "Workers", target: ".row-name", key: (worker) => worker.name, height: () => (this._media.matches ? SMALL_ROW : ROW),
      create: (worker) => createRow(worker, this._swarm), update: (element, worker) => updateRow(element, worker, this._swarm),
    });
    this._load = oneAtATime(() => this._fetch(), PAUSE_MS);
    this._timers = [
      setInterval(() => document.hidden || this._load(), HEARTBEATS_MS),
      setInterval(() => document.hidden || tickLeases(this._scroller), LEASE_TICK_MS),
    ];
    this._load();
  }

  unmount() {
    this._timers.forEach(clearInterval);
    this._list.close();
  }

  update() {
    this._load();
  }

  async _fetch() {
    try {
      const workers = await allWorkers(this._ctx.api, this._swarm);
      workers.sort((a, b) => (ORDER[a.status] ?? 4) - (ORDER[b.status] ?? 4) || a.name.localeCompare(b.name, "en", { numeric: true }));
      this._show(workers);
    } catch (error) {
      this._notes.replaceChildren(errorNotice("The workers could not be loaded", error));
    }
  }

  _show(workers) {
    const busy = workers.filter((worker) => worker.task).length;
    setText(this._count, workers.length ? `${busy} of ${plural(workers.length, "worker")} at work` : "");
    this._head.hidden = this._scroller.hidden = workers.length === 0;
    this._notes.replaceChildren(...(workers.length ? [] : [empty("No workers yet", "A run starts one for each agent; others register through the bus or MCP.", "shiftboss run plan.yaml")]));
    this._list.setItems(workers);
  }

  select(delta) {
    this._list.move(delta);
  }

  async reset() {
    const worker = this._list.items[this._list.focusedIndex];
    if (!worker) return;
    const [each] = allowed([resetWorker(this._swarm, worker.name)], this._ctx.store.state.session);
    if (each) await perform(each, this._ctx, { ids: worker.task ? [worker.task] : [] });
  }
}

async function allWorkers(api, swarm) {
  const workers = [];
  let after = "";
  do {
    const page = await api.post("list_workers", { swarm_id: swarm, ...(after && { after }) });
    if (page.server_time) setServerTime(page.server_time);
    workers.push(...page.workers);
    after = page.next_after;
  } while (after && workers.length < 10_000);
  return workers;
}

function createRow(worker, swarm) {
  const parts = {
    name: foreign("span.one-line.row-name", { tabindex: "0" }, worker.name), agent: foreign("span.quiet.one-line", null, ""),
    state: h("span.state"), task: foreign("a.one-line", null, ""), idle: h("span.quiet"),
    doing: h("span.quiet.one-line"), step: foreign("span.mono.one-line", null, ""),
    context: meter("Context"), contextText: h("span.number.quiet"),
    cost: h("span.number"), tokens: h("span.number.quiet"), lease: h("span.number"),
  };
  const element = h(
    "div.row.workers-row", null,
    h("div.two-lines", null, parts.name, parts.agent), parts.state, h("div.one-line", null, parts.task, parts.idle),
    h("div.two-lines", null, parts.doing, parts.step), h("div.context", null, parts.context, parts.contextText),
    h("div.two-lines", null, parts.cost, parts.tokens), parts.lease);
  element.parts = parts;
  updateRow(element, worker, swarm);
  return element;
}

function updateRow(element, worker, swarm) {
  const { parts } = element;
  const [shape, tone, word] = BY_STATE[worker.state] ?? LOOKS[worker.status] ?? ["waiting", "quiet", worker.status];
  setText(parts.agent, [worker.agent, worker.model].filter(Boolean).join(" · "));
  if (parts.state.dataset.word !== word) {
    parts.state.dataset.word = word;
    parts.state.className = `state tone-${tone}`;
    parts.state.replaceChildren(icon(shape), h("span", null, word));
  }
  parts.task.hidden = !worker.task;
  if (worker.task) parts.task.setAttribute("href", taskLink(swarm, worker.task));
  setText(parts.task, worker.title || worker.task);
  setText(parts.idle, worker.task ? "" : `for ${duration((worker.idle_seconds ?? 0) * 1000)}`);
  setText(parts.doing, milestoneOf(worker));
  setText(parts.step, worker.step ?? "");
  parts.context.hidden = worker.context_usage == null;
  if (worker.context_usage != null) setMeter(parts.context, worker.context_usage, `Context ${percent(worker.context_usage)} full`, toneOfContext(worker.context_usage));
  setText(parts.contextText, worker.context_usage == null ? "" : percent(worker.context_usage));
  setText(parts.cost, worker.dollars ? dollars(worker.dollars) : "");
  setText(parts.tokens, worker.tokens ? `${compact(worker.tokens)} tokens` : "");
  toggleAttribute(parts.lease, "data-until", worker.lease_expires_at != null, String(worker.lease_expires_at));
  setLease(parts.lease);
}

function setLease(element) {
  const until = Number(element.dataset.until);
  if (!until) return setText(element, "");
  const left = until - now();
  toggleAttribute(element, "data-late", left < 0);
  return setText(element, left < 0 ? "expired" : `${duration(left)} left`);
}

function tickLeases(root) {
  for (const element of root.querySelectorAll("[data-until]")) setLease(element);
}
