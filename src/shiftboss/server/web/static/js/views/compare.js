// Two runs side by side.

import { empty, h, replace } from "../dom.js";
import { link } from "../router.js";
import { pairs, runFacts } from "../compare/run_facts.js";
import { tasksTable, totalsTable } from "../compare/tables.js";

export const view = {
  name: "compare",
  title: "Compare runs",
  mount(root, ctx) {
    return new CompareView(root, ctx);
  },
};

class CompareView {
  constructor(root, { api, store, route, navigate }) {
    this._api = api;
    this._store = store;
    this._navigate = navigate;
    this._left = h("select.field", { "aria-label": "First run", onchange: () => this._choose() });
    this._right = h("select.field", { "aria-label": "Second run", onchange: () => this._choose() });
    this._body = h("div");
    root.append(h("div.page", null,
      h("header.page-head", null, h("h1", null, "Compare runs")),
      h("div.compare-pick", null, this._left, h("span.quiet", null, "with"), this._right), this._body));
    this._unsubscribe = store.subscribe((state) => state.swarms, () => this._showChoices());
    this.navigate(route);
  }

  navigate(route) {
    this._route = route;
    this._showChoices();
    this._load();
  }

  _choices() {
    const { a, b } = this._route.query;
    return [...new Set([a, b, ...this._store.state.swarms.map((swarm) => swarm.swarm_id)])].filter(Boolean);
  }

  _showChoices() {
    const ids = this._choices();
    const { a = "", b = "" } = this._route.query;
    for (const [select, chosen] of [[this._left, a], [this._right, b]]) {
      select.replaceChildren(h("option", { value: "" }, "Choose a run"), ...ids.map((id) => h("option", { value: id }, id)));
      select.value = chosen;
    }
  }

  _choose() {
    const query = new URLSearchParams({ a: this._left.value, b: this._right.value });
    this._navigate(`${link("runs", "compare")}?${query}`, { replace: true });
  }

  async _load() {
    this._abort?.abort();
    this._abort = new AbortController();
    const { signal } = this._abort;
    const { a, b } = this._route.query;
    if (!a || !b) return replace(this._body, empty("Choose two runs", "Their duration, cost, tokens, refusals and retries are shown side by side, and then task by task.", "shiftboss swarm list"));
    this._body.setAttribute("aria-busy", "true");
    try {
      const [left, right] = await Promise.all([runFacts(this._api, a, signal), runFacts(this._api, b, signal)]);
      replace(this._body, [left, right].filter((run) => run.isCut).map(cutNote), h("section.section", null, totalsTable(left, right)), h("section.section", null, h("h2", null, "Task by task"), tasksTable(pairs(left, right), left, right)));
    } catch (error) {
      if (!signal.aborted) replace(this._body, empty(error.message, error.hint, "shiftboss swarm list"));
    }
    this._body.removeAttribute("aria-busy");
    return undefined;
  }

  unmount() {
    this._unsubscribe();
    this._abort?.abort();
  }
}

function cutNote(run) {
  return h("p.notice", null, h("code", null, run.swarm), " is too long to be read as a whole: its refused claims, further attempts and times are not complete.");
}
