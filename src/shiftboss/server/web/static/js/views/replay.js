// Time travel: the board at any event, moved by a slider or played.

import { empty, foreign, h, replace, setText, toggleAttribute } from "../dom.js";
import { fullTime, number } from "../format.js";
import { link, taskLink } from "../router.js";
import { sentenceOf } from "../events/sentences.js";
import { replayBoard } from "../replay/board.js";
import { Player } from "../replay/player.js";
import { oneAtATime } from "../schedule.js";

const SPEEDS = [1, 5, 20, 100];
const SHIFT_STEP = 10;
const ADDRESS_MS = 400;
// The whole state is read again: rarely, while a swarm goes on.
const FOLLOW_PAUSE_MS = 2000;

export const view = {
  name: "replay",
  title: "Replay",
  keys: [
    { key: " ", shown: "space", label: "Play and pause", run: (mounted, event) => !isOnControl(event) && mounted.toggle() },
    { key: "arrowleft", shown: "←", label: "One event back; with Shift, ten", run: (mounted, event) => mounted.step(-1, event) },
    { key: "arrowright", shown: "→", label: "One event forward; with Shift, ten", run: (mounted, event) => mounted.step(1, event) },
  ],
  mount(root, ctx) {
    return new ReplayView(root, ctx);
  },
};

class ReplayView {
  constructor(root, { api, route, navigate }) {
    this._swarm = route.swarm;
    this._navigate = navigate;
    this._abort = new AbortController();
    this._player = new Player({
      load: (at) => api.post("replay_swarm", { swarm_id: this._swarm, ...(at !== null && { at }) }, { signal: this._abort.signal }),
      onState: (state) => this._show(state),
      onPosition: () => this._showPosition(),
      onError: (error) => this._failed(error),
    });
    this._follow = oneAtATime(() => this._followEnd(), FOLLOW_PAUSE_MS);
    this._build(root);
    this._player.seek(atOf(route));
  }

  _build(root) {
    const player = this._player;
    const button = (label, text, run) => h("button.button.icon", { type: "button", "aria-label": label, title: label, onclick: run }, text);
    this._play = h("button.button.primary.replay-play", { type: "button", onclick: () => this.toggle() }, "Play");
    this._slider = h("input.replay-slider", { type: "range", min: "1", max: "1", step: "1", "aria-label": "Event", oninput: () => { player.pause(); player.seek(Number(this._slider.value)); } });
    this._position = h("span.number.soft");
    this._speed = h("select.field.replay-speed", { "aria-label": "Speed", onchange: () => (player.eventsPerSecond = Number(this._speed.value)) }, SPEEDS.map((speed) => h("option", { value: String(speed) }, `${speed} events/s`)));
    this._speed.value = String(player.eventsPerSecond);
    this._event = h("div.replay-event", { "aria-live": "polite" });
    this._board = h("div.replay-board", { "aria-busy": "true" });
    root.append(h("div.page.fill.replay-page", null,
      h("h1.visually-hidden", null, "Replay"),
      h("div.replay-controls", null, this._play, button("One event back", "‹", () => player.step(-1)), button("One event forward", "›", () => player.step(1)), this._slider, this._position, this._speed),
      this._event, this._board));
  }

  toggle() {
    if (this._player.isPlaying) this._player.pause();
    else this._player.play();
  }

  _showPosition() {
    const { at, first, last, isPlaying } = this._player;
    setText(this._play, isPlaying ? "Pause" : "Play");
    toggleAttribute(this._event, "aria-live", true, isPlaying ? "off" : "polite");
    this._slider.min = String(first);
    this._slider.max = String(last);
    if (at !== null) this._slider.value = String(at);
    setText(this._position, `${number(at ?? last)} of ${number(last)}`);
    clearTimeout(this._address);
    this._address = setTimeout(() => this._keepAddress(), ADDRESS_MS);
  }

  // The address names the event that is shown, without an entry in the history for each.
  _keepAddress() {
    if (this._player.isPlaying || this._abort.signal.aborted || this._player.at === null) return;
    history.replaceState(null, "", `${link("s", this._swarm, "replay")}?at=${this._player.at}`);
  }

  _show(state) {
    this._board.removeAttribute("aria-busy");
    if (!state.event) return replace(this._board, empty("Nothing to replay", "Every event of the swarm is a step here, from the first task to the last.", `shiftboss events ${this._swarm}`));
    const { event } = state;
    this._slider.setAttribute("aria-valuetext", `Event ${event.event_id}: ${sentenceOf(event)}`);
    replace(this._event,
      h("span.number.quiet", null, fullTime(event.at)),
      event.bead_id && h("a.mono", { href: taskLink(this._swarm, event.bead_id) }, event.bead_id),
      foreign("strong.one-line", null, sentenceOf(event)),
      h("a", { href: link("s", this._swarm, "event", event.event_id) }, "Details"));
    return replace(this._board, replayBoard(state, this._swarm));
  }

  _failed(error) {
    if (this._abort.signal.aborted) return;
    this._board.removeAttribute("aria-busy");
    replace(this._board, empty(error.message, error.hint, `shiftboss replay ${this._swarm}`));
  }

  step(events, { shiftKey }) {
    this._player.step(events * (shiftKey ? SHIFT_STEP : 1));
  }

  navigate(route) {
    const at = atOf(route);
    if (at !== this._player.at) this._player.seek(at);
  }

  update() {
    this._follow();
  }

  async _followEnd() {
    // A swarm that goes on gets longer; who looks at its past is left alone.
    if (!this._abort.signal.aborted && !this._player.isPlaying && this._player.isAtEnd) this._player.seek(null);
  }

  unmount() {
    clearTimeout(this._address);
    this._player.pause();
    this._abort.abort();
  }
}

/** The space bar presses what has the focus. */
function isOnControl(event) {
  return Boolean(event.target.closest?.("a, button, select"));
}

function atOf(route) {
  const at = Number(route.query.at);
  return Number.isSafeInteger(at) && at > 0 ? at : null;
}
