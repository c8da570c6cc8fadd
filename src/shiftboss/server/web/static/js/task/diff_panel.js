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
  let shownFor = null;

  async function update({ claims }, route) {
    const claim = route.query.claim ? Number(route.query.claim) : null;
    const newest = claims[0] ? `${claims[0].claim_id} ${claims[0].state}` : "";
    const key = claim ? `claim ${claim}` : `newest ${newest}`;
    if (key !== shownFor) {
      shownFor = key;
      await draw(claim, claims);
    }
    reveal(route.query);
  }

  async function draw(claim, claims) {
    close();
    try {
      const diff = await load(claim);
      element.replaceChildren(...content(diff, claims));
    } catch (error) {
      if (error.name !== "AbortError") element.replaceChildren(unavailable(error, swarm, id));
    }
    element.removeAttribute("aria-busy");
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

  function close() {
    for (const section of sections) section.stop();
    sections = [];
  }

  return { element, update, close };
}

function unavailable(error, swarm, id) {
  const help = error.problem?.command ?? `shiftboss diff ${id} --swarm ${swarm}`;
  return h("div.empty", null, h("h2", null, "No diff here"), h("p", null, error.message), error.hint && h("p.quiet", null, error.hint), command(help));
}
