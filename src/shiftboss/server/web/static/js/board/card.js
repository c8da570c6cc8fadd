// A card: what it is, who works on it, where it stands and why, what it has cost. Its height depends on its
// column alone, so that nothing moves while it changes.

import { foreign, h, meter, setAge, setMeter, setText, toggleAttribute } from "../dom.js";
import { clean, dollars, firstLine, milestoneOf, percent, sentence, toneOfContext } from "../format.js";
import { icon } from "../icons.js";
import { lookOf } from "../columns.js";
import { inboxLink, taskLink } from "../router.js";

const SHORT = 84;
const HEIGHTS = { needs_you: 144, failed: 128, running: 108, verifying: 108, waiting: SHORT, accepted: SHORT, done: 36 };

const WAYS_OUT = { question: "Answer", dispute: "Answer", review: "Review" };
const AT_WORK = ["running", "verifying"];
const CI_WORDS = { pending: ["clock", "CI running", ""], passed: ["check", "CI passed", "green"], failed: ["cross", "CI failed", "red"], unreachable: ["cross", "CI unreachable", "amber"] };

/** The height of the row of a card, with the space below it. */
export function cardHeight(card) {
  return HEIGHTS[card.column] ?? SHORT;
}

export function createCard(card, swarm) {
  const parts = {
    mark: h("span.card-mark"),
    link: foreign("a.card-link", { href: taskLink(swarm, card.bead_id) }, ""),
    word: h("span.visually-hidden"),
    line: foreign("p.card-line", null, ""),
    ci: h("span.tag"),
    worker: { start: foreign("span.one-line", null, ""), end: h("span") },
    attempt: h("span.quiet"),
    progress: h("span.card-progress.number"),
    context: meter("Context"),
    cost: h("span.card-cost.number"),
    age: h("time.number"),
    answer: h("a.card-answer", { href: inboxLink(swarm, card.bead_id) }, ""),
  };
  const element = h(
    "article.card", null,
    h("h3.card-title", null, parts.mark, parts.link, parts.word),
    h("div.card-state", null, parts.line, parts.ci),
    h("div.card-meta", null, h("span.card-worker", null, parts.worker.start, parts.worker.end), parts.attempt, parts.progress, h("span.card-gap"), parts.answer, parts.context, parts.cost, parts.age));
  element.parts = parts;
  updateCard(element, card);
  return element;
}

export function updateCard(element, card) {
  const { parts } = element;
  const look = lookOf(card);
  toggleAttribute(element, "data-column", true, card.column);
  setMark(parts.mark, look);
  setText(parts.link, card.title || card.bead_id);
  setText(parts.word, `, ${look.word}`);
  setLine(parts.line, card);
  setCi(parts.ci, card.ci);
  setWorker(parts.worker, workerOf(card));
  setText(parts.attempt, card.attempt > 1 ? `try ${card.attempt}` : "");
  setProgress(parts.progress, card);
  setContext(parts.context, card);
  setText(parts.cost, card.dollars ? dollars(card.dollars) : "");
  setAge(parts.age, timeOf(card));
  parts.answer.hidden = card.column !== "needs_you";
  setText(parts.answer, WAYS_OUT[card.reason_kind] ?? "Decide");
}

function setMark(element, look) {
  if (element.dataset.icon === look.icon) return;
  element.dataset.icon = look.icon;
  element.className = `card-mark tone-${look.tone}`;
  element.replaceChildren(icon(look.icon));
}

/** Why it is where it is; of a task at work, the last line of its output. */
function setLine(element, card) {
  const isStep = AT_WORK.includes(card.column) && Boolean(card.step);
  const text = isStep ? card.step : card.reason || card.last_error || card.step || "";
  toggleAttribute(element, "data-step", isStep);
  const line = isStep ? firstLine(text) : sentence(firstLine(text), [card.worker, card.bead_id]);
  setText(element, line);
  toggleAttribute(element, "title", line !== "", line);
}

function setCi(element, state) {
  element.hidden = !CI_WORDS[state];
  if (element.hidden || element.dataset.state === state) return;
  const [shape, words, tone] = CI_WORDS[state];
  element.dataset.state = state;
  element.className = `tag ${tone}`.trim();
  element.replaceChildren(icon(shape), document.createTextNode(words));
}

/** `2/3 files`; the milestone that it belongs to is shown on demand. */
function setProgress(element, card) {
  setText(element, AT_WORK.includes(card.column) ? card.progress ?? "" : "");
  toggleAttribute(element, "title", Boolean(card.milestone), milestoneOf(card));
}

/** What does not fit is left out before the number, which tells the workers of a run apart. */
function setWorker({ start, end }, name) {
  const number = /[-_.][0-9]{1,4}$/.exec(name)?.[0] ?? "";
  setText(start, name.slice(0, name.length - number.length));
  setText(end, number);
  toggleAttribute(start.parentElement, "title", true, clean(name));
}

function setContext(element, card) {
  const usage = card.context_usage;
  element.hidden = usage == null || !AT_WORK.includes(card.column);
  if (!element.hidden) {
    const words = `Context ${percent(usage)} full`;
    setMeter(element, usage, words, toneOfContext(usage));
    element.title = words;
  }
}

function workerOf(card) {
  const agent = card.agent ?? card.model;
  if (card.worker && agent && !card.worker.includes(agent)) return `${agent} · ${card.worker}`;
  return card.worker || agent || card.repo || card.bead_id;
}

function timeOf(card) {
  if (["done", "accepted", "failed"].includes(card.column)) return card.ended_at ?? card.updated_at;
  return card.started_at ?? card.created_at;
}
