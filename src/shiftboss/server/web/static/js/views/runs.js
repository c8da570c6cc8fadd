// Runs: every swarm, newest first: how far it came, what it cost, how long it took. Two can be compared.

import { empty, foreign, h, meter, setMeter, setText, toggleAttribute } from "../dom.js";
import { dollars, duration, fullTime, millis, number, plural, when } from "../format.js";
import { icon } from "../icons.js";
import { VirtualList } from "../list.js";
import { link } from "../router.js";
import { summarize } from "../summary.js";
import { oneAtATime } from "../schedule.js";
import { errorNotice } from "../shell/errors.js";

const PAGE = 100;
const KEPT_MAX = 5000;
const PAUSE_MS = 2000;
const ROW = 56;
const SMALL_ROW = 88;
const LOOKS = {
  running: ["running", "plain", "Running"], created: ["waiting", "quiet", "Not started"], waiting: ["paused", "amber", "Waiting"],
  failed: ["failed", "red", "Failed"], complete: ["done", "green", "Complete"],
};

export const view = {
  name: "runs",
  title: "Runs",
  keys: [{ key: "x", label: "Choose a run to compare", run: (mounted) => mounted.choose() }, { key: "c", label: "Compare the two chosen runs", run: (mounted) => mounted.compare() }],
  mount: (root, ctx) => new Runs(root, ctx),
};

class Runs {
  constructor(root, ctx) {
    this._ctx = ctx;
    this._chosen = new Set();
    this._older = [];
    this._before = undefined;
    this._count = h("p");
    this._notes = h("div");
    this._scroller = h("div.rows");
    this._head = h("div.row.row-head.runs-row", { "aria-hidden": "true" }, ["", "Run", "State", "Progress", "Cost", "Took", "Started"].map((name) => h("span", null, name)));
    this._compareButton = h("button.button.primary", { type: "button", disabled: true, onclick: () => this.compare() }, "Compare");
    this._compareText = h("span.quiet", { role: "status" }, "Choose two runs to compare them.");
    this._foot = h("div.runs-foot", null, this._compareText, this._compareButton);
    root.append(h("div.page.fill", null, h("div.page-head", null, h("h1", null, "Runs"), this._count), this._notes, this._head, this._scroller, this._foot));
    this._media = matchMedia("(max-width: 719px)");
    this._list = new VirtualList(this._scroller, {
      label: "Runs", target: ".row-name", key: (run) => run.swarm_id, height: () => (this._media.matches ? SMALL_ROW : ROW),
      create: (run) => this._createRow(run), update: (element, run) => this._updateRow(element, run),
    });
    this._loadOlder = oneAtATime(() => this._fetchOlder(), 100);
    this._loadNewest = oneAtATime(() => this._fetchNewest(), PAUSE_MS);
    this._scroller.addEventListener("scroll", () => this._nearEnd() && this._loadOlder(), { passive: true });
    this._newest = [];
    this._loadNewest();
  }

  unmount() {
    this._list.close();
  }

  update() {
    this._loadNewest();
  }

  _nearEnd() {
    return this._scroller.scrollTop + this._scroller.clientHeight > this._scroller.scrollHeight - 600;
  }

  async _fetchNewest() {
    try {
      const page = await this._ctx.api.get(`/swarms?limit=${PAGE}`);
      this._newest = page.swarms;
      if (this._before === undefined) this._before = page.next_before ?? null;
      this._show();
    } catch (error) {
      this._notes.replaceChildren(errorNotice("The runs could not be loaded", error));
    }
  }

  async _fetchOlder() {
    if (!this._before || this._older.length >= KEPT_MAX) return;
    try {
      const page = await this._ctx.api.get(`/swarms?limit=${PAGE}&before=${encodeURIComponent(this._before)}`);
      this._before = page.next_before ?? null;
      this._older.push(...page.swarms);
      this._show();
    } catch (error) {
      // Scrolling asks for them again.
      this._notes.replaceChildren(errorNotice("Older runs could not be loaded", error));
    }
  }

  _show() {
    const known = new Set(this._newest.map((run) => run.swarm_id));
    const runs = [...this._newest, ...this._older.filter((run) => !known.has(run.swarm_id))];
    setText(this._count, runs.length ? `${plural(runs.length, "run")}${this._before ? " and older ones" : ""}` : "");
    this._head.hidden = this._scroller.hidden = this._foot.hidden = runs.length === 0;
    this._notes.replaceChildren(...(runs.length ? [] : [empty("No runs yet", "A run works through a plan. Write one, or see one at work:", "shiftboss demo")]));
    this._list.setItems(runs);
  }

  _createRow(run) {
    const name = run.feature || run.swarm_id;
    const parts = {
      box: h("input.runs-box", { type: "checkbox", "aria-label": `Compare ${name}`, onchange: () => this._toggle(run.swarm_id) }),
      link: foreign("a.row-name.one-line", { href: link("s", run.swarm_id, "board") }, name), id: h("span.mono.quiet.one-line", null, run.feature ? run.swarm_id : ""),
      state: h("span.state"), share: meter("Done"), shareText: h("span.number.quiet"), cost: h("span.number"), took: h("span.number"), started: h("span.number.quiet"),
    };
    const element = h("div.row.runs-row", null, h("label.runs-choose", null, parts.box), h("div.two-lines", null, parts.link, parts.id), parts.state,
      h("div.progress-cell", null, parts.share, parts.shareText), parts.cost, parts.took, parts.started);
    element.parts = parts;
    this._updateRow(element, run);
    return element;
  }

  _updateRow(element, run) {
    const { parts } = element;
    const [shape, tone, word] = LOOKS[run.status] ?? ["waiting", "quiet", run.status];
    if (parts.state.dataset.word !== word) {
      parts.state.dataset.word = word;
      parts.state.className = `state tone-${tone}`;
      parts.state.replaceChildren(icon(shape), h("span", null, word));
    }
    const summary = summarize(run, null);
    setMeter(parts.share, summary.total ? summary.finished / summary.total : 0, summary.total ? `${summary.finished} of ${summary.total} done` : "No tasks yet", "green");
    setText(parts.shareText, summary.total ? `${number(summary.finished)} / ${number(summary.total)}` : "");
    setText(parts.cost, summary.dollars ? dollars(summary.dollars) : "");
    setText(parts.took, duration(summary.elapsed));
    const created = millis(run.created_at);
    setText(parts.started, when(created));
    parts.started.title = fullTime(created);
    parts.box.checked = this._chosen.has(run.swarm_id);
    toggleAttribute(element, "data-chosen", parts.box.checked);
  }

  _toggle(id) {
    if (!this._chosen.delete(id)) this._chosen.add(id);
    // The third one replaces the first.
    if (this._chosen.size > 2) this._chosen.delete(this._chosen.values().next().value);
    this._list.setItems(this._list.items.map((run) => ({ ...run })));
    this._compareButton.disabled = this._chosen.size !== 2;
    setText(this._compareText, ["Choose two runs to compare them.", "Choose one more.", "Two runs chosen."][this._chosen.size]);
  }

  choose() {
    const run = this._list.items[this._list.focusedIndex];
    if (run) this._toggle(run.swarm_id);
  }

  compare() {
    if (this._chosen.size !== 2) return;
    // The older one first: a change is from the one to the other.
    const [b, a] = this._list.items.map((run) => run.swarm_id).filter((id) => this._chosen.has(id));
    this._ctx.navigate(`${link("runs", "compare")}?${new URLSearchParams({ a, b })}`);
  }

  select(delta) {
    this._list.move(delta);
  }
}
