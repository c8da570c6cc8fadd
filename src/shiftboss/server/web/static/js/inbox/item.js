// One item of the inbox: what is wanted, what is known about it, and what can be done about it right there.

import { exact } from "../code/unseen.js";
import { allowed, inboxActions, mayAct } from "../actions.js";
import { ageOf, command, foreign, h, replace, setText, toggleAttribute } from "../dom.js";
import { clean, compact, dollars, shortCommit } from "../format.js";
import { icon } from "../icons.js";
import { link, taskLink } from "../router.js";
import { perform } from "../shell/perform.js";
import { kindOf } from "./kinds.js";

const TYPED_IN_PLACE = new Set(["answer"]);

export function createItem(item, ctx) {
  const kind = kindOf(item);
  // A long question scrolls, also with the keyboard.
  const text = foreign("p.item-text", { tabindex: "0" }, "");
  const facts = h("div.item-facts");
  const error = h("div.item-error", { role: "alert" });
  const fresh = h("span.tag", { hidden: true }, "New");
  const element = h(
    "article.item", { tabindex: "-1", "aria-label": `${kind.word}: ${item.title || item.bead_id || item.swarm_id}` },
    h("header.item-head", null,
      h("span.state", { class: `tone-${kind.tone}` }, icon(kind.icon), h("span", null, kind.word)),
      titleOf(item),
      item.bead_id && foreign("a.item-run.quiet.one-line", { href: link("s", item.swarm_id, "board") }, item.swarm_id),
      fresh,
      item.worker && foreign("span.quiet.one-line", null, item.worker),
      item.since && ageOf(item.since, { class: "quiet" })),
    text, facts, actionsOf(item, ctx, error), error);
  element.parts = { text, facts, fresh };
  updateItem(element, item);
  return element;
}

export function updateItem(element, item) {
  const { text, facts } = element.parts;
  setText(text, item.text);
  const known = JSON.stringify([item.paths, item.refused_by, item.dispute, item.budget, item.commit, item.tool, item.claim_id]);
  if (facts.dataset.known !== known) {
    facts.dataset.known = known;
    replace(facts, factsOf(item));
  }
}

function titleOf(item) {
  if (!item.bead_id) return h("a.item-title.one-line", { href: link("s", item.swarm_id, "board") }, item.swarm_id);
  return foreign("a.item-title.one-line", { href: taskLink(item.swarm_id, item.bead_id) }, item.title || item.bead_id);
}

function factsOf(item) {
  return [
    item.tool && fact("Tool", h("code", null, exact(item.tool))),
    item.paths?.length && fact("Files", h("ul", null, item.paths.map((path) => h("li", null, h("code", null, exact(path)))))),
    item.refused_by?.length && fact("Refused by", [item.refused_by.join(", "), " ", h("a", { href: taskLink(item.swarm_id, item.bead_id, "claim", item.claim_id) }, "Show verdict")]),
    item.dispute && fact("Says", `${item.dispute.kind}: ${item.dispute.reason}`),
    item.dispute?.evidence && fact("Evidence", h("pre", null, clean(item.dispute.evidence))),
    item.budget && fact("Spent", `${amount(item.budget, item.budget.spent)} of ${amount(item.budget, item.budget.limit)}`),
    item.commit && fact("Commit", h("a", { href: taskLink(item.swarm_id, item.bead_id, "diff") }, h("code", null, shortCommit(item.commit)), " Show diff")),
  ].filter(Boolean);
}

function fact(name, value) {
  return h("dl.item-fact", null, h("dt", null, name), h("dd.foreign", { dir: "auto" }, value));
}

function amount(budget, value) {
  return budget.unit === "dollars" ? dollars(value) : `${compact(value)} tokens`;
}

function actionsOf(item, ctx, error) {
  const session = ctx.store.state.session;
  const actions = allowed(inboxActions(item), session);
  const [first] = actions;
  const parts = first && TYPED_IN_PLACE.has(first.id) ? [answerForm(first, item, ctx, error)] : [buttonRow(actions, item, ctx, error)];
  // What only a terminal can do, and what a reader of the page has to do there.
  if (item.command && (!actions.length || !mayAct(session))) parts.push(h("p.item-command", null, h("span.quiet", null, "In a terminal: "), command(item.command)));
  return h("div.item-actions", null, parts);
}

function buttonRow(actions, item, ctx, error) {
  const row = h("div.buttons", null, actions.map((each) => h("button.button", {
    type: "button", class: each.tone, onclick: () => perform(each, ctx, { ids: idsOf(item), onError: showIn(error), within: row }),
  }, each.label)));
  return row;
}

function answerForm(each, item, ctx, error) {
  const id = `answer-${item.swarm_id}-${item.question_id}`;
  const field = h("textarea.field", { id, rows: "1", required: true, placeholder: "Your answer. The worker continues with it." });
  const form = h("form.answer", null,
    h("label.visually-hidden", { for: id }, `Answer to ${item.worker ?? item.bead_id}`), field,
    h("button.button.primary", { type: "submit", title: "Ctrl Enter" }, each.label));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const value = field.value.trim();
    if (value) perform(each, ctx, { ids: idsOf(item), value, onError: showIn(error), within: form });
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) form.requestSubmit();
  });
  return form;
}

function showIn(element) {
  return (error) => replace(element, h("p", null, error.message), error.hint && h("p.soft", null, error.hint));
}

function idsOf(item) {
  return item.bead_id ? [item.bead_id] : [];
}

export function setCurrent(element, isCurrent) {
  toggleAttribute(element, "data-current", isCurrent);
}

/** It came in while somebody was at the list. */
export function setNew(element, isNew) {
  element.parts.fresh.hidden = !isNew;
}
