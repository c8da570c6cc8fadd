// The buttons of the page of a task. What it asks a person is answered where it is shown.

import { allowed, approve, reject, taskActions } from "../actions.js";
import { h } from "../dom.js";
import { shortCommit } from "../format.js";
import { perform } from "../shell/perform.js";

/** The actions for a task; a review is decided for the commit that is shown, after a question. */
function actionsOf({ task, card, why }, swarm) {
  const review = task.review?.state === "open" ? task.review : null;
  const item = { swarm_id: swarm, bead_id: task.bead_id, commit: review?.commit };
  const question = review && { title: `Approve ${shortCommit(review.commit)}`, text: "The work lands, and tasks that wait for it may start.", button: "Approve" };
  const others = taskActions(swarm, { ...task, ...card, review: null }, why.reasons);
  return [...(review ? [{ ...approve(item), ask: question }, reject(item)] : []), ...others];
}

/** A row of buttons, or null if there is nothing that this session may do. */
export function actionRow(facts, ctx, swarm) {
  const actions = allowed(actionsOf(facts, swarm), ctx.store.state.session);
  const ids = [facts.task.bead_id];
  if (!actions.length) return null;
  return h("div.buttons", null, actions.map((each) => h("button.button", { type: "button", class: each.tone, onclick: () => perform(each, ctx, { ids }) }, each.ask ? `${each.label}…` : each.label)));
}
