// One check of a verdict: what it found, the evidence, and how the check itself was tested.

import { exact } from "../code/unseen.js";
import { foreign, h } from "../dom.js";
import { icon } from "../icons.js";
import { plural, shortDuration } from "../format.js";

export const OUTCOMES = {
  passed: { icon: "accepted", tone: "green", word: "passed" },
  failed: { icon: "failed", tone: "red", word: "failed" },
  unverifiable: { icon: "question", tone: "amber", word: "unverifiable" },
  waived: { icon: "cancelled", tone: "amber", word: "waived" },
};

const MEANINGS = {
  commit: "The claimed commit exists",
  ancestry: "It descends from the base",
  branch: "It is on the branch of the task",
  review: "A person has not rejected it",
  scope: "It changes only files of the contract",
  tests_kept: "No test was removed or disabled",
  ci: "CI is green for this commit",
  setup: "The checkout can be prepared",
  criterion: "Criterion of the contract",
  base_tests: "The tests of the base still pass",
  canary: "Sabotaged tests fail, as they must",
  mutants: "The tests notice changed lines",
  held_out: "Tests that the worker has not seen pass",
};

export const meaningOf = (name) => MEANINGS[name] ?? name;

function head(check) {
  const look = OUTCOMES[check.result] ?? OUTCOMES.unverifiable;
  return h(
    "summary.check-head",
    null,
    h("span.state", { class: `tone-${look.tone}` }, icon(look.icon), h("span.check-word", null, look.word)),
    h("span.check-name", null, meaningOf(check.name), check.subject && foreign("code.check-subject", null, exact(check.subject))),
    h("span.quiet.number", null, check.duration_ms >= 100 && shortDuration(check.duration_ms)),
  );
}

function violationsOf(check, claim) {
  const own = (claim.violations ?? []).filter((violation) => violation.check === check.name);
  return own.map((violation) =>
    h("li", null, foreign("p", null, violation.message), violation.hint && foreign("p.quiet", null, violation.hint)),
  );
}

function testsLine({ tests, exit_code, sandbox }) {
  const parts = [
    exit_code != null && `exit code ${exit_code}`,
    tests && `${plural(tests.ran, "test")} ran, ${tests.passed} passed${tests.skipped ? `, ${tests.skipped} skipped` : ""}`,
    sandbox && `sandbox: ${sandbox}`,
  ].filter(Boolean);
  return parts.length ? h("p.quiet", null, parts.join(" · ")) : null;
}

function canaryTable(canaries) {
  const row = ({ test, change, outcome }) =>
    h(
      "tr",
      null,
      h("td", null, foreign("code", null, test)),
      h("td", null, foreign("span", null, change)),
      h("td", { class: outcome === "failed" ? "tone-green" : "tone-red" }, outcome === "failed" ? "failed, as it must" : outcome),
    );
  return table("Sabotaged tests", ["Test", "Sabotage", "Result"], canaries.map(row));
}

function mutantTable(mutants, lineLink) {
  const row = ({ path, line, change, killed_by: killer }) =>
    h(
      "tr",
      null,
      h("td", null, h("a.mono", { href: lineLink(path, line) }, `${exact(path)}:${line}`)),
      h("td", null, foreign("span", null, change)),
      h("td", { class: killer ? "tone-green" : "tone-red" }, killer ? ["noticed by ", foreign("code", null, killer)] : "survived: no test noticed"),
    );
  return table("Changed lines", ["Line", "Change", "Result"], mutants.map(row));
}

function table(caption, names, rows) {
  return h(
    "div.table-scroll",
    { tabindex: "0", role: "region", "aria-label": caption },
    h("table", null, h("caption", null, caption), h("thead", null, h("tr", null, names.map((name) => h("th", { scope: "col" }, name)))), h("tbody", null, rows)),
  );
}

/** `excerpts` are the lines of the diff in question, `lineLink(path, line)` leads to them, `actions` stand at the end. */
export function checkElement(check, claim, { isOpen, excerpts, lineLink, actions }) {
  const violations = violationsOf(check, claim);
  const canaries = check.name === "canary" ? (claim.canaries ?? []).filter((canary) => canary.subject === check.subject) : [];
  const mutants = check.name === "mutants" ? (claim.mutants ?? []).filter((mutant) => mutant.subject === check.subject) : [];
  return h(
    "details.check",
    { open: isOpen, class: check.result },
    head(check),
    h(
      "div.check-body",
      null,
      violations.length ? h("ul.check-violations", null, violations) : foreign("p", null, check.detail),
      testsLine(check),
      excerpts,
      check.evidence && foreign("pre.evidence", { tabindex: "0", "aria-label": "Output" }, check.evidence),
      canaries.length > 0 && canaryTable(canaries),
      mutants.length > 0 && mutantTable(mutants, lineLink),
      actions,
    ),
  );
}
