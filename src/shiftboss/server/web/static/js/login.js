// The code of the login link is in the fragment, which reaches no server log; it is taken out of the
// address before anything else happens.

import { api } from "./api.js";
import { setText } from "./dom.js";

/** After the code, the link may say what to show: `#CODE/s/SWARM/board`. */
function takeCode() {
  const [code, ...route] = location.hash.slice(1).split("/");
  history.replaceState(null, "", location.pathname);
  return { code, route: route.join("/") };
}

async function logIn() {
  const { code, route } = takeCode();
  if (!code) return fail("There is no login code in this address", "A login link works once, within ten minutes.");
  try {
    await api.post("/login", { code });
    location.replace(`/#/${route}`);
  } catch (error) {
    fail("This link does not work any more", error.isUnreachable ? error.message : "A login link works once, within ten minutes.");
  }
}

function fail(title, text) {
  setText(document.getElementById("login-title"), title);
  setText(document.getElementById("login-text"), text);
  document.getElementById("login-help").hidden = false;
  document.getElementById("login-continue").hidden = false;
  document.title = `${title} · Shiftboss`;
}

// A new link that is opened in the tab of an old one changes the fragment alone.
window.addEventListener("hashchange", () => location.hash && logIn());
logIn();
