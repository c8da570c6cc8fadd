// The position in the history of a swarm: moved by hand, or played.

const TICK_MS = 100;

export class Player {
  /** `load(at)` asks for the state at an event; `onState(state)`, `onPosition(at)`, `onError(error)`. */
  constructor({ load, onState, onPosition, onError }) {
    this.first = 1;
    this.last = 1;
    this.at = null;
    this.isPlaying = false;
    this.eventsPerSecond = 5;
    this._calls = { load, onState, onPosition, onError };
    this._wanted = null;
    this._isBusy = false;
    this._timer = null;
    this._fraction = 0;
  }

  get isAtEnd() {
    return this.at >= this.last;
  }

  /** Go to an event; null: the last one. While one is asked for, only the newest wish counts. */
  seek(at) {
    const isKnown = this.at !== null;
    this._wanted = { at: at !== null && isKnown ? Math.min(this.last, Math.max(this.first, at)) : at };
    if (this._wanted.at !== null && isKnown) this._setPosition(this._wanted.at);
    this._ask();
  }

  step(events) {
    this.pause();
    this.seek((this.at ?? this.last) + events);
  }

  async _ask() {
    if (this._isBusy || !this._wanted) return;
    const { at } = this._wanted;
    this._wanted = null;
    this._isBusy = true;
    try {
      this._show(await this._calls.load(at));
    } catch (error) {
      this.pause();
      this._calls.onError(error);
    }
    this._isBusy = false;
    this._ask();
  }

  _show(state) {
    this.first = state.first_event_id;
    this.last = state.last_event_id;
    if (!this._wanted) this._setPosition(state.at);
    this._calls.onState(state);
  }

  _setPosition(at) {
    this.at = at;
    this._calls.onPosition(at);
  }

  play() {
    if (this.isPlaying) return;
    this.isPlaying = true;
    if (this.isAtEnd) this.seek(this.first);
    this._timer = setInterval(() => this._tick(), TICK_MS);
    this._calls.onPosition(this.at);
  }

  pause() {
    if (!this.isPlaying) return;
    this.isPlaying = false;
    clearInterval(this._timer);
    this._calls.onPosition(this.at);
  }

  // A slow server plays slower, and skips nothing but what is shown.
  _tick() {
    if (this._isBusy) return;
    if (this.isAtEnd) {
      this.pause();
      return;
    }
    this._fraction += (this.eventsPerSecond * TICK_MS) / 1000;
    const events = Math.floor(this._fraction);
    this._fraction -= events;
    if (events > 0) this.seek(this.at + events);
  }
}
