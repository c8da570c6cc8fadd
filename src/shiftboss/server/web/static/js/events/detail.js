// One event: what happened, who caused it, and everything that it says.

import { empty, foreign, h } from "../dom.js";
import { fullTime } from "../format.js";
import { link, taskLink } from "../router.js";
import { facts } from "../task/section.js";
import { sentenceOf } from "./sentences.js";

/** The page of the event that the route names. */
export function mountEvent(root, { api, route }) {
  const page = h("div.page.narrow", { "aria-busy": "true" });
  const abort = new AbortController();
  root.append(page);
  load(api, route, abort.signal)
    .then((found) => page.replaceChildren(...(found ? content(found, route.swarm) : [missing(route)])))
    .catch((error) => abort.signal.aborted || page.replaceChildren(empty(error.message, error.hint)))
    .finally(() => page.removeAttribute("aria-busy"));
  return { unmount: () => abort.abort() };
}

async function load(api, route, signal) {
  const wanted = Number(route.id);
  if (!Number.isSafeInteger(wanted) || wanted < 1) return null;
  const answer = await api.post("list_events", { swarm_id: route.swarm, after: wanted - 1, limit: 1 }, { signal });
  const [event] = answer.events ?? [];
  return event?.event_id === wanted ? { event, last: answer.last_event_id ?? wanted } : null;
}

function missing(route) {
  return empty(`There is no event ${route.id}`, "Events of this swarm count 1, 2, 3; old ones may have been deleted.", `shiftboss events ${route.swarm}`);
}

function content({ event, last }, swarm) {
  const other = (id, text) => (id >= 1 && id <= last ? h("a.button", { href: link("s", swarm, "event", id) }, text) : null);
  return [
    h("p.crumbs", null, h("a", { href: link("s", swarm, "events") }, "Events"), " / ", String(event.event_id)),
    foreign("h1", null, sentenceOf(event)),
    facts([
      ["Kind", h("code", null, event.kind)],
      ["Time", fullTime(event.at)],
      ["By", event.actor && foreign("span", null, event.actor)],
      ["Task", event.bead_id && h("a", { href: taskLink(swarm, event.bead_id) }, event.bead_id)],
      ["Claim", event.bead_id && event.data?.claim_id && h("a", { href: taskLink(swarm, event.bead_id, "claim", event.data.claim_id) }, `Claim ${event.data.claim_id}`)],
    ]),
    h("div.buttons.event-steps", null,
      other(event.event_id - 1, "Previous"),
      other(event.event_id + 1, "Next"),
      h("a.button", { href: `${link("s", swarm, "replay")}?at=${event.event_id}` }, "The board at this event")),
    h("section.section", null, h("h2", null, "Data"), foreign("pre.evidence", { tabindex: "0", "aria-label": "Data of the event" }, JSON.stringify(event.data, null, 2))),
  ];
}
