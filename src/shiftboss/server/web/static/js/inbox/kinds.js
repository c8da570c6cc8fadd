// The kinds of items that wait for a person: their words and shapes.

export const KINDS = {
  question: { word: "Question", icon: "question", tone: "red" },
  permission: { word: "Permission", icon: "needs_you", tone: "red" },
  dispute: { word: "Disputed contract", icon: "needs_you", tone: "red" },
  scope: { word: "Wants more files", icon: "question", tone: "red" },
  review: { word: "Review", icon: "accepted", tone: "red" },
  budget: { word: "Budget spent", icon: "paused", tone: "amber" },
  pause: { word: "Paused", icon: "paused", tone: "amber" },
  escalation: { word: "Escalated", icon: "needs_you", tone: "red" },
  stuck_claim: { word: "Cannot be verified", icon: "needs_you", tone: "red" },
  failed: { word: "Failed", icon: "failed", tone: "red" },
  dependency: { word: "Waits for a cancelled task", icon: "waiting", tone: "amber" },
  refused_start: { word: "Could not start", icon: "waiting", tone: "amber" },
  landing: { word: "Ready to land", icon: "accepted", tone: "amber" },
  not_running: { word: "Nothing is running", icon: "paused", tone: "amber" },
};

const UNKNOWN = { word: "Needs you", icon: "needs_you", tone: "red" };

export function kindOf(item) {
  return KINDS[item.kind] ?? UNKNOWN;
}

/**
 * The same item in the next snapshot has the same key, so that what was typed into it stays. What its buttons send is
 * part of it.
 */
export function keyOf(item) {
  const { unit, tokens, dollars } = item.budget ?? {};
  return [item.kind, item.swarm_id, item.bead_id, item.question_id, item.request_id, item.commit, unit, tokens, dollars].join("\n");
}
