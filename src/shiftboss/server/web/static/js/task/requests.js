// What a task asks a person: questions, disputes, scope requests. The answer is given right there.

import { ageOf, foreign, h } from "../dom.js";
import { form } from "./forms.js";

/** `{question}` cards and `{request}` cards; `run(label, path, body)` does it. Without `canAct`, they are only read. */
export function questionCard(question, swarm, { canSteer, run }) {
  const answer = async ({ answer: text }) => run("Answered", "answer_question", { swarm_id: swarm, question_id: question.question_id, answer: text });
  return card(
    question.dispute ? `The worker says that the contract is ${question.dispute.kind}` : "Question",
    question.worker,
    question.asked_at,
    question.dispute ? disputeText(question.dispute) : foreign("p.ask-text", null, question.question),
    canSteer && form({ fields: [{ name: "answer", label: "Answer" }], buttons: [{ label: "Answer", tone: "primary", run: answer }] }),
  );
}

function disputeText(dispute) {
  return [
    foreign("p.ask-text", null, dispute.reason),
    dispute.evidence && foreign("pre.evidence", { tabindex: "0", "aria-label": "Evidence" }, dispute.evidence),
    dispute.commit && h("p.quiet", null, "Shown by ", h("code", null, dispute.commit.slice(0, 12))),
  ];
}

export function scopeCard(request, swarm, { canOperate, run }) {
  const decide = (granted) => ({ decision }) =>
    run(granted ? "Granted" : "Refused", "/operator/decide_scope", { swarm_id: swarm, request_id: request.request_id, granted, decision });
  return card(
    "Asks for more files",
    request.worker,
    request.asked_at,
    [
      h("ul.paths", null, request.paths.map((path) => h("li", null, h("bdi.mono", null, path), owners(request, path)))),
      foreign("p.ask-text", null, request.reason),
    ],
    canOperate &&
      form({
        fields: [{ name: "decision", label: "Note for the worker (optional)", required: false }],
        buttons: [
          { label: "Grant", tone: "primary", run: decide(true) },
          { label: "Refuse", run: decide(false) },
        ],
      }),
  );
}

function owners(request, path) {
  const holders = (request.holders ?? []).filter((holder) => holder.wanted === path).map((holder) => holder.bead_id);
  return holders.length ? h("span.quiet", null, ` owned by ${[...new Set(holders)].join(", ")}`) : null;
}

function card(title, worker, since, text, answer) {
  return h(
    "article.request",
    null,
    h("h3", null, title, " ", h("span.quiet", null, worker, " · ", ageOf(since), " ago")),
    text,
    answer,
  );
}
