// What the page of a task shows above its tabs, read together.

const CLAIMS_LISTED = 20;

async function orProblem(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return { error };
  }
}

/**
 * `{card, task, why, claims, questions, requests}`; a part that could not be read is `{error}`. If there is no such
 * task, the error of `task` says so.
 */
export async function loadFacts(api, swarm, id, signal) {
  const ask = (name, body) => orProblem(api.post(name, { swarm_id: swarm, ...body }, { signal }));
  const [cards, task, why, claims, questions, requests] = await Promise.all([
    ask("list_cards", { bead_ids: [id] }),
    ask("show_task", { bead_id: id }),
    ask("why_task", { bead_id: id }),
    ask("list_task_claims", { bead_id: id, limit: CLAIMS_LISTED }),
    ask("list_questions", {}),
    ask("list_scope_requests", {}),
  ]);
  return {
    card: cards.cards?.[0] ?? null,
    task,
    why,
    claims: claims.claims ?? [],
    questions: (questions.questions ?? []).filter((question) => question.bead_id === id),
    requests: (requests.requests ?? []).filter((request) => request.bead_id === id),
  };
}

/** Whether an agent may be at work on it now. */
export const isLive = (facts) => facts.task?.status === "active";
