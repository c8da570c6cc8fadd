// What an operator can do to a task, to an item of the inbox and to a swarm. The inbox, the palette and the
// task view offer the same actions, and the server decides.

import { action } from "./api.js";
import { dollars, number, shortCommit } from "./format.js";

/**
 * An action: `{ id, icon, label, tone, done, ask, ids, run(value) }`. `ask` describes what has to be typed or confirmed
 * first (see `ask` of shell/dialogs.js); `done` is what is said when the server has done it.
 */

export function mayAct(session) {
  return Boolean(session?.logged_in && (session.can_operate || session.can_steer));
}

/** The actions that this session may use: those that only the operator may are left out for others. */
export function allowed(actions, session) {
  if (!mayAct(session)) return [];
  return actions.filter((each) => each.needs !== "operate" || session.can_operate);
}

const operate = (path, body) => () => action(`/operator/${path}`, body);

function answerQuestion(item) {
  return {
    id: "answer", icon: "question", label: "Send answer", tone: "primary", done: "Answered",
    ask: { title: "Answer the question", text: item.text, label: "Answer", button: "Send answer" },
    run: (answer) => action("/bus/answer_question", { swarm_id: item.swarm_id, question_id: item.question_id, answer }),
  };
}

function decideScope(item, isGranted) {
  const base = { swarm_id: item.swarm_id, request_id: item.request_id, granted: isGranted };
  return {
    id: isGranted ? "grant" : "refuse", icon: isGranted ? "check" : "cross", label: isGranted ? "Grant" : "Refuse", tone: isGranted ? "primary" : "", needs: "operate",
    done: isGranted ? "Granted" : "Refused",
    ask: isGranted ? null : { title: "Refuse these files", text: (item.paths ?? []).join(", "), label: "Reason (the worker reads it)", isRequired: false, button: "Refuse" },
    run: (decision) => action("/operator/decide_scope", { ...base, ...(decision && { decision }) }),
  };
}

/** The two decisions on a review. `commit` is the one that was shown: the server refuses if there is another by now. */
export function decideReview({ commit, ...item }) {
  return [
    {
      id: "approve", icon: "check", label: "Approve", tone: "primary", needs: "operate", done: "Approved",
      ask: { title: `Approve ${shortCommit(commit)}`, text: "The work lands, and tasks that wait for it may start.", button: "Approve" },
      run: operate("approve", { ...taskOf(item), commit }),
    },
    {
      id: "reject", icon: "cross", label: "Reject", tone: "danger", needs: "operate", done: "Rejected",
      ask: { title: "Reject this work", label: "Reason (the next attempt reads it)", button: "Reject", tone: "danger" },
      run: (reason) => action("/operator/reject", { ...taskOf(item), commit, reason }),
    },
  ];
}

function retryTask(item, { isActive = false } = {}) {
  return {
    id: "retry", icon: "retry", label: "Try again", tone: "", done: "Queued again",
    ask: isActive ? { title: "Try this task again", text: "Its running attempt ends, and the task goes back to the queue.", button: "Try again", tone: "danger" } : null,
    run: () => action("/bus/retry_task", taskOf(item)),
  };
}

function retryClaim(item) {
  return { id: "retry_claim", icon: "retry", label: "Verify again", tone: "primary", needs: "operate", done: "The claim will be verified again", run: operate("retry_claim", taskOf(item)) };
}

/** `check`: one that failed, as `list_task_claims` has it. */
export function waiveCheck(item, check) {
  return {
    id: "waive", label: "Waive this check", tone: "", needs: "operate", done: "Waived",
    ask: { title: `Waive ${check.name}`, text: "Later claims of this task may fail this check as well. The receipt records it.", label: "Why it may fail", button: "Waive" },
    run: (reason) => action("/operator/waive", { ...taskOf(item), check: check.name, subject: check.subject ?? "*", reason }),
  };
}

function cancelTask(item) {
  return {
    id: "cancel", icon: "cancelled", label: "Cancel task", tone: "danger", done: "Cancelled",
    ask: { title: "Cancel this task", text: "Tasks that depend on it wait until it is tried again, or until they are cancelled too.", label: "Reason", button: "Cancel task", tone: "danger" },
    run: (reason) => action("/bus/cancel_task", { ...taskOf(item), reason }),
  };
}

export function pause(item) {
  const what = item.bead_id ? "this task" : "the run";
  return {
    id: "pause", icon: "paused", label: item.bead_id ? "Pause task" : "Pause run", tone: "", done: "Paused",
    ask: { title: `Pause ${what}`, text: "Running tasks continue; no new tasks are assigned.", label: "Reason", button: "Pause" },
    run: (reason) => action("/bus/pause_swarm", { ...taskOf(item), reason }),
  };
}

