// Who is not logged in may look, where the server allows it, and is told how to do more.

import { command, empty, h } from "../dom.js";

const OPEN = "shiftboss open";
const READ_ONLY = "Read-only. To answer and to act, log in:";
const ENDED = "You are no longer logged in. In a terminal, in the folder of the server:";
const shown = { bar: null, text: "" };

/** A line above the views, until somebody is logged in. */
export function showLogin(session) {
  const text = !session || session.logged_in ? "" : session.can_read ? READ_ONLY : ENDED;
  if (text === shown.text) return;
  shown.bar?.remove();
  shown.text = text;
  shown.bar = text ? h("p.login-bar", { role: "note" }, h("span", null, text), command(OPEN)) : null;
  if (shown.bar) document.getElementById("main").before(shown.bar);
}

/** What is shown instead of all views, if nothing may be read without a login. */
export function loginNeeded() {
  return h("div.page", null,
    h("h1.visually-hidden", null, "Log in"),
    empty("Log in to see anything here", "The command opens the page with a link that works once. In a terminal, in the folder of the server:", OPEN));
}
