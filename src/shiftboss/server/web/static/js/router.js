// Addresses are fragments: the path after `#/`. Every task, claim, receipt and event has one that stays.

const SWARM_VIEWS = new Set(["board", "graph", "workers", "events", "replay", "task", "event", "receipt"]);
const TOP_VIEWS = new Set(["inbox", "runs", "repos"]);

/**
 * The route of a fragment: `{ swarm, view, id, rest, query }`. `view` is null for `#/`, where the page
 * chooses, and "unknown" for what does not exist. `rest` are the parts after the id: ["claim", "3"].
 */
export function parse(fragment) {
  const [path, search = ""] = fragment.replace(/^#?\/?/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(decoded);
  const query = Object.fromEntries(new URLSearchParams(search));
  const none = { swarm: null, view: null, id: null, rest: [], query };
  if (parts.length === 0) return none;
  if (parts[0] === "s" && parts[1]) return { ...none, ...ofSwarm(parts) };
  if (parts[0] === "runs" && parts[1] === "compare") return { ...none, view: "compare" };
  return { ...none, view: TOP_VIEWS.has(parts[0]) ? parts[0] : "unknown" };
}

function ofSwarm([, swarm, view = "board", id = null, ...rest]) {
  return { swarm, view: SWARM_VIEWS.has(view) ? view : "unknown", id, rest };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** `link("s", swarm, "task", id)` is `#/s/...`, with every part encoded. */
export function link(...parts) {
  return `#/${parts.filter((part) => part != null).map(encodeURIComponent).join("/")}`;
}

/** The item of a task in the inbox of all runs: the id alone may be that of another run as well. */
export function inboxLink(swarm, id) {
  return `${link("inbox")}?${new URLSearchParams({ run: swarm, task: id })}`;
}

export function taskLink(swarm, id, ...rest) {
  return link("s", swarm, "task", id, ...rest);
}
