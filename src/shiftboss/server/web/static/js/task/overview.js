// The first tab of a task: what it asks, why its claim was refused, and what happened so far.

import { empty, foreign, h } from "../dom.js";
import { EventHistory } from "../events/history.js";
import { milestoneOf, shortCommit, when } from "../format.js";
import { createItem, updateItem } from "../inbox/item.js";
import { keyOf } from "../inbox/kinds.js";
import { link, taskLink } from "../router.js";
import { attemptsOf } from "./attempts.js";
import { isLive } from "./facts.js";
import { facts as factList, problem, section, show } from "./section.js";
import { timeline } from "./timeline.js";

// Each round reads up to 200 events of the task.
const HISTORY_ROUNDS_MAX = 5;
// What is answered here; the buttons at the top do the rest.
const ANSWERED = new Set(["question", "permission", "dispute", "scope", "escalation"]);
const REASONS = new Set(["question", "dispute", "scope_request"]);

const asksOf = (facts) => facts.needs.filter((item) => ANSWERED.has(item.kind));
/** The reasons that need no notice, because the overview has a form for them. */
export const answeredReasons = (facts) => (asksOf(facts).length ? REASONS : new Set());

/** `{element, update(facts)}`; `verdict` is the panel of the newest claim. */
export function overviewPanel({ api, swarm, id, ctx, verdict }) {
  const asks = h("div.requests");
  const refusal = h("div.refusal", { hidden: true });
  const history = h("section.section");
  const about = h("section.section");
  const element = h("div.overview", null, h("div.overview-main", null, asks, refusal, history), h("aside.overview-side", null, about));
  const elements = new Map();
  const past = new EventHistory(api, swarm, { bead_id: id }, () => {});
  let isRead = false;
  let newest = null;

  async function update(facts) {
    newest = facts;
    showAsks(asksOf(facts));
    showRefusal(facts);
    show(about, aboutFacts(facts), () => section("About", aboutList(facts, swarm)));
    await readHistory();
    showHistory(newest);
  }

  // Each keeps its form, with what was typed into it, as long as it is open.
  function showAsks(items) {
    const keys = new Set(items.map(keyOf));
    for (const [key, element] of elements) {
      if (keys.has(key)) continue;
      element.remove();
      elements.delete(key);
    }
    for (const item of items) {
      const element = elements.get(keyOf(item));
      if (element) updateItem(element, item);
      else asks.append(elements.set(keyOf(item), createItem(item, ctx)).get(keyOf(item)));
    }
  }

  function showRefusal({ claims, task }) {
    const isRefused = claims[0]?.state === "refused" && !["done", "cancelled"].includes(task.status);
    refusal.hidden = !isRefused;
    if (!isRefused) return;
    if (!refusal.firstChild) refusal.append(verdict.element);
    verdict.update({ claims: claims.slice(0, 1), task }, { rest: [], query: {} });
  }

  /** Back to the event that added the task, in a run of any length; later on only what is new. */
  async function readHistory() {
    await past.newer();
    for (let round = 1; !isRead && hasOlder() && !past.error && round < HISTORY_ROUNDS_MAX; round += 1) await past.older();
    isRead ||= past.isLoaded && !past.error;
  }

  const hasOlder = () => past.hasMore && !past.events.some(({ kind }) => kind === "task_added");

  function showHistory(facts) {
    const { events, error, isClosed } = past;
    if (isClosed) return;
    if (error && !events.length) show(history, error.message, () => section("Attempts", problem(error)));
    else show(history, [events, hasOlder()], () => section("Attempts", attemptsElement(events, facts), hasOlder() && olderNote()));
  }

  function attemptsElement(events, facts) {
    if (events.length) return timeline(attemptsOf([...events].reverse()), swarm, isLive(facts));
    return hasOlder() ? null : noHistory();
  }

  const olderNote = () => h("p.quiet", null, "What happened earlier is not listed here: ", h("a", { href: taskLink(swarm, id, "events") }, "all events of this task"));

  return { element, update, close: () => past.close() };
}

const noHistory = () => empty("Nothing has happened yet", "Attempts, claims and verdicts of this task are listed here.");

const aboutFacts = ({ task, card }) => [task.description, task.depends_on, task.landed_commit, task.receipt_id, task.last_error, task.review, card?.step, card && milestoneOf(card), task.created_at];

function aboutList({ task, card }, swarm) {
  return [
    task.description && foreign("p.prose", null, task.description),
    factList([
      ["Step", card?.step && foreign("span", null, card.step)],
      ["Milestone", card && milestoneOf(card)],
      ["Depends on", task.depends_on.length > 0 && task.depends_on.map((other) => [h("a", { href: taskLink(swarm, other) }, other), " "])],
      ["Last error", task.last_error && foreign("span.tone-red", null, task.last_error)],
      ["Review", task.review && reviewText(task.review)],
      ["Landed", task.landed_commit && h("code", null, shortCommit(task.landed_commit))],
      ["Receipt", task.receipt_id && h("a.mono", { href: link("s", swarm, "receipt", task.receipt_id) }, task.receipt_id)],
      ["Added", when(task.created_at)],
    ]),
  ];
}

function reviewText(review) {
  const who = review.decided_by ? ` by ${review.decided_by}` : "";
  return [`${review.state}${who}`, review.reason && foreign("span", null, `: ${review.reason}`)];
}