/** What waits for an answer is better answered: then it is not what the page offers first. */
export function resume(item, hold = "pause") {
  const tone = hold === "answer" ? "" : "primary";
  return { id: "resume", icon: "running", label: item.bead_id ? "Resume task" : "Resume run", tone, needs: "operate", done: "Resumed", run: operate("resume_swarm", taskOf(item)) };
}

const amountIn = { dollars, tokens: (value) => `${number(value)} tokens` };

/**
 * Sets one limit, in `unit`, and keeps the other one: the server removes a limit that is left out. `limits` are all
 * that the budget has by now, `{ dollars, tokens }`.
 */
function setBudget(item, limits, { unit = "dollars", spent = null, isOfTask = Boolean(item.bead_id) } = {}) {
  const other = unit === "dollars" ? "tokens" : "dollars";
  const kept = limits[other] == null ? {} : { [other]: limits[other] };
  const text = [
    spent != null && `${amountIn[unit](spent)} of ${amountIn[unit](limits[unit])} are spent.`,
    spent == null && limits[unit] != null && `The limit is ${amountIn[unit](limits[unit])}.`,
    limits[other] != null && `The limit of ${amountIn[other](limits[other])} stays.`,
  ];
  return {
    id: "budget", icon: "money", label: spent == null ? "Set budget" : "Raise budget", tone: spent == null ? "" : "primary", needs: "operate", done: "Budget set",
    ask: { title: isOfTask ? "Budget of the task" : "Budget of the run", text: text.filter(Boolean).join(" "), label: `New limit in ${unit}`, type: "number", button: "Set budget" },
    run: (value) => action("/operator/set_budget", {
      swarm_id: item.swarm_id, ...(isOfTask && { bead_id: item.bead_id }),
      ...kept, [unit]: unit === "dollars" ? Number(value) : Math.round(Number(value)),
    }),
  };
}

/** For an item of the inbox. Without its limits, it is left to the command of the server. */
function raiseBudget(item) {
  const { unit, spent, scope } = item.budget ?? {};
  return item.budget?.[unit] == null ? [] : [setBudget(item, item.budget, { unit, spent, isOfTask: scope === "task" })];
}

export function resetWorker(swarm, name) {
  return {
    id: "reset", icon: "retry", label: "Reset worker", tone: "danger", done: "Reset",
    ask: { title: `Reset ${name}`, text: "Its task goes back to the queue.", button: "Reset", tone: "danger" },
    run: () => action("/bus/reset_worker", { swarm_id: swarm, worker_name: name }),
  };
}

function taskOf(item) {
  return { swarm_id: item.swarm_id, ...(item.bead_id && { bead_id: item.bead_id }) };
}

// What helps with each kind of item, the likeliest first.
const OF_KIND = {
  question: (item) => [answerQuestion(item)],
  permission: (item) => (item.question_id ? [answerQuestion(item)] : [retryTask(item)]),
  dispute: (item) => [answerQuestion(item)],
  scope: (item) => [decideScope(item, true), decideScope(item, false)],
  review: (item) => (item.commit ? decideReview(item) : []),
  budget: raiseBudget,
  pause: (item) => [resume(item)],
  escalation: (item) => (item.question_id ? [answerQuestion(item)] : [retryTask(item), cancelTask(item)]),
  stuck_claim: (item) => [retryClaim(item)],
  failed: (item) => [retryTask(item), cancelTask(item)],
  dependency: (item) => [cancelTask(item)],
};

export function inboxActions(item) {
  return OF_KIND[item.kind]?.(item) ?? [];
}

const isPaused = (holds) => holds.some((hold) => !hold.bead_id && hold.kind === "pause");

/**
 * What can be done to a task, from its card; a review is decided where its commit is shown. `holds` of the run: if all of
 * it is paused, no task can be resumed alone.
 */
export function taskActions(swarm, card, holds = []) {
  const item = { swarm_id: swarm, bead_id: card.bead_id };
  const held = card.hold === "pause" && isPaused(holds) ? { swarm_id: swarm } : item;
  const isOver = ["done", "failed", "cancelled"].includes(card.status);
  return [
    card.hold && card.hold !== "budget" && resume(held, card.hold),
    card.reason_kind === "stuck_claim" && retryClaim(item),
    ["failed", "cancelled", "active"].includes(card.status) && retryTask(item, { isActive: card.status === "active" }),
    !isOver && !card.hold && pause(item),
    !isOver && setBudget(item, { dollars: card.budget_dollars, tokens: card.budget_tokens }),
    (!isOver || card.status === "failed") && cancelTask(item),
  ].filter(Boolean);
}

/** `usage` of the run, as `show_usage` has it; while it is not known, the budget cannot be set. */
export function swarmActions(swarm, holds = [], usage = null) {
  const item = { swarm_id: swarm };
  return [isPaused(holds) ? resume(item) : pause(item), usage && setBudget(item, usage.budget ?? {})].filter(Boolean);
}
