// Requests to the server that served this page, and to no other.

const SECONDS_MAX = 60;

/** A refusal of the server, with its hint; `status` 0: the server could not be reached. */
class ApiError extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.error || problem.title || `the server answered with ${status}`);
    this.status = status;
    this.code = problem.code ?? "";
    this.hint = problem.hint ?? "";
    this.field = problem.field ?? "";
    this.problem = problem;
  }

  get isUnreachable() {
    return this.status === 0;
  }

  /** The same request may be answered later: the server is away, starts, or has too much to do. */
  get isTemporary() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }

  get isForbidden() {
    return this.status === 401 || this.status === 403;
  }
}

const UNREACHABLE = {
  detail: "the server cannot be reached",
  hint: "is it running? `shiftboss serve` starts it",
};

/** `post("/bus/list_cards", {...})`; a bare name is an operation of the bus: `post("list_cards", {...})`. */
export function post(path, body = {}, { signal, key } = {}) {
  const headers = { "Content-Type": "application/json" };
  if (key) headers["Idempotency-Key"] = key;
  const address = path.startsWith("/") ? path : `/bus/${path}`;
  return request(address, { method: "POST", headers, body: JSON.stringify(body), signal });
}

/** An action: a repeat of the same request, which a browser may send by itself, changes nothing. */
export function action(path, body) {
  return post(path, body, { key: randomKey() });
}

export function get(path, { signal } = {}) {
  return request(path, { signal });
}

async function request(address, options) {
  const timeout = AbortSignal.timeout(SECONDS_MAX * 1000);
  const signal = options.signal ? AbortSignal.any([options.signal, timeout]) : timeout;
  let response;
  try {
    response = await fetch(address, { ...options, signal, credentials: "same-origin", redirect: "error" });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, UNREACHABLE);
  }
  const answer = await jsonOf(response);
  if (!response.ok) throw new ApiError(response.status, answer ?? {});
  options.signal?.throwIfAborted();
  // The connection broke in the middle of the answer.
  if (answer === null) throw new ApiError(0, UNREACHABLE);
  return answer;
}

async function jsonOf(response) {
  try {
    return await response.json();
  } catch {
    return null;
  }
}

function randomKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export const api = { post, action, get };
