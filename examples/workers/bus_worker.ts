// A bus worker in TypeScript, with nothing but Node: register, poll, ack, execute, done.
//   shiftboss conformance --worker "node examples/workers/bus_worker.ts"     (Node 22.18 or later)
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const url = process.env.SHIFTBOSS_URL ?? "http://127.0.0.1:7432";
const swarm_id = process.env.SHIFTBOSS_SWARM ?? "default";
const name = process.env.SHIFTBOSS_WORKER ?? "typescript-1";
const beatMs = 1000 * Number(process.env.SHIFTBOSS_HEARTBEAT_SECONDS ?? 20);

type Task = { bead_id: string; title: string; epoch: number };
type Answer = { task?: Task | null; bead_id?: string | null; epoch?: number | null; detail?: string };
class Refused extends Error {} // the server has understood the call, and says no

/** The token is read for every call: it may be replaced. */
function authorization(): Record<string, string> {
  const file = process.env.SHIFTBOSS_TOKEN_FILE;
  const token = process.env.SHIFTBOSS_TOKEN || (file && readFileSync(file, "utf8").split("\n", 1)[0]);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

/** Repeats the call until the server answers, always with the same key: it counts once. */
async function call(operation: string, members: object, ms = 10_000): Promise<Answer> {
  const key = randomUUID();
  for (let delay = 200; ; delay = Math.min(2 * delay, 5000)) {
    let wait = delay * (0.5 + Math.random() / 2);
    try {
      const response = await fetch(`${url}/bus/${operation}`, {
        method: "POST",
        headers: { "Content-Type": "application/json", "Idempotency-Key": key, ...authorization() },
        body: JSON.stringify({ swarm_id, ...members }),
        signal: AbortSignal.timeout(ms),
      });
      const answer = (await response.json()) as Answer; // of a gateway: not JSON, so an error
      if (response.ok) return answer;
      if (response.status === 401) console.error(answer.detail); // until there is another token
      else if (response.status < 500 && ![408, 425, 429].includes(response.status)) throw new Refused(answer.detail);
      wait = Math.max(wait, 1000 * Number(response.headers.get("Retry-After") ?? 0));
    } catch (error) {
      if (error instanceof Refused) throw error;
    }
    await sleep(wait);
  }
}

/** The work itself: the title says what to do. An error fails the task. */
async function execute(title: string, isLost: () => boolean): Promise<void> {
  const [verb, rest] = [title.split(" ", 1)[0], title.slice(title.indexOf(" ") + 1)];
  if (verb === "fail") throw new Error(rest);
  else if (verb === "wait") while (!existsSync(rest) && !isLost()) await sleep(50);
  else if (verb !== "done") throw new Error(`unknown instruction: ${title}`);
}

async function perform({ bead_id, title, epoch }: Task): Promise<void> {
  const mine = { name, bead_id, epoch };
  await call("ack_task", mine);
  let lost = false;
  const beats = setInterval(() => {
    const beat = call("heartbeat", mine);
    beat.then((held) => (lost ||= held.bead_id !== bead_id || held.epoch !== epoch), () => (lost = true));
  }, beatMs);
  try {
    const failure = await execute(title, () => lost).then(() => null, (error: Error) => error);
    if (failure) await call("task_failed", { ...mine, reason: failure.message });
    else await call("worker_done", mine);
  } finally {
    clearInterval(beats);
  }
}

await call("register_worker", { name });
for (;;) {
  try {
    const { task } = await call("poll_task", { name, timeout_ms: 30_000 }, 40_000);
    if (task) await perform(task).catch((error: Refused) => console.error(`${task.bead_id}: ${error.message}`));
  } catch (error) {
    console.error(`${error}`); // the server has forgotten us
    await sleep(1000);
    await call("register_worker", { name });
  }
}
