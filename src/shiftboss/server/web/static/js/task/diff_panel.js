// The diff of a task: a tree of its files, and their changes with the scope of the contract marked.

import { command, empty, h } from "../dom.js";
import { number, plural, shortCommit } from "../format.js";
import { taskLink } from "../router.js";
import { fileSection } from "../diff/file.js";
import { treeList } from "../diff/tree.js";
import { counts, isOutOfScope } from "../diff/scope.js";

const SOURCES = {
  landed: "What has landed",
  claim: "What was claimed",
  branch: "The work so far",
};
// Files after these many lines are closed at first.
const OPEN_LINES_MAX = 3000;
const FILE_LINES_MAX = 800;

const linesOf = (file) => (file.hunks ?? []).reduce((sum, hunk) => sum + hunk.lines.length, 0);

/** `{element, update(facts, route), close()}`; `load(claimId)` asks for the diff. */
export function diffPanel({ swarm, id, load }) {
  const element = h("div.diff", { "aria-busy": "true" }, h("p.quiet", null, "Reading the diff…"));
  let sections = [];
  // The diff that is wanted: it is shown, or being loaded. After an error it is null, so that the next update tries again.
  let wanted = null;
  let isShown = false;
  let query = {};
  let revealed = null;
  let shownError = null;

  async function update({ claims }, route) {
    query = route.query;
    const claim = query.claim ? Number(query.claim) : null;
    const newest = claims[0] ? `${claims[0].claim_id} ${claims[0].state}` : "";
    const key = claim ? `claim ${claim}` : `newest ${newest}`;
    if (key !== wanted) await draw(key, claim, claims);
    else if (isShown) revealOnce();
  }

  async function draw(key, claim, claims) {
    wanted = key;
    isShown = false;
    try {
      const diff = await load(claim);
      if (key === wanted) showDiff(diff, claims);
    } catch (error) {
      if (key === wanted && error.name !== "AbortError") showError(error);
    }
  }

  function showDiff(diff, claims) {
    stop();
    element.replaceChildren(...content(diff, claims));
    element.removeAttribute("aria-busy");
    isShown = true;
    shownError = null;
    revealOnce();
  }

  function showError(error) {
    wanted = null;
    if (error.message === shownError) return;
    stop();
    shownError = error.message;
    element.replaceChildren(unavailable(error, swarm, id));
    element.removeAttribute("aria-busy");
  }

  /** Once for each address: while the page is live, the reader scrolls and not the page. */
  function revealOnce() {
    const { claim, file, line } = query;
    const place = JSON.stringify([claim, file, line]);
    if (place === revealed) return;
    revealed = place;
    reveal(query);
  }

  function content(diff, claims) {
    if (!diff.files.length) return [empty("Nothing changed", "The commit has the same files as its base.")];
    let budget = OPEN_LINES_MAX;
    sections = diff.files.map((file) => {
      const lines = linesOf(file);
      const isOpen = lines <= Math.min(budget, FILE_LINES_MAX);
      budget -= isOpen ? lines : 0;
      return fileSection(file, { isOpen });
    });
    return [
      h("h2.visually-hidden", null, "Changed files"),
      h("div.diff-top", null, headline(diff), claimLinks(diff, claims), foldButtons()),
      diff.truncated && h("p.notice", null, "The diff is too large to be shown as a whole. ", command(`shiftboss diff ${id} --swarm ${swarm}`)),
      h("div.diff-columns", null, treeList(diff.files, (file) => reveal({ file: file.path })), h("div.diff-files", null, sections.map((section) => section.element))),
    ].filter(Boolean);
  }

  function headline(diff) {
    const sum = (member) => diff.files.reduce((total, file) => total + (file[member] ?? 0), 0);
    const outside = diff.files.filter(isOutOfScope).length;
    return h("p.diff-headline", null,
      h("strong", null, SOURCES[diff.source] ?? "Changes"), " ",
      h("code", null, shortCommit(diff.base)), "…", h("code", null, diff.commit ? shortCommit(diff.commit) : "work tree"), " ",
      plural(diff.files.length, "file"), " ", counts({ added: sum("added"), removed: sum("removed") }),
      outside > 0 && h("span.tag.red", null, `${number(outside)} outside of the contract`));
  }

  function claimLinks(diff, claims) {
    if (claims.length === 0) return null;
    const target = (claim) => `${taskLink(swarm, id, "diff")}?claim=${claim.claim_id}`;
    return h("p.quiet", null, "Claims: ", claims.slice(0, 8).map((claim) => [h("a", { href: target(claim) }, claim.claim_id), ` ${claim.state} `]));
  }

  function foldButtons() {
    const all = (name) => () => sections.forEach((section) => section[name]());
    return h("div.buttons", null,
      h("button.button.ghost", { type: "button", onclick: all("open") }, "Open all"),
      h("button.button.ghost", { type: "button", onclick: all("close") }, "Close all"));
  }

  function reveal({ file, line }) {
    if (!file) return;
    const section = sections.find((each) => each.file.path === file);
    section?.reveal(line ? Number(line) : null);
  }

  function stop() {
    for (const section of sections) section.stop();
    sections = [];
  }

  function close() {
    wanted = null;
    stop();
  }

  return { element, update, close };
}

function unavailable(error, swarm, id) {
  const help = error.problem?.command ?? `shiftboss diff ${id} --swarm ${swarm}`;
  return h("div.empty", null, h("h2", null, "No diff here"), h("p", null, error.message), error.hint && h("p.quiet", null, error.hint), command(help));
}
