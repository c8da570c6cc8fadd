// What the page of a task shows above its tabs, read together.

const CLAIMS_LISTED = 20;
const NO_MEMBERS = { description: "", depends_on: [] };

async function orProblem(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return { error };
  }
}

/**
 * `{card, task, why, claims, needs}`; `needs` are the items of the inbox about it. A part that could not be read is `{error}`. If there is no such
 * task, the error of `task` says so. `shared`: the inbox may have been read for another page since the last change.
 */
export async function loadFacts(api, swarm, id, signal, { shared = true } = {}) {
  const ask = (name, body) => orProblem(api.post(name, { swarm_id: swarm, ...body }, { signal }));
  const [cards, task, why, claims, inbox] = await Promise.all([
    ask("list_cards", { bead_ids: [id] }),
    ask("show_task", { bead_id: id }),
    ask("why_task", { bead_id: id }),
    ask("list_task_claims", { bead_id: id, limit: CLAIMS_LISTED }),
    ask("list_inbox", { shared }),
  ]);
  const card = cards.cards?.[0] ?? null;
  return {
    card,
    // A packet is no task of the bus: its card is all there is.
    task: task.error && card ? { ...NO_MEMBERS, ...card } : task,
    why,
    claims: claims.claims ?? [],
    needs: (inbox.items ?? []).filter((item) => item.bead_id === id),
  };
}

/** Whether an agent may be at work on it now. */
export const isLive = (facts) => facts.task?.status === "active";
