// What a comparison needs to know about a run: its cards, and what its events say of each task.

import { millis } from "../format.js";

const PAGE = 1000;
const TASKS_MAX = 10_000;
const EVENTS_PAGE = 500;
const EVENT_PAGES_MAX = 60;
const ENDS = ["task_done", "task_failed", "task_cancelled"];

async function allCards(api, swarm, signal) {
  const cards = [];
  let after = null;
  do {
    const page = await api.post("list_cards", { swarm_id: swarm, limit: PAGE, ...(after && { after }) }, { signal });
    cards.push(...(page.cards ?? []));
    after = page.next_after ?? null;
  } while (after && cards.length < TASKS_MAX);
  return { cards, isCut: after !== null };
}

async function records(api, swarm, signal) {
  const byTask = new Map();
  let after = 0;
  for (let page = 0; page < EVENT_PAGES_MAX && after !== null; page += 1) {
    const body = { swarm_id: swarm, kinds: ["task_started", "claim_refused", ...ENDS], after, limit: EVENTS_PAGE };
    const answer = await api.post("list_events", body, { signal });
    for (const event of answer.events ?? []) note(byTask, event);
    after = answer.next_after ?? null;
  }
  return { byTask, isCut: after !== null };
}

function note(byTask, { kind, bead_id: id, at }) {
  const task = byTask.get(id) ?? { startedAt: null, endedAt: null, attempts: 0, refusals: 0 };
  if (kind === "task_started") {
    task.startedAt ??= at;
    task.attempts += 1;
  }
  if (kind === "claim_refused") task.refusals += 1;
  if (ENDS.includes(kind)) task.endedAt = at;
  byTask.set(id, task);
}

/** A card with `milliseconds` (null while it is not over), `retries` and `refusals` of the whole run. */
function measured(card, record) {
  const { startedAt = null, endedAt = null, attempts = 0, refusals = 0 } = record ?? {};
  return { ...card, refusals, retries: Math.max(0, attempts - 1), milliseconds: startedAt && endedAt ? endedAt - startedAt : null };
}

const sum = (cards, member) => cards.reduce((total, card) => total + card[member], 0);

/** `{swarm, status, cards, totals, isCut}` of a run. `isCut`: it has more tasks or events than were read. */
export async function runFacts(api, swarm, signal) {
  const [status, tasks, known] = await Promise.all([
    api.get(`/swarm/${encodeURIComponent(swarm)}/status`, { signal }),
    allCards(api, swarm, signal),
    records(api, swarm, signal),
  ]);
  const cards = tasks.cards.map((card) => measured(card, known.byTask.get(card.bead_id)));
  const { bus } = status;
  const ended = millis(status.completed_at) ?? millis(status.last_update);
  return {
    swarm,
    status,
    cards,
    isCut: tasks.isCut || known.isCut,
    totals: {
      milliseconds: Math.max(0, ended - millis(status.created_at)),
      dollars: bus.dollars,
      tokens: bus.tokens,
      tasks: cards.length,
      landed: bus.landed,
      done: bus.done,
      failed: bus.failed,
      refusals: sum(cards, "refusals"),
      retries: sum(cards, "retries"),
    },
  };
}

/** The tasks of two runs side by side, those that differ most in time first. */
export function pairs(left, right) {
  const byId = new Map();
  for (const card of left.cards) byId.set(card.bead_id, { id: card.bead_id, title: card.title, left: card, right: null });
  for (const card of right.cards) {
    const pair = byId.get(card.bead_id) ?? { id: card.bead_id, title: card.title, left: null };
    byId.set(card.bead_id, { ...pair, right: card });
  }
  const difference = ({ left: a, right: b }) => (a && b ? Math.abs((a.milliseconds ?? 0) - (b.milliseconds ?? 0)) : -1);
  return [...byId.values()].sort((a, b) => difference(b) - difference(a) || a.id.localeCompare(b.id));
}
