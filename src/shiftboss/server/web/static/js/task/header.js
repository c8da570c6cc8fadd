// The head of the page of a task: what it is, where it stands and why, and what can be done.

import { ageOf, command, foreign, h, meter, setMeter } from "../dom.js";
import { icon } from "../icons.js";
import { lookOf } from "../columns.js";
import { compact, dollars, duration, percent, sentence, toneOfContext } from "../format.js";
import { link, taskLink } from "../router.js";
import { show } from "./section.js";
import { actionRow } from "./actions.js";

/** `{element, update(facts)}` */
export function taskHeader(swarm, ctx) {
  const title = h("div.task-title");
  const meta = h("div.task-meta");
  const reasons = h("div.task-reasons", { role: "status" });
  const actions = h("div.task-actions");
  const element = h("header.task-header", null, title, meta, reasons, actions);

  /** `answered`: kinds of reasons that the tab below shows with a form. */
  function update(facts, answered = new Set()) {
    const card = facts.card ?? facts.task;
    show(title, [card.title, card.bead_id], () => titleLine(card, swarm));
    show(meta, metaFacts(card), () => metaLine(card));
    show(reasons, (facts.why.reasons ?? []).filter((reason) => !answered.has(reason.kind)), (list) => (list.length ? reasonList(list, swarm, card) : null));
    show(actions, actionFacts(facts, card), () => actionRow(facts, ctx, swarm));
  }

  return { element, update };
}

function titleLine(card, swarm) {
  return [
    h("p.crumbs", null, h("a", { href: link("s", swarm, "board") }, swarm), h("span", { "aria-hidden": "true" }, " / "), h("bdi.mono", null, card.bead_id)),
    foreign("h1", null, card.title),
  ];
}

// What `actionRow` depends on.
function actionFacts({ task, why, card: known }, card) {
  return [task.status, task.review, task.hold, card.status, card.hold, card.reason_kind, why.reasons, Boolean(known), card.budget_dollars, card.budget_tokens];
}

// What `metaLine` shows, without the times that tick by themselves.
function metaFacts({ column, status, landed_commit, hold, worker, agent, model, attempt, epoch, tokens, dollars: spent, budget_dollars, context_usage, started_at, ended_at, repo, priority, ci }) {
  return [column, status, landed_commit, hold, worker, agent, model, attempt, epoch, tokens, spent, budget_dollars, context_usage, started_at, ended_at, repo, priority, ci];
}

function metaLine(card) {
  const look = lookOf(card);
  return h(
    "ul.meta",
    null,
    [
      h("span.state", { class: `tone-${look.tone}` }, icon(look.icon), h("strong", null, look.word)),
      card.attempt > 0 && `Attempt ${card.epoch ?? card.attempt}`,
      card.worker && h("bdi", null, [card.worker, card.agent, card.model].filter(Boolean).join(" · ")),
      timeOf(card),
      spentOf(card),
      card.context_usage != null && contextOf(card.context_usage),
      card.ci && ciOf(card.ci),
      card.repo && h("bdi.mono", null, card.repo),
      card.priority ? `Priority ${card.priority}` : null,
    ]
      .filter(Boolean)
      .map((part) => h("li", null, part)),
  );
}

function timeOf({ started_at: started, ended_at: ended, created_at: created }) {
  if (started && ended) return ["took ", h("span.number", null, duration(ended - started))];
  if (started) return ["for ", ageOf(started)];
  return created ? ["added ", ageOf(created), " ago"] : null;
}

function spentOf({ tokens, dollars: spent, budget_dollars: limit }) {
  if (!tokens && !spent) return null;
  const money = spent != null && `${dollars(spent)}${limit ? ` of ${dollars(limit)}` : ""}`;
  return h("span.number", null, [money, tokens && `${compact(tokens)} tokens`].filter(Boolean).join(" · "));
}

function contextOf(share) {
  const words = `Context ${percent(share)}`;
  return h("span.meter-line", null, words, setMeter(meter(words), share, words, toneOfContext(share)));
}

const CI = { passed: ["green", "accepted"], failed: ["red", "failed"], pending: ["plain", "verifying"], unreachable: ["amber", "question"] };

function ciOf(state) {
  const [tone, shape] = CI[state] ?? ["plain", "waiting"];
  return h("span.state", { class: `tone-${tone}` }, icon(shape), `CI ${state}`);
}

function reasonList(reasons, swarm, card) {
  const isUrgent = card.column === "needs_you" || card.column === "failed";
  return h("ul.notice", { class: isUrgent ? "amber" : "" }, reasons.slice(0, 5).map((reason) => reasonLine(reason, swarm, card)));
}

function reasonLine(reason, swarm, card) {
  const known = new Set([...(card.waits_for ?? []), ...(card.depends_on ?? [])]);
  return h(
    "li",
    null,
    h("p.foreign", { dir: "auto" }, linked(sentence(reason.text, [card.worker, card.bead_id, ...known]), known, swarm)),
    reason.command && h("div.reason-help", null, command(reason.command)),
  );
}

/** A sentence in which the tasks that it names are links. */
export function linked(text, ids, swarm) {
  return text.split(/([A-Za-z0-9._:-]*[A-Za-z0-9])/).map((word) => (ids.has(word) ? h("a", { href: taskLink(swarm, word) }, word) : word));
}
