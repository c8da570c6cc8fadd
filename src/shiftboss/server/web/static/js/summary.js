// One swarm in a few numbers: how far it is, what it has cost, and what it may still take.

import { millis, now } from "./format.js";

// A forecast from fewer tasks than these would be a guess.
const FORECAST_FROM = 3;

/** `{ total, finished, accepted, failed, atWork, isLanding, dollars, forecast, budget, elapsed, left, isOver }` of a status. */
export function summarize(status, usage) {
  const work = status.bus?.total ? ofTasks(status) : ofPackets(status);
  const isOver = Boolean(status.completed_at) || ["complete", "failed"].includes(status.status);
  const begin = millis(status.created_at);
  const end = isOver ? millis(status.completed_at ?? status.last_update) : now();
  const elapsed = begin === null ? 0 : Math.max(0, end - begin);
  const spent = status.bus?.dollars ?? 0;
  return {
    ...work, isOver, elapsed, dollars: spent,
    budget: usage?.budget?.dollars ?? null,
    forecast: isOver ? null : forecast(spent, work),
    left: isOver ? null : timeLeft(elapsed, work),
  };
}

function ofTasks({ bus, plan_file: planFile }) {
  // Only a plan says that its work is to land.
  const isLanding = Boolean(planFile) || bus.landed > 0;
  return {
    unit: "task", isLanding,
    total: bus.total - bus.cancelled,
    finished: isLanding ? bus.landed : bus.done,
    done: bus.done,
    failed: bus.failed,
    atWork: bus.active,
  };
}

function ofPackets(status) {
  return {
    unit: "task", isLanding: false,
    total: status.tasks_total, finished: status.tasks_completed, done: status.tasks_completed,
    failed: 0, atWork: status.workers_running,
  };
}

function forecast(spent, { done, total }) {
  return done >= FORECAST_FROM && spent > 0 ? (spent / done) * total : null;
}

function timeLeft(elapsed, { done, total, atWork }) {
  return done >= FORECAST_FROM && atWork > 0 ? (elapsed / done) * (total - done) : null;
}
