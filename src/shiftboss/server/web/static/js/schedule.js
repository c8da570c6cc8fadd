// When work is done: once per frame, never more often than the eye can follow, hardly at all in a tab
// that nobody sees (which gets no frames).

const HIDDEN_MS = 1000;

/** A function that runs `work` once in the next frame, however often it is called before. */
export function perFrame(work) {
  let isPlanned = false;
  const run = () => {
    isPlanned = false;
    work();
  };
  return () => {
    if (isPlanned) return;
    isPlanned = true;
    if (document.hidden) setTimeout(run, HIDDEN_MS);
    else requestAnimationFrame(run);
  };
}

/**
 * A function that asks for `work` (async): one at a time, with at least `pauseMs` between two. Calls that
 * come meanwhile lead to one more.
 */
export function oneAtATime(work, pauseMs) {
  let isBusy = false;
  let isWanted = false;
  return async function ask() {
    if (isBusy) {
      isWanted = true;
      return;
    }
    isBusy = true;
    try {
      await work();
    } finally {
      setTimeout(() => {
        isBusy = false;
        if (isWanted) {
          isWanted = false;
          ask();
        }
      }, pauseMs);
    }
  };
}
