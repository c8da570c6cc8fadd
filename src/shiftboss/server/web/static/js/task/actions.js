// The buttons of the page of a task. What it asks a person is answered where it is shown.

import { allowed, decideReview, taskActions } from "../actions.js";
import { h } from "../dom.js";
import { perform } from "../shell/perform.js";

/** The actions for a task; a review is decided for the commit that is shown. */
function actionsOf({ task, card, why }, swarm) {
  const { review } = task;
  const ofReview = review?.state === "open" ? decideReview({ swarm_id: swarm, bead_id: task.bead_id, commit: review.commit }) : [];
  const others = taskActions(swarm, { ...task, ...card }, why.reasons);
  // Without the card, the limits of its budget are not known.
  return [...ofReview, ...others.filter((each) => card || each.id !== "budget")];
}

/** A row of buttons, or null if there is nothing that this session may do. */
export function actionRow(facts, ctx, swarm) {
  const actions = allowed(actionsOf(facts, swarm), ctx.store.state.session);
  const ids = [facts.task.bead_id];
  if (!actions.length) return null;
  const row = h("div.buttons", null, actions.map((each) => h("button.button", {
    type: "button", class: each.tone, onclick: () => perform(each, ctx, { ids, within: row }),
  }, each.ask ? `${each.label}…` : each.label)));
  return row;
}
