// What happened, as one sentence for each kind of event, and whether it is good, bad or needs attention.

const short = (sha) => (sha ?? "").slice(0, 10);
const list = (items, max = 3) => {
  const names = items ?? [];
  const more = names.length > max ? ` and ${names.length - max} more` : "";
  return names.slice(0, max).join(", ") + more;
};
const quoted = (text) => (text ? `: ${text}` : "");
const checks = (data) => list([...new Set((data.violations ?? []).map((violation) => violation.check))]);
const budget = (data) =>
  [data.tokens && `${data.tokens} tokens`, data.dollars && `$${data.dollars}`].filter(Boolean).join(", ") || "none";
const ofWhat = (data) => (data.bead_id ? "the task" : "the swarm");

const ENDED = {
  offer_expired: "the worker did not take it in time",
  offer_taken_over: "another worker took the offer",
  lease_expired: "its lease expired",
  returned: "its worker gave it back",
  taken_over: "another worker took it over",
  run_ended: "the run ended",
  reset: "the worker was reset",
  retried: "it is tried again",
  cancelled: "it was cancelled",
  parked: "it was parked",
  timed_out: "it took too long",
};

const SENTENCES = {
  swarm_created: (data) => `The swarm was created${quoted(data.feature)}`,
  worker_registered: (data) => `Packet ${data.packet_name} registered with ${data.tasks_total} tasks`,
  progress_update: (data) => `Packet task ${data.task_name || data.task_id}: ${data.status}, ${data.tasks_completed} of ${data.tasks_total}`,
  worker_complete: (data) => `Packet ${data.packet_id} is complete at ${short(data.final_commit)}`,
  worker_error: (data) => `Packet ${data.packet_id} reports ${data.error_type}${quoted(data.message)}`,
  retry_due: (data) => `Retry ${data.attempt} of ${data.task_id} is due`,
  swarm_complete: () => "The swarm is complete",
  swarm_reopened: () => "There is work to do again",
  bus_worker_joined: (data) => `Worker ${data.worker} joined`,
  bus_worker_reset: (data) => `Worker ${data.worker} was reset${data.released ? `, and released ${data.released}` : ""}`,
  task_added: (data) => `Added${quoted(data.title)}`,
  task_queued: (data) => (data.waits_for?.length ? `Queued, waits for ${list(data.waits_for)}` : "Queued"),
  task_assigned: (data) => `Offered to ${data.worker}`,
  task_started: (data) => `${data.worker} started attempt ${data.epoch}`,
  task_progress: (data) => `${data.worker}: ${data.state}`,
  task_done: () => "Done",
  task_failed: (data) => `Failed${quoted(data.reason)}${data.again ? " (it is tried again)" : ""}`,
  task_cancelled: (data) => `Cancelled${quoted(data.reason)}`,
  task_reopened: () => "Opened again",
  task_withdrawn: (data) => `Withdrawn${quoted(data.reason)}`,
  attempt_ended: (data) => `Attempt ${data.epoch} of ${data.worker} ended: ${ENDED[data.reason] ?? data.reason}`,
  agent_run_ended: (data) => `Process ${data.process} of ${data.agent} ended${data.ended === "ended" ? "" : `: ${data.ended}`}`,
  checkpoint_stored: (data) => `${data.worker} stored a checkpoint`,
  question_asked: (data) => `${data.worker} asks ${data.contact}${quoted(data.question)}`,
  question_answered: (data) => `Answered${quoted(data.answer)}`,
  questions_withdrawn: () => "The questions were withdrawn",
  answer_delivered: (data) => `${data.worker} received the answer`,
  handoff_spawned: (data) => `Contract ${data.contract_version} owns ${list(data.files_owned) || "no files"}`,
  contract_changed: (data) => `Contract ${data.contract_version} is in force${quoted(data.reason)}`,
  contract_disputed: (data) => `${data.worker} says that the contract is ${data.kind}${quoted(data.reason)}`,
  claim_made: (data) => `${data.worker} claims to be done${data.commit ? ` with ${short(data.commit)}` : ""}`,
  claim_passed: (data) => `Verifier ${data.verifier} cannot verify claim ${data.claim_id}${quoted(data.reason)}`,
  claim_escalated: (data) => `No verifier can verify claim ${data.claim_id}${quoted(data.reason)}`,
  claim_retried: (data) => `Verifiers may try claim ${data.claim_id} again`,
  claim_accepted: (data) => `Claim ${data.claim_id} accepted at ${short(data.commit)}`,
  claim_refused: (data) => `Claim ${data.claim_id} refused by ${checks(data) || "the verifier"}`,
  scope_requested: (data) => `${data.worker} asks for ${list(data.paths)}${quoted(data.reason)}`,
  scope_decided: (data) => `${data.state === "granted" ? "Granted" : "Refused"} ${list(data.paths)}`,
  waiver_granted: (data) => `${data.granted_by} waived ${data.check} for ${data.subject}${quoted(data.reason)}`,
  files_released: (data) => `${data.released} tasks released their files`,
  repo_locked: (data) => `Locked the repo ${data.repo}${data.passed_from ? `, after ${data.passed_from}` : ""}`,
  repo_released: (data) => `Released the repo ${data.repo}${quoted(data.reason)}`,
  milestone_reported: (data) => data.line ?? `${data.milestone} ${data.progress ?? ""}`,
  ci_run_found: (data) => `CI run ${data.run_id} for ${short(data.sha)}`,
  ci_passed: (data) => `CI passed for ${short(data.sha)}`,
  ci_failed: (data) => `CI failed for ${short(data.sha)} in ${list((data.jobs ?? []).map((job) => job.job))}`,
  ci_restarted: (data) => `CI run ${data.restarted}: ${data.outcome}`,
  ci_unreachable: (data) => `CI cannot be reached${quoted(data.reason)}`,
  work_paused: (data) => `Paused${quoted(data.reason)}`,
  work_resumed: () => "Continues",
  timeout_warning: (data) => data.message ?? "It is taking long",
  timeout_step: (data) => `${data.step}${quoted(data.message)}`,
  timeout_escalated: (data) => `Escalated to a person${quoted(data.message)}`,
  deadlock_suspected: (data) => `Looks stuck${quoted(list((data.signs ?? []).map((sign) => sign.message)))}`,
  failure_reported: (data) => `${data.failure_class} failure, ${data.action}${quoted(data.message)}`,
  chain_halted: (data) => `Halted ${list(data.repos)}${quoted(data.reason)}`,
  halt_lifted: (data) => `Lifted the halt of ${list(data.repos)}${quoted(data.reason)}`,
  budget_set: (data) => `Budget of ${ofWhat(data)}: ${budget(data)}`,
  budget_exceeded: (data) => `The budget of the ${data.scope} is used up: ${data.spent} of ${data.limit} ${data.unit}`,
  dispatch_paused: (data) => `Paused ${ofWhat(data)}${quoted(data.reason)}`,
  dispatch_resumed: (data) => `Resumed ${ofWhat(data)}`,
  task_parked: (data) => `Parked${quoted(data.reason)}`,
  task_landed: (data) => `Landed on ${data.target} as ${short(data.landed_commit)}`,
  review_requested: (data) => `Waits for a review of ${short(data.commit)}`,
  review_approved: (data) => `${data.by} approved ${short(data.commit)}`,
  review_rejected: (data) => `${data.by} rejected ${short(data.commit)}${quoted(data.reason)}`,
  breakage_found: (data) => `CI of ${data.repo} was broken by ${data.breaking?.repo ?? "another repo"} (${data.breaking?.bead_id ?? short(data.breaking?.sha)})`,
  breakage_suspected: (data) => `CI of ${data.repo} may be broken by another repo${quoted(data.reason)}`,
  breakage_ruled_out: (data) => `No other repo broke the CI of ${data.repo}${quoted(data.reason)}`,
};

const TONES = {
  good: ["claim_accepted", "task_landed", "task_done", "ci_passed", "review_approved", "swarm_complete", "worker_complete"],
  bad: ["claim_refused", "task_failed", "ci_failed", "review_rejected", "chain_halted", "worker_error", "failure_reported"],
  attention: [
    "question_asked", "scope_requested", "review_requested", "contract_disputed", "claim_escalated", "timeout_escalated",
    "budget_exceeded", "dispatch_paused", "deadlock_suspected", "breakage_found", "ci_unreachable", "timeout_warning",
  ],
};
const toneByKind = new Map(Object.entries(TONES).flatMap(([tone, kinds]) => kinds.map((kind) => [kind, tone])));

export const KINDS = Object.keys(SENTENCES);
export const toneOf = (kind) => toneByKind.get(kind) ?? "";

/** One sentence about an event. A kind that a newer server has is named by itself. */
export function sentenceOf(event) {
  const sentence = SENTENCES[event.kind];
  return sentence ? sentence(event.data ?? {}) : event.kind.replaceAll("_", " ");
}
