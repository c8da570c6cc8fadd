// What a comparison needs to know about a run.

import { millis } from "../format.js";

const PAGE = 1000;
const TASKS_MAX = 10_000;

async function allCards(api, swarm, signal) {
  const cards = [];
  let after = null;
  do {
    const page = await api.post("list_cards", { swarm_id: swarm, limit: PAGE, ...(after && { after }) }, { signal });
    cards.push(...(page.cards ?? []));
    after = page.next_after ?? null;
  } while (after && cards.length < TASKS_MAX);
  return cards;
}

const sum = (cards, value) => cards.reduce((total, card) => total + (value(card) ?? 0), 0);

export const retriesOf = (card) => Math.max(0, (card.epoch ?? card.attempt ?? 0) - 1);
export const millisOf = (card) => (card.started_at && card.ended_at ? card.ended_at - card.started_at : null);

/** `{swarm, status, cards, totals}` of a run. */
export async function runFacts(api, swarm, signal) {
  const [status, cards] = await Promise.all([api.get(`/swarm/${encodeURIComponent(swarm)}/status`, { signal }), allCards(api, swarm, signal)]);
  const started = Math.min(...cards.map((card) => card.started_at ?? Infinity));
  const ended = millis(status.completed_at) ?? millis(status.last_update);
  const begin = Number.isFinite(started) ? started : millis(status.created_at);
  return {
    swarm,
    status,
    cards,
    totals: {
      milliseconds: Math.max(0, ended - begin),
      dollars: status.bus.dollars,
      tokens: status.bus.tokens,
      tasks: cards.length,
      landed: status.bus.landed,
      done: status.bus.done,
      failed: status.bus.failed,
      refusals: sum(cards, (card) => card.refusals),
      retries: sum(cards, retriesOf),
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
  const difference = ({ left: a, right: b }) => (a && b ? Math.abs((millisOf(a) ?? 0) - (millisOf(b) ?? 0)) : -1);
  return [...byId.values()].sort((a, b) => difference(b) - difference(a) || a.id.localeCompare(b.id));
}
