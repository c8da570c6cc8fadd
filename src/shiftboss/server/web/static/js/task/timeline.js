// The attempts of a task, newest first, with what happened in each.

import { foreign, h } from "../dom.js";
import { icon } from "../icons.js";
import { clock, duration, fullTime, now, plural } from "../format.js";
import { link, taskLink } from "../router.js";
import { sentenceOf, toneOf } from "../events/sentences.js";

const DOTS = { good: "tone-green", bad: "tone-red", attention: "tone-amber" };
const MARKS = { good: "check", bad: "cross", attention: "question" };
const RUNNING = { word: "running", tone: "plain" };

function entry(event, swarm) {
  const tone = toneOf(event.kind);
  const claim = event.data?.claim_id;
  return h(
    "li.timeline-entry",
    { class: DOTS[tone] ?? "" },
    h("span.timeline-dot", { "aria-hidden": "true" }, MARKS[tone] && icon(MARKS[tone])),
    h("a.quiet.number", { href: link("s", swarm, "event", event.event_id), title: fullTime(event.at) }, clock(event.at, { seconds: true })),
    foreign("span.timeline-text", null, sentenceOf(event)),
    claim && h("a.timeline-verdict", { href: taskLink(swarm, event.bead_id, "claim", claim) }, "Verdict"),
  );
}

function span(attempt) {
  if (attempt.epoch === 0) return null;
  const end = attempt.endedAt ?? now();
  return h("span.quiet.number", null, duration(end - attempt.startedAt));
}

function head(attempt, isLive) {
  if (attempt.epoch === 0) return h("summary", null, h("span.attempt-name", null, "Before the first attempt"));
  const outcome = attempt.outcome ?? (isLive ? RUNNING : { word: "ended", tone: "quiet" });
  return h(
    "summary",
    null,
    h("span.attempt-name", null, `Attempt ${attempt.epoch}`),
    h("span.tag", { class: outcome.tone }, outcome.word),
    attempt.refusals > 0 && h("span.quiet", null, `${plural(attempt.refusals, "claim")} refused`),
    h("span.quiet", null, attempt.worker),
    span(attempt),
  );
}

/** `attempts` as `attemptsOf` makes them; the newest is open. */
export function timeline(attempts, swarm, isLive) {
  return h(
    "div.timeline",
    null,
    attempts.map((attempt, index) =>
      h(
        "details.attempt",
        { open: index === 0 },
        head(attempt, isLive && index === 0),
        h("ol", null, attempt.events.map((event) => entry(event, swarm))),
      ),
    ),
  );
}
