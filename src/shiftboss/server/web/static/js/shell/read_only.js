// Who is not logged in may look, where the server allows it, and is told how to do more.

import { command, h } from "../dom.js";

export function showLogin(session) {
  if (!session || session.logged_in) return;
  const text = session.can_read ? "Read-only. To answer and to act, log in:" : "Log in to see anything here. In a terminal, in the folder of the server:";
  const bar = h("p.login-bar", { role: "note" }, h("span", null, text), command("shiftboss open"));
  document.getElementById("main").before(bar);
}
