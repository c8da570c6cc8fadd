// What can be done to a task now, each after a question that says what happens.

import { h } from "../dom.js";
import { shortCommit } from "../format.js";
import { ask } from "../shell/dialogs.js";

const OVER = new Set(["done", "cancelled"]);

/**
 * `[{label, tone, run(act)}, ...]`. `act(label, path, body)` does it. What the caller may not do is left out.
 */
export function actionsOf({ task, why }, swarm, session) {
  if (!session?.logged_in || task.error) return [];
  const body = { swarm_id: swarm, bead_id: task.bead_id };
  const kinds = new Set((why.reasons ?? []).map((reason) => reason.kind));
  const { can_operate: operates, can_steer: steers } = session;
  return [
    ...(operates && task.review?.state === "open" ? reviewActions(task, body) : []),
    operates && kinds.has("stuck_claim") && retryClaim(body),
    operates && task.hold === "budget" && raiseBudget(body),
    operates && (task.hold === "pause" || task.hold === "answer") && resume(body),
    steers && canRetry(task) && retry(task, body, operates),
    steers && !OVER.has(task.status) && task.status !== "failed" && task.hold !== "pause" && pause(body),
    steers && !OVER.has(task.status) && cancel(body),
  ].filter(Boolean);
}

const canRetry = (task) => ["failed", "cancelled", "active"].includes(task.status);

function reviewActions(task, body) {
  const commit = task.review.commit;
  return [
    {
      label: "Approve",
      tone: "primary",
      async run(act) {
        const yes = await ask({ title: `Approve ${shortCommit(commit)}?`, text: "The work lands, and tasks that wait for it may start.", button: "Approve" });
        if (yes !== null) await act("Approved", "/operator/approve", { ...body, commit });
      },
    },
    {
      label: "Reject…",
      tone: "danger",
      async run(act) {
        const reason = await ask({ title: `Reject ${shortCommit(commit)}?`, text: "The task has failed, and its next attempt gets the reason.", label: "What is wrong", button: "Reject" });
        if (reason !== null) await act("Rejected", "/operator/reject", { ...body, commit, reason });
      },
    },
  ];
}

function retryClaim(body) {
  return { label: "Look at the claim again", run: (act) => act("Every verifier looks again", "/operator/retry_claim", body) };
}

function raiseBudget(body) {
  return {
    label: "Raise budget…",
    tone: "primary",
    async run(act) {
      const dollars = await ask({ title: "Raise the budget of this task?", text: "It is the new limit for everything that the task has used and will use.", label: "Dollars", type: "number", button: "Raise" });
      if (dollars) await act("Budget raised", "/operator/set_budget", { ...body, dollars: Number(dollars) });
    },
  };
}

function resume(body) {
  return { label: "Resume", tone: "primary", run: (act) => act("Resumed", "/operator/resume_swarm", body) };
}

function retry(task, body, operates) {
  const isActive = task.status === "active";
  return {
    label: isActive ? "Start over…" : "Retry",
    tone: task.status === "failed" ? "primary" : "",
    async run(act) {
      const yes = !isActive || (await ask({ title: "Start this task over?", text: "The attempt ends, and the task is queued again. What was committed is kept.", button: "Start over" })) !== null;
      if (yes) await act("Queued again", operates ? "/operator/retry_task" : "retry_task", body);
    },
  };
}

function pause(body) {
  return {
    label: "Pause…",
    async run(act) {
      const reason = await ask({ title: "Pause this task?", text: "It is not handed out until you resume it. An attempt that runs goes on.", label: "Why", button: "Pause" });
      if (reason !== null) await act("Paused", "pause_swarm", { ...body, reason });
    },
  };
}

function cancel(body) {
  return {
    label: "Cancel task…",
    tone: "danger",
    async run(act) {
      const reason = await ask({ title: "Cancel this task?", text: "Its agent is stopped. Tasks that depend on it wait until it is brought back.", label: "Why (optional)", isRequired: false, button: "Cancel task", tone: "danger" });
      if (reason !== null) await act("Cancelled", "cancel_task", { ...body, reason });
    },
  };
}

/** Waive a failed check of a task. */
export async function waive(act, swarm, id, check) {
  const reason = await ask({ title: `Waive ${check.name}?`, text: "Later claims of this task may fail this check as well. The receipt records it.", label: "Why it may fail", button: "Waive" });
  if (reason !== null) await act("Waived", "/operator/waive", { swarm_id: swarm, bead_id: id, check: check.name, subject: check.subject ?? "*", reason });
}

export function actionButtons(actions, act) {
  return h("div.buttons", null, actions.map(({ label, tone = "", run }) => h("button.button", { type: "button", class: tone, onclick: () => run(act) }, label)));
}
