// The repos of the policy: who holds which, what CI says, and who waits for whom.

import { exact } from "../code/unseen.js";
import { ageOf, empty, foreign, h } from "../dom.js";
import { plural, shortCommit } from "../format.js";
import { icon } from "../icons.js";
import { taskLink } from "../router.js";
import { oneAtATime } from "../schedule.js";
import { show } from "../task/section.js";

// Each repo costs two requests, so they are read rarely, and only after events that can change what is shown.
const REFRESH_PAUSE_MS = 5000;
const ASKED_MAX = 50;
const SHOWN_KINDS = new Set([
  "repo_locked", "repo_released", "files_released", "milestone_reported", "chain_halted", "halt_lifted",
  "ci_run_found", "ci_passed", "ci_failed", "ci_restarted", "ci_unreachable", "breakage_found", "breakage_ruled_out",
  "handoff_spawned", "contract_changed", "scope_decided", "task_done", "task_failed", "task_cancelled", "task_reopened",
  "task_landed", "review_rejected",
]);
const PATTERNS_SHOWN = 4;

export const view = {
  name: "repos",
  title: "Repos",
  mount(root, { api }) {
    const body = h("div", { "aria-busy": "true" });
    const abort = new AbortController();
    const order = h("p", { hidden: true }, "By phase: work goes from the first to the last.");
    root.append(h("div.page", null, h("header.page-head", null, h("h1", null, "Repos"), order), body));
    const refresh = oneAtATime(async () => {
      try {
        const facts = await load(api, abort.signal);
        show(body, facts, content);
        order.hidden = !facts.repos.length;
      } catch (error) {
        if (!abort.signal.aborted) show(body, error.message, () => empty(error.message, error.hint, "shiftboss repo list"));
      }
      body.removeAttribute("aria-busy");
    }, REFRESH_PAUSE_MS);
    refresh();
    const update = ({ kinds, isReload }) => {
      if (isReload || [...kinds].some((kind) => SHOWN_KINDS.has(kind))) refresh();
    };
    return { update, unmount: () => abort.abort() };
  },
};

async function load(api, signal) {
  const ask = (name, body = {}) => api.post(name, body, { signal });
  const { repos, halts } = await ask("list_repos");
  const asked = repos.slice(0, ASKED_MAX);
  const [spawns, owners] = await Promise.all([
    Promise.all(asked.map(({ repo }) => ask("can_spawn", { repo }).catch(() => null))),
    Promise.all(asked.map(({ repo }) => ask("who_owns", { repo }).catch(() => null))),
  ]);
  return { repos: repos.map((repo, index) => ({ ...repo, blockers: spawns[index]?.blockers ?? [], holders: owners[index]?.holders ?? [] })), halts };
}

function content({ repos, halts }) {
  if (!repos.length) {
    return empty("The policy names no repos", "With repos in the policy, work is locked repo by repo along their dependencies, and CI decides whether the next may start.", "shiftboss policy schema");
  }
  const phases = Map.groupBy ? Map.groupBy(repos, (repo) => repo.phase) : grouped(repos);
  return [
    halts.map(haltNotice),
    [...phases].map(([phase, list]) => h("section.section.phase", null, h("h2", null, `Phase ${phase}`), h("ul.repo-list", null, list.map(repoElement)))),
  ];
}

function grouped(repos) {
  const phases = new Map();
  for (const repo of repos) (phases.get(repo.phase) ?? phases.set(repo.phase, []).get(repo.phase)).push(repo);
  return phases;
}

function haltNotice(halt) {
  return h("div.notice.red", null, h("h3", null, `Halted: ${halt.repos.join(", ")}`), foreign("p", null, halt.reason),
    h("p.hint", null, "Nothing starts in this chain until it is lifted: ", h("code", null, `shiftboss resume ${halt.halt_id} --reason 'it is fixed'`)));
}

const CI = { green: ["green", "accepted", "CI green"], red: ["red", "failed", "CI red"] };

function ciState(repo) {
  const [tone, shape, word] = CI[repo.ci] ?? ["quiet", "waiting", "CI unknown"];
  return h("span.state", { class: `tone-${tone}` }, icon(shape), word, repo.sha && h("code.quiet", null, shortCommit(repo.sha)));
}

function lockState(repo) {
  if (!repo.locked_since) {
    const isFree = repo.blockers.length === 0;
    return h("span.state", { class: isFree ? "tone-green" : "tone-amber" }, icon(isFree ? "accepted" : "paused"), isFree ? "Free" : "Blocked");
  }
  return h("span.state", null, icon("running"), "Locked by ",
    repo.locked_by ? h("a.mono", { href: taskLink(repo.swarm_id, repo.locked_by) }, repo.locked_by) : "another swarm",
    h("span.quiet", null, ageOf(repo.locked_since)));
}

function repoElement(repo) {
  return h("li.repo", null,
    h("div.repo-head", null, h("h3.mono", null, repo.repo), lockState(repo), ciState(repo)),
    h("div.repo-body", null,
      repo.depends_on.length > 0 && h("p.soft", null, "Builds on ", repo.depends_on.map((name, index) => [index > 0 && ", ", h("code", null, name)])),
      repo.worker && h("p.soft", null, h("bdi", null, repo.worker), repo.milestone && ` is ${repo.milestone}`, repo.tracking?.sha && [", pushed ", h("code", null, shortCommit(repo.tracking.sha))]),
      waits(repo),
      files(repo)));
}

function waits({ blockers, locked_by: lockedBy }) {
  const others = blockers.filter((blocker) => blocker.bead_id !== lockedBy || blocker.rule !== "repo_is_active");
  if (!others.length) return null;
  return h("ul.repo-waits", null, others.map((blocker) =>
    h("li.soft", null, "Waits: ", foreign("span", null, blocker.reason), blocker.bead_id && [" ", h("a.mono", { href: taskLink(blocker.swarm_id, blocker.bead_id) }, blocker.bead_id)])));
}

function files({ holders }) {
  if (!holders.length) return null;
  const patterns = ({ owned }) => {
    const list = [owned].flat();
    return `${list.slice(0, PATTERNS_SHOWN).map(exact).join(", ")}${list.length > PATTERNS_SHOWN ? ` and ${list.length - PATTERNS_SHOWN} more` : ""}`;
  };
  return h("details.repo-files", null, h("summary", null, `${plural(holders.length, "task")} own files here`),
    h("ul", null, holders.map((holder) => h("li", null, h("a.mono", { href: taskLink(holder.swarm_id, holder.bead_id) }, holder.bead_id), " ", h("bdi.mono.quiet", null, patterns(holder))))));
}
