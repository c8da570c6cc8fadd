// What the agent of a task says and does, followed while it works. The list stays at its end, unless the reader
// scrolls up.

import { command, empty, foreign, h, setText } from "../dom.js";
import { clock, duration, fullTime, now, plural } from "../format.js";

const FOLLOW_MS = 1000;
const PAGE = 500;
// The browser lays out only the blocks in sight (`content-visibility`), so a block is what comes and goes.
const BLOCK = 200;
const LINES_MAX = 10_000;
const NEAR_END_PX = 40;

const WORDS = { tool: "tool", denied: "denied", limit: "limit", error: "error", finished: "finished", stderr: "stderr" };

/** `{element, update(facts), close()}`; `read({epoch, after, limit})` asks for lines. */
export function logPanel({ read, swarm, id }) {
  const attempts = h("div.log-attempts");
  const lines = h("div.log", { role: "log", tabindex: "0", "aria-label": "Output of the agent" });
  const state = h("p.log-state.quiet", { role: "status" });
  const jump = h("button.button.log-jump", { type: "button", hidden: true, onclick: () => follow() }, "Jump to the end");
  const element = h("div.log-panel", null, h("div.log-top", null, attempts, state), h("div.log-frame", null, lines, jump));
  // `epoch` is the attempt that the reader chose, `shown` the one that is shown.
  const log = { epoch: null, shown: null, next: null, count: 0, dropped: 0, isFollowing: true, timer: null, number: 0, isReading: false, isFailed: false, isClosed: false };

  lines.addEventListener("scroll", () => {
    log.isFollowing = lines.scrollHeight - lines.scrollTop - lines.clientHeight < NEAR_END_PX;
    jump.hidden = log.isFollowing;
  }, { passive: true });

  function follow() {
    log.isFollowing = true;
    jump.hidden = true;
    lines.scrollTop = lines.scrollHeight;
  }

  function choose(epoch) {
    Object.assign(log, { epoch, next: null, count: 0, dropped: 0, isFollowing: true });
    lines.replaceChildren();
    more();
  }

  async function more() {
    clearTimeout(log.timer);
    log.timer = null;
    log.isReading = true;
    log.isFailed = false;
    const turn = (log.number += 1);
    let page;
    try {
      page = await read({ ...(log.epoch && { epoch: log.epoch }), ...(log.next && { after: log.next }), limit: PAGE });
    } catch (error) {
      if (turn === log.number && !log.isClosed) failed(error);
      return;
    }
    if (turn !== log.number || log.isClosed) return;
    log.isReading = false;
    showPage(page);
    const isMore = page.more;
    if (isMore) log.timer = setTimeout(more, 0);
    else if (page.live) log.timer = setTimeout(whenSeen, FOLLOW_MS);
  }

  // Nobody reads a hidden tab.
  function whenSeen() {
    if (!document.hidden) more();
    else document.addEventListener("visibilitychange", whenSeen, { once: true });
  }

  function showPage(page) {
    log.next = page.next ?? log.next;
    log.shown = page.epoch ?? log.shown;
    showAttempts(page);
    if (!page.available) {
      lines.replaceChildren(empty("No output here", page.reason ?? "The output of the agent is not on this machine.", page.command));
      setText(state, "");
      return;
    }
    // Why there was nothing yet.
    if (!log.count) lines.replaceChildren();
    addLines(page.lines ?? []);
    const kept = log.dropped ? `, the last ${LINES_MAX} are shown` : "";
    setText(state, log.count ? `${plural(log.count, "line")}${kept}${page.live ? ", following" : ""}` : page.live ? "No output yet; new lines appear here." : "The agent printed nothing.");
    if (log.isFollowing) lines.scrollTop = lines.scrollHeight;
  }

  function addLines(added) {
    for (const line of added) {
      if (log.count % BLOCK === 0) lines.append(h("div.log-block"));
      lines.lastElementChild.append(lineElement(line));
      log.count += 1;
    }
    while (log.count - log.dropped > LINES_MAX) {
      lines.firstElementChild.remove();
      log.dropped += BLOCK;
    }
  }

  function showAttempts({ attempts: list = [], epoch }) {
    if (list.length < 2) return attempts.replaceChildren();
    const options = list.map((attempt) => h("option", { value: String(attempt.epoch) }, attemptName(attempt)));
    const select = h("select.field", { "aria-label": "Attempt", onchange: (event) => choose(Number(event.target.value)) }, options);
    select.value = String(epoch);
    if (attempts.firstChild?.value !== select.value || attempts.firstChild?.length !== list.length) attempts.replaceChildren(select);
    return undefined;
  }

  function failed(error) {
    log.isReading = false;
    log.isFailed = true;
    if (log.count) setText(state, `${error.message}. ${error.hint ?? ""}`);
    else lines.replaceChildren(h("div.empty", null, h("h2", null, "The output cannot be read"), h("p", null, error.message), command(`shiftboss logs ${id} --swarm ${swarm}`)));
  }

  function close() {
    log.isClosed = true;
    clearTimeout(log.timer);
    document.removeEventListener("visibilitychange", whenSeen);
  }

  function update({ task }) {
    const isNothingShown = log.shown === null && log.timer === null && !log.isReading;
    if (log.isFailed || isNothingShown) more();
    else if (log.epoch === null && log.shown !== null && task.epoch > log.shown) choose(null);
    else if (log.timer === null && task.status === "active" && log.shown !== null) log.timer = setTimeout(more, FOLLOW_MS);
  }

  more();
  return { element, close, update };
}

function attemptName({ epoch, agent, started_at: started, ended_at: ended }) {
  const span = started ? `, ${duration((ended ?? now()) - started)}` : "";
  return `Attempt ${epoch}${agent ? `, ${agent}` : ""}${span}`;
}

function lineElement({ at, kind, text }) {
  return h("div.log-line", { class: `log-${kind}` },
    h("span.log-time", { title: at ? fullTime(at) : null }, at ? clock(at, { seconds: true }) : ""),
    h("span.log-kind", null, WORDS[kind] ?? ""),
    foreign("span.log-text", null, text));
}
