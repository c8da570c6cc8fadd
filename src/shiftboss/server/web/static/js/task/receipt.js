// The receipt of accepted work: what was proven, and who signed it.

import { command, foreign, h } from "../dom.js";
import { millis, plural, when } from "../format.js";
import { taskLink } from "../router.js";
import { OUTCOMES, meaningOf } from "./check.js";
import { facts } from "./section.js";
import { icon } from "../icons.js";

function checkLine(check) {
  const look = OUTCOMES[check.outcome] ?? OUTCOMES.unverifiable;
  const proof = [
    check.tests && `${check.tests.passed} of ${plural(check.tests.ran, "test")} passed`,
    check.canaries && `${check.canaries.failed} of ${plural(check.canaries.total, "sabotaged test")} failed, as they must`,
    check.mutants && `${check.mutants.killed} of ${plural(check.mutants.total, "changed line")} noticed`,
  ].filter(Boolean);
  return h(
    "li.receipt-check",
    null,
    h("span.state", { class: `tone-${look.tone}` }, icon(look.icon), look.word),
    h("span", null, meaningOf(check.check), check.subject && [" ", foreign("code", null, check.subject)]),
    h("span.quiet", null, proof.join(", ") || (check.outcome === "passed" ? "" : check.message)),
  );
}

/** The page of a receipt, from `show_receipt`. */
export function receiptElement({ signed_receipt: signed, public_key: key }) {
  const body = signed.receipt;
  const swarm = ` --swarm ${body.swarm_id}`;
  return h(
    "div.receipt",
    null,
    h("section.section", null, h("h2", null, "What was accepted"), facts([
      ["Receipt", h("code", null, body.receipt_id)],
      ["Task", h("a", { href: taskLink(body.swarm_id, body.bead_id) }, body.bead_id)],
      ["Commit", h("code", null, body.commit)],
      ["On top of", h("code", null, body.base_commit)],
      ["Change", `${plural(body.diff.files_changed, "file")}, +${body.diff.lines_added} −${body.diff.lines_deleted}`],
      ["Worker", `${body.worker}, attempt ${body.epoch}`],
      ["Summary", body.summary && foreign("span", null, body.summary)],
      ["Accepted", when(millis(body.accepted_at))],
      ["Contract", [`version ${body.contract_version}, `, h("code", null, body.contract_hash.slice(0, 16))]],
      ["Waivers", body.waivers.length > 0 && body.waivers.map((waiver) => `${waiver.check} (${waiver.granted_by}: ${waiver.reason})`).join("; ")],
    ])),
    h("section.section", null, h("h2", null, "On which evidence"), h("ul.receipt-checks", null, body.checks.map(checkLine))),
    h("section.section", null, h("h2", null, "Signature"), facts([
      ["Format", h("code", null, body.format)],
      ["Algorithm", signed.algorithm],
      ["Key", [h("code", null, signed.key_id), !key && " (this server does not have the public key)"]],
      ["Signature", h("code.signature", null, signed.signature)],
      ["Server", `Shiftboss ${body.server_version}`],
    ]),
    h("p.soft", null, "Write it to a file, and verify it without this server:"),
    h("div.commands", null, command(`shiftboss receipt export ${body.bead_id}${swarm} --out receipt.json`), command("shiftboss receipt verify receipt.json"))),
  );
}
