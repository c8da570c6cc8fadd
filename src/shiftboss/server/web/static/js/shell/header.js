// The header: one line that answers "is everything all right?". Numbers change in place.

import { h, replace, setText, toggleAttribute } from "../dom.js";
import { clean, dollars, duration, number } from "../format.js";
import { icon } from "../icons.js";
import { link } from "../router.js";
import { summarize } from "../summary.js";
import { themeButton } from "./theme_button.js";

const STATUS_LOOK = {
  running: ["running", "plain"], created: ["waiting", "quiet"], waiting: ["paused", "amber"],
  failed: ["failed", "red"], complete: ["done", "green"],
};
const TICK_MS = 1000;

export function mountHeader(root, store, { openPalette, openSwitcher }) {
  return new Header(root, store, { openPalette, openSwitcher });
}

class Header {
  constructor(root, store, { openPalette, openSwitcher }) {
    this._store = store;
    this._title = "";
    this._parts = createParts();
    const { name, status, needs, announced } = this._parts;
    const switcher = h("button.switcher", { type: "button", onclick: openSwitcher, "aria-haspopup": "dialog", "aria-label": "Switch run" }, status, name, icon("chevron"));
    this._switcher = switcher;
    this._facts = h("dl.header-facts", { "aria-label": "State of the run" }, factsOf(this._parts));
    const search = h("button.button.ghost.header-search", { type: "button", onclick: openPalette, "aria-label": "Commands", "aria-keyshortcuts": "Control+K Meta+K" }, icon("search"), h("span", null, "Commands"), h("kbd", null, isMac() ? "⌘K" : "Ctrl K"));
    root.append(switcher, this._facts, needs, announced, h("div.header-tools", null, search, themeButton()));
    for (const part of [(state) => state.status, (state) => state.usage, (state) => state.swarm]) store.subscribe(part, () => this._show());
    store.subscribe((state) => state.inbox.total, () => this._showNeeds());
    setInterval(() => document.hidden || this._showTime(), TICK_MS);
    this._show();
    this._showNeeds();
  }

  setTitle(title) {
    this._title = title;
    this._showDocumentTitle();
  }

  _show() {
    const { status, usage, swarm } = this._store.state;
    const isKnown = Boolean(status && !status.error);
    this._facts.hidden = !isKnown;
    setText(this._parts.name, (isKnown && status.feature) || swarm || "All runs");
    toggleAttribute(this._parts.name, "title", Boolean(swarm), swarm ?? "");
    this._summary = isKnown ? summarize(status, usage) : null;
    this._showStatus(isKnown ? status.status : null);
    if (isKnown) this._showFacts(this._summary);
    this._showDocumentTitle();
  }

  _showStatus(word) {
    const { status } = this._parts;
    const [shape, tone] = STATUS_LOOK[word] ?? ["runs", "quiet"];
    if (status.dataset.word === String(word)) return;
    status.dataset.word = String(word);
    status.className = `switcher-status tone-${tone}`;
    replace(status, icon(shape), word && h("span.visually-hidden", null, word));
  }

  _showFacts(summary) {
    const { progressLabel, progress, bar, atWork, money, moneyNote } = this._parts;
    setText(progressLabel, summary.isLanding ? "Landed" : "Done");
    setText(progress, `${number(summary.finished)} / ${number(summary.total)}`);
    showBar(bar, summary);
    setText(atWork, number(summary.atWork));
    setText(money, dollars(summary.dollars));
    setText(moneyNote, moneyNoteOf(summary));
    toggleAttribute(moneyNote, "data-high", summary.budget !== null && summary.dollars >= 0.8 * summary.budget);
    this._showTime();
  }

  _showTime() {
    const { status, usage } = this._store.state;
    if (!this._summary || !status || status.error) return;
    const { elapsed, left, isOver } = summarize(status, usage);
    const { timeLabel, time, timeNote } = this._parts;
    setText(timeLabel, isOver ? "Took" : "Elapsed");
    setText(time, duration(elapsed));
    setText(timeNote, left === null ? "" : `~${duration(left)} left`);
  }

  _showNeeds() {
    const { needs, needsCount, needsWord, announced } = this._parts;
    const { total } = this._store.state.inbox;
    setText(needsCount, number(total));
    setText(needsWord, total === 1 ? "needs you" : "need you");
    setText(announced, total ? `${needsCount.textContent} ${needsWord.textContent}` : "");
    toggleAttribute(needs, "data-none", total === 0);
    this._showDocumentTitle();
    document.getElementById("favicon").href = `/static/favicon${total ? "-needs-you" : ""}.svg`;
  }

  _showDocumentTitle() {
    const { inbox, status, swarm } = this._store.state;
    const count = inbox.total ? `(${inbox.total}) ` : "";
    const name = [this._title, status?.feature || swarm, "Shiftboss"].filter(Boolean).join(" · ");
    const title = clean(`${count}${name}`);
    if (document.title !== title) document.title = title;
  }
}

function createParts() {
  const needsCount = h("strong.number");
  const needsWord = h("span");
  return {
    status: h("span.switcher-status"), name: h("span.switcher-name.one-line.foreign", { dir: "auto" }),
    progressLabel: h("span"), progress: h("span.number"), bar: h("span.progress-bar", { "aria-hidden": "true" }, h("i.finished"), h("i.done"), h("i.failed")),
    atWork: h("span.number"), money: h("span.number"), moneyNote: h("span.fact-note.number"),
    timeLabel: h("span"), time: h("span.number"), timeNote: h("span.fact-note.number"),
    needs: h("a.needs", { href: link("inbox"), "data-none": true }, needsCount, needsWord), needsCount, needsWord,
    // The only number that a screen reader speaks by itself.
    announced: h("p.visually-hidden", { role: "status" }),
  };
}

function factsOf(parts) {
  const fact = (name, label, ...value) => h("div.fact", { dataset: { fact: name } }, h("dt", null, label), h("dd", null, value));
  return [
    fact("progress", parts.progressLabel, parts.progress, parts.bar),
    fact("work", "At work", parts.atWork),
    fact("money", "Spent", parts.money, parts.moneyNote),
    fact("time", parts.timeLabel, parts.time, parts.timeNote),
  ];
}

/** Finished, accepted but not landed, failed: three parts of one bar. */
function showBar(bar, { total, finished, done, failed }) {
  const shares = [finished, Math.max(0, done - finished), failed];
  [...bar.children].forEach((part, index) => part.style.setProperty("flex-grow", String(total ? shares[index] / total : 0)));
}

function moneyNoteOf({ forecast, budget }) {
  if (budget !== null) return `of ${dollars(budget)}`;
  return forecast === null ? "" : `~${dollars(forecast)} in all`;
}

function isMac() {
  return /mac|iphone|ipad/i.test(navigator.userAgentData?.platform ?? navigator.platform);
}
