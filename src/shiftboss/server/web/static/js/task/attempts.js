// The events of a task, sorted into its attempts.

const ENDINGS = {
  claim_accepted: ["accepted", "green"],
  task_done: ["accepted", "green"],
  task_failed: ["failed", "red"],
  task_cancelled: ["cancelled", "quiet"],
  task_parked: ["parked", "amber"],
};
const LOST = {
  offer_expired: ["not taken", "quiet"],
  offer_taken_over: ["not taken", "quiet"],
  returned: ["given back", "quiet"],
  run_ended: ["run ended", "quiet"],
  lease_expired: ["lost", "red"],
  timed_out: ["timed out", "red"],
  cancelled: ["cancelled", "quiet"],
  parked: ["parked", "amber"],
  retried: ["tried again", "amber"],
  reset: ["reset", "amber"],
  taken_over: ["handed over", "amber"],
};
// They repeat what stands beside them.
const SILENT = new Set(["task_assigned", "answer_delivered", "checkpoint_stored"]);

function newAttempt(epoch, event) {
  return { epoch, worker: event.data.worker ?? null, startedAt: event.at, endedAt: null, outcome: null, refusals: 0, events: [] };
}

function note(attempt, event) {
  attempt.worker = event.data.worker ?? attempt.worker;
  if (event.kind === "task_started") attempt.startedAt = event.at;
  if (event.kind === "claim_refused") attempt.refusals += 1;
  const ending = event.kind === "attempt_ended" ? (LOST[event.data.reason] ?? ["ended", "quiet"]) : ENDINGS[event.kind];
  if (ending && attempt.epoch > 0 && !(attempt.outcome && event.kind === "attempt_ended")) {
    attempt.outcome = { word: ending[0], tone: ending[1] };
    attempt.endedAt = event.at;
  }
}

/**
 * `events`, oldest first, as attempts, newest first. The attempt of epoch 0 has what came before the first one. Events
 * that name no attempt belong to the one that was the newest then.
 */
export function attemptsOf(events) {
  const byEpoch = new Map();
  let newest = 0;
  for (const event of events) {
    const epoch = event.data?.epoch ?? newest;
    newest = Math.max(newest, epoch);
    if (!byEpoch.has(epoch)) byEpoch.set(epoch, newAttempt(epoch, event));
    const attempt = byEpoch.get(epoch);
    note(attempt, event);
    if (!SILENT.has(event.kind)) attempt.events.push(event);
  }
  return [...byEpoch.values()].sort((left, right) => right.epoch - left.epoch);
}
