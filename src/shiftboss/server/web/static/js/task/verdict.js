// The verdicts of a task, check by check, opened on the first one that failed.

import { allowed, waiveCheck } from "../actions.js";
import { ageOf, empty, foreign, h } from "../dom.js";
import { icon } from "../icons.js";
import { plural, shortCommit, shortDuration } from "../format.js";
import { taskLink } from "../router.js";
import { languageOf } from "../code/languages.js";
import { exact } from "../code/unseen.js";
import { excerptOf } from "../diff/rows.js";
import { rowElement } from "../diff/line.js";
import { perform } from "../shell/perform.js";
import { checkElement } from "./check.js";
import { mentionsOf } from "./mentions.js";
import { show } from "./section.js";

const STATES = {
  accepted: { icon: "accepted", tone: "green", word: "Accepted" },
  refused: { icon: "failed", tone: "red", word: "Refused" },
  taken: { icon: "verifying", tone: "plain", word: "Being verified" },
  waiting: { icon: "waiting", tone: "quiet", word: "Waits for a verifier" },
  void: { icon: "cancelled", tone: "quiet", word: "Void" },
};
const ORDER = ["failed", "unverifiable", "waived", "passed"];

const firstFailed = (claim) => claim.checks?.find((check) => check.result === "failed") ?? null;
const stateOf = (claim) => STATES[claim.state] ?? STATES.waiting;

/** `{element, update(facts, route)}`; `diffOf(claim)` loads the diff of a claim, or null. */
export function verdictPanel({ swarm, id, ctx, diffOf }) {
  const picker = h("div.claims");
  const body = h("div.verdict");
  const element = h("div", null, picker, body);
  // Once the task is over, a waiver would have no effect.
  let isOpen = false;

  function update({ claims, task }, route) {
    isOpen = task && !["done", "cancelled"].includes(task.status);
    const wanted = route.rest[0] === "claim" ? Number(route.rest[1]) : null;
    const claim = claims.find((each) => each.claim_id === wanted) ?? (wanted ? null : claims[0]);
    show(picker, [claims.map((each) => [each.claim_id, each.state]), claim?.claim_id], () => (claims.length > 1 ? claimList(claims, claim) : null));
    show(body, claim ?? [wanted, claims.length], () => (claim ? claimBody(claim) : noClaim(wanted)));
  }

  function claimList(claims, chosen) {
    return h("ul.claim-list", { "aria-label": "Claims" }, claims.map((claim) => {
      const look = stateOf(claim);
      const isChosen = claim === chosen;
      return h("li", null, h("a.claim-link", { href: taskLink(swarm, id, "claim", claim.claim_id), "aria-current": isChosen && "true" },
        h("span", { class: `tone-${look.tone}` }, icon(look.icon)), `Claim ${claim.claim_id}`, h("span.quiet", null, look.word.toLowerCase())));
    }));
  }

  function claimBody(claim) {
    const checks = [...(claim.checks ?? [])].sort((left, right) => ORDER.indexOf(left.result) - ORDER.indexOf(right.result));
    const list = h("div.checks");
    const draw = (diff) => list.replaceChildren(...checks.map((check, index) => oneCheck(check, claim, index === 0, diff)));
    draw(null);
    if (firstFailed(claim)) diffOf(claim).then((diff) => diff && draw(diff));
    return [summary(claim), checks.length ? list : h("p.quiet", null, waitingText(claim))];
  }

  function oneCheck(check, claim, isFirst, diff) {
    const isFailed = check.result === "failed";
    const waiver = waiveCheck({ swarm_id: swarm, bead_id: id }, check);
    const canWaive = isFailed && isOpen && check.name !== "commit" && claim.state === "refused" && allowed([waiver], ctx.store.state.session).length > 0;
    return checkElement(check, claim, {
      isOpen: isFailed || (isFirst && check.result === "unverifiable"),
      excerpts: isFailed && diff ? excerpts(check, claim, diff, lineLink(claim)) : null,
      lineLink: lineLink(claim),
      actions: canWaive && waiverRow(waiver),
    });
  }

  function waiverRow(waiver) {
    const row = h("div.buttons", null, h("button.button", { type: "button", onclick: () => perform(waiver, ctx, { ids: [id], within: row }) }, `${waiver.label}…`));
    return row;
  }

  const lineLink = (claim) => (path, line) => {
    const query = new URLSearchParams({ claim: claim.claim_id, file: path, ...(line && { line }) });
    return `${taskLink(swarm, id, "diff")}?${query}`;
  };

  return { element, update };
}

function summary(claim) {
  const look = stateOf(claim);
  const failed = (claim.checks ?? []).filter((check) => check.result === "failed");
  const count = claim.checks?.length ?? 0;
  const text = failed.length ? `${failed.length} of ${plural(count, "check")} failed` : count ? `${plural(count, "check")}` : "";
  return h(
    "div.verdict-head",
    null,
    h("h2", null, h("span.state", { class: `tone-${look.tone}` }, icon(look.icon), look.word), text && h("span.soft", null, ` ${text}`)),
    h("ul.meta", null, [
      claim.commit && h("code", null, shortCommit(claim.commit)),
      claim.files_changed != null && `${plural(claim.files_changed, "file")}, +${claim.lines_added ?? 0} −${claim.lines_deleted ?? 0}`,
      `attempt ${claim.epoch}, ${claim.worker}`,
      claim.verifier && `verified by ${claim.verifier}`,
      claim.duration_ms != null && `took ${shortDuration(claim.duration_ms)}`,
      claim.decided_at && [ageOf(claim.decided_at), " ago"],
    ].filter(Boolean).map((part) => h("li", null, part))),
    claim.summary && foreign("p.prose", null, claim.summary),
  );
}

function waitingText(claim) {
  if (claim.state === "taken") return `${claim.verifier} is verifying it; the checks are shown when it is done.`;
  if (claim.state === "void") return "The attempt ended before this claim was verified.";
  return claim.escalated_at ? "No verifier can verify it. Start one with `shiftboss verifier`." : "It waits for a verifier.";
}

function noClaim(wanted) {
  if (wanted) return empty(`There is no claim ${wanted}`, "The newest claims of the task are kept.");
  return empty("No claim yet", "When the worker says that it is done, the server checks its commit. Every check is shown here, with its evidence.");
}

function excerpts(check, claim, diff, lineLink) {
  const byPath = new Map(diff.files.map((file) => [file.path, file]));
  return mentionsOf(check, claim, [...byPath.keys()]).map(({ path, line }) => {
    const file = byPath.get(path);
    const lines = file ? excerptOf(file, line) : [];
    if (!file) return h("p", null, h("bdi.mono", null, exact(path)));
    return h("figure.excerpt", null,
      h("figcaption", null, h("a.mono", { href: lineLink(path, line) }, line ? `${exact(path)}:${line}` : exact(path)), h("span.quiet", null, " in the diff")),
      h("div.diff-body", { tabindex: "0", role: "region", "aria-label": `Lines of ${exact(path)}` }, lines.map((row) => rowElement(row, languageOf(path), row.after !== null && row.after === line))));
  });
}

