// The change feed: which swarms and tasks changed, for every open page once per 200 ms.

const RETRY_MS = [500, 1000, 2000, 4000, 8000];

/**
 * `onHello(hello)`: connected, so load what is shown; `onChanges(swarms)`; `onReload()`: changes were missed;
 * `onLost()`: the connection broke, and the feed tries again by itself.
 */
export function openFeed({ onHello, onChanges, onReload, onLost }) {
  let source = null;
  let timer = null;
  let failures = 0;

  function connect() {
    timer = null;
    source = new EventSource("/changes");
    source.addEventListener("hello", (event) => {
      failures = 0;
      onHello(JSON.parse(event.data));
    });
    source.addEventListener("changes", (event) => onChanges(JSON.parse(event.data).swarms));
    source.addEventListener("reload", () => onReload());
    source.addEventListener("error", lost);
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

  window.addEventListener("online", retryNow);
  document.addEventListener("visibilitychange", () => document.hidden || retryNow());
  connect();
}
