// The contract of a task: the files, the criteria, and how they are checked.

import { exact } from "../code/unseen.js";
import { foreign, h } from "../dom.js";
import { duration, shortCommit, when } from "../format.js";
import { facts } from "./section.js";

const patterns = (list, none) =>
  list?.length ? h("ul.paths", null, list.map((pattern) => h("li", null, h("bdi.mono", null, exact(pattern))))) : h("p.quiet", null, none);

const mutantsWord = (mutants) => (typeof mutants === "object" ? `at least ${Math.round(mutants.require * 100)}% must be noticed` : mutants);

function policyFacts(policy) {
  return facts([
    ["Sabotaged tests", policy.canaries],
    ["Changed lines", mutantsWord(policy.mutants)],
    ["Criteria without a command", policy.unverifiable === "allow" ? "allowed" : "refused"],
    ["Removed tests", policy.test_removal === "allow" ? "allowed" : "refused"],
    ["More files", policy.scope_requests === "ask" ? "a person decides" : "granted if no task owns them"],
    ["Sandbox", `${policy.sandbox}, network: ${policy.network}`],
    ["Time for a command", duration(policy.command_seconds * 1000)],
    ["Setup", policy.setup?.length > 0 && policy.setup.map((line) => h("div", null, h("code", null, exact(line))))],
    ["May change as well", policy.generated?.length > 0 && policy.generated.join(", ")],
    ["Expectations may change in", policy.expectations_change?.length > 0 && policy.expectations_change.join(", ")],
  ]);
}

function block(title, ...content) {
  return h("section.section", null, h("h2", null, title), content);
}

/** The page of a contract, from `show_handoff`. */
export function contractElement(view, task) {
  const { contract, context } = view.handoff;
  const waivers = view.waivers ?? [];
  return h(
    "div.contract",
    null,
    h(
      "div.columns",
      null,
      block("Files it owns", patterns(contract.files_owned, "None: this task only reads.")),
      block("Files it must not change", patterns(contract.files_readonly, "Only the files that it does not own.")),
    ),
    block(
      "Done means",
      h("ol.criteria", null, contract.success_criteria.map((line) => h("li", null, foreign("code", null, exact(line))))),
      view.held_out && h("p.quiet", null, "Tests that the worker has not seen are run as well."),
    ),
    context.description || task?.description ? block("Description", foreign("p.prose", null, context.description || task.description)) : null,
    waivers.length > 0 && block("Waived by the operator", h("ul", null, waivers.map(waiverLine))),
    h(
      "div.columns",
      null,
      block("How it is checked", policyFacts(view.policy)),
      block(
        "Where",
        facts([
          ["Repo", h("bdi.mono", null, view.repo)],
          ["Base", h("code", null, shortCommit(view.base_commit))],
          ["Branch", view.branch && h("code", null, view.branch)],
          ["Lands on", view.target && h("code", null, `${view.target}${view.landing === "squash" ? ", squashed" : ""}`)],
          ["Review", view.review === "required" ? "required before it lands" : "not required"],
          ["Version", `${view.version}, ${view.reason}, ${when(view.created_at)}`],
          ["Hash", h("code", null, view.hash.slice(0, 16))],
        ]),
      ),
    ),
  );
}

function waiverLine(waiver) {
  return h("li", null, h("code", null, waiver.check), " for ", h("code", null, waiver.subject), `, ${waiver.granted_by}: `, foreign("span", null, waiver.reason));
}
