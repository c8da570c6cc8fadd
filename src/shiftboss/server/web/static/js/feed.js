// The change feed: which swarms and tasks changed, for every open page once per 200 ms.

const RETRY_MS = [500, 1000, 2000, 4000, 8000];
// The server says something every 15 seconds. A connection that says nothing for so long is dead, also if the browser
// does not know it yet: the computer slept, or a firewall has forgotten it.
const SILENCE_MS = 40_000;
const LOOK_MS = 5000;

/**
 * `onHello(hello)`: connected, so load what is shown; `onChanges(swarms)`; `onReload()`: changes were missed;
 * `onLost()`: the connection broke, and the feed tries again by itself.
 */
export function openFeed({ onHello, onChanges, onReload, onLost }) {
  let source = null;
  let timer = null;
  let failures = 0;
  let heardAt = 0;

  function connect() {
    timer = null;
    source = new EventSource("/changes");
    heardAt = Date.now();
    listen("hello", (event) => {
      failures = 0;
      onHello(JSON.parse(event.data));
    });
    listen("changes", (event) => onChanges(JSON.parse(event.data).swarms));
    listen("reload", () => onReload());
    listen("ping", () => {});
    source.addEventListener("error", lost);
  }

  function listen(name, handle) {
    source.addEventListener(name, (event) => {
      heardAt = Date.now();
      handle(event);
    });
  }

  function lost() {
    source?.close();
    source = null;
    onLost();
    if (timer === null) timer = setTimeout(connect, RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)]);
  }

  function retryNow() {
    if (timer === null) return;
    clearTimeout(timer);
    connect();
  }

  function look() {
    if (source && Date.now() - heardAt > SILENCE_MS) lost();
  }

  function lookAndRetry() {
    look();
    retryNow();
  }

  window.addEventListener("online", lookAndRetry);
  document.addEventListener("visibilitychange", () => document.hidden || lookAndRetry());
  setInterval(look, LOOK_MS);
  connect();
}
