// The filters of a list of events.

import { h } from "../dom.js";
import { KINDS } from "./sentences.js";

// What people look for, each as several kinds.
const GROUPS = {
  "needs-attention": ["Needs attention", ["question_asked", "scope_requested", "review_requested", "contract_disputed", "claim_escalated", "timeout_escalated", "budget_exceeded", "deadlock_suspected", "ci_unreachable"]],
  verdicts: ["Claims and verdicts", ["claim_made", "claim_accepted", "claim_refused", "claim_passed", "claim_escalated", "claim_retried", "waiver_granted"]],
  attempts: ["Attempts", ["task_assigned", "task_started", "attempt_ended", "agent_run_ended", "task_done", "task_failed", "task_parked", "checkpoint_stored"]],
  ci: ["CI", ["ci_run_found", "ci_passed", "ci_failed", "ci_restarted", "ci_unreachable", "breakage_found", "breakage_suspected", "breakage_ruled_out"]],
  landing: ["Reviews and landing", ["review_requested", "review_approved", "review_rejected", "task_landed"]],
  people: ["Done by people", ["question_answered", "scope_decided", "waiver_granted", "review_approved", "review_rejected", "dispatch_paused", "dispatch_resumed", "task_cancelled", "task_reopened", "budget_set", "halt_lifted"]],
};
const TYPING_MS = 300;

const option = (value, text) => h("option", { value }, text);

function kindSelect(onchange) {
  return h("select.field", { "aria-label": "Kind", onchange },
    option("", "All kinds"),
    h("optgroup", { label: "Groups" }, Object.entries(GROUPS).map(([name, [title]]) => option(name, title))),
    h("optgroup", { label: "Single kinds" }, [...KINDS].sort().map((kind) => option(kind, kind.replaceAll("_", " ")))));
}

/** `{element, set(query), setActors(names), kindsOf(kind), focus()}`; `onChange({kind, task, actor})`. */
export function filterBar({ hasTask, onChange }) {
  let timer = null;
  const changed = () => onChange({ kind: kind.value, task: task?.value.trim(), actor: actor.value });
  const typed = () => {
    clearTimeout(timer);
    timer = setTimeout(changed, TYPING_MS);
  };
  const kind = kindSelect(changed);
  const task = hasTask ? h("input.field", { type: "search", "aria-label": "Task", placeholder: "Task", spellcheck: "false", oninput: typed }) : null;
  const actor = h("select.field", { "aria-label": "Actor", onchange: changed }, option("", "Everybody"));
  let names = "";

  return {
    element: h("div.filters", { role: "search", "aria-label": "Filter" }, kind, task, actor),
    kindsOf: (name) => GROUPS[name]?.[1] ?? [name],
    focus: () => (task ?? kind).focus(),
    set(query) {
      kind.value = query.kind ?? "";
      if (task && document.activeElement !== task) task.value = query.task ?? "";
      if (query.actor && ![...actor.options].some((each) => each.value === query.actor)) actor.append(option(query.actor, query.actor));
      actor.value = query.actor ?? "";
    },
    setActors(found) {
      const sorted = [...new Set([...found, actor.value])].filter(Boolean).sort();
      if (sorted.join("\n") === names) return;
      names = sorted.join("\n");
      const chosen = actor.value;
      actor.replaceChildren(option("", "Everybody"), ...sorted.map((name) => option(name, name)));
      actor.value = chosen;
    },
  };
}
