// When work is done: once per frame, never more often than the eye can follow, hardly at all in a tab
// that nobody sees.

const HIDDEN_MS = 1000;

/** A function that runs `work` once in the next frame, however often it is called before. */
export function perFrame(work) {
  let frame = null;
  let timer = null;
  const run = () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
    frame = null;
    work();
  };
  return () => {
    if (frame !== null) return;
    frame = requestAnimationFrame(run);
    // A hidden tab gets no frames, also if it is hidden only now.
    timer = setTimeout(run, HIDDEN_MS);
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
