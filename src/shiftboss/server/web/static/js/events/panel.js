// A live list of events with filters, for a swarm or for one task.

import { empty, foreign, h, hintParts, setText } from "../dom.js";
import { clock, fullTime, plural, when } from "../format.js";
import { icon } from "../icons.js";
import { VirtualList } from "../list.js";
import { link } from "../router.js";
import { filterBar } from "./filters.js";
import { EventHistory } from "./history.js";
import { sentenceOf, toneOf } from "./sentences.js";

const ROW = 36;
const SMALL_ROW = 60;
const NEAR_END_PX = 600;
const TONES = { good: ["tone-green", "check"], bad: ["tone-red", "cross"], attention: ["tone-amber", "question"] };
const small = matchMedia("(max-width: 719px)");

function row(event, swarm) {
  const [tone, mark] = TONES[toneOf(event.kind)] ?? ["tone-quiet", null];
  return h("a.row.event-row", { href: link("s", swarm, "event", event.event_id) },
    h("span.number.quiet", null, event.event_id),
    h("time.number.quiet", { title: fullTime(event.at) }, isRecent(event.at) ? clock(event.at, { seconds: true }) : when(event.at)),
    h("span.event-kind", { class: tone }, mark ? icon(mark) : h("span.icon-shape"), h("span.one-line", null, event.kind.replaceAll("_", " "))),
    h("bdi.mono.one-line.event-task", null, event.bead_id ?? ""),
    foreign("span.one-line.event-text", null, sentenceOf(event)),
    h("bdi.one-line.quiet.event-actor", null, event.actor));
}

const isRecent = (at) => Date.now() - at < 12 * 3600 * 1000;

/** `{element, update(facts, route), refresh(), select(delta), focusFilter(), close()}`; with `id`, of that task. */
export function eventsPanel({ api, swarm, id = null, ctx }) {
  const filters = filterBar({ hasTask: id === null, onChange: (query) => ctx.navigate(address(query), { replace: true }) });
  const count = h("p.quiet", { role: "status" });
  const scroller = h("div.events-list");
  const note = h("div");
  const element = h("div.events", null, h("div.events-top", null, filters.element, count), note, scroller);
  const list = new VirtualList(scroller, {
    label: "Events",
    key: (event) => event.event_id,
    height: () => (small.matches ? SMALL_ROW : ROW),
    create: (event) => row(event, swarm),
    update: () => {},
  });
  let history = null;
  let query = null;

  const address = (wanted) => {
    const search = new URLSearchParams(Object.entries(wanted).filter(([, value]) => value)).toString();
    const path = id ? link("s", swarm, "task", id, "events") : link("s", swarm, "events");
    return search ? `${path}?${search}` : path;
  };

  function show(route) {
    const next = JSON.stringify([route.query.kind, route.query.task, route.query.actor]);
    filters.set(route.query);
    if (next === query) return refresh();
    query = next;
    history?.close();
    const task = id ?? route.query.task;
    history = new EventHistory(api, swarm, { ...(task && { bead_id: task }), ...(route.query.kind && { kinds: filters.kindsOf(route.query.kind) }) }, () => draw(route.query));
    return history.older();
  }

  function draw({ actor, kind, task }) {
    const shown = actor ? history.events.filter((event) => event.actor === actor) : history.events;
    list.setItems(shown);
    filters.setActors(history.events.map((event) => event.actor));
    scroller.hidden = shown.length === 0;
    setText(count, shown.length ? `${plural(shown.length, "event")}${history.hasMore ? ", older ones as you scroll" : ""}` : "");
    note.replaceChildren(...[noteFor(shown, Boolean(actor || kind || task))].filter(Boolean));
  }

  function noteFor(shown, isFiltered) {
    if (history.error) return h("div.notice.red", null, h("p", null, history.error.message), history.error.hint && h("p.hint", null, hintParts(history.error.hint)));
    if (shown.length || !history.isLoaded) return null;
    if (history.hasMore) return h("p.quiet", null, "Nothing among the newest events. ", h("button.button", { type: "button", onclick: () => history.older() }, "Search older ones"));
    if (isFiltered) return empty("No event matches", "Every event of these kinds, tasks and actors would be listed here.");
    return empty("Nothing has happened yet", "Everything that is done to the tasks is listed here as it happens.", `shiftboss events ${swarm} --follow`);
  }

  const refresh = () => history?.newer();
  const onScroll = () => {
    if (scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR_END_PX) history?.older();
  };
  scroller.addEventListener("scroll", onScroll, { passive: true });

  return {
    element,
    refresh,
    update: (_facts, route) => show(route),
    select: (delta) => list.move(delta),
    focusFilter: () => filters.focus(),
    close() {
      history?.close();
      list.close();
    },
  };
}
