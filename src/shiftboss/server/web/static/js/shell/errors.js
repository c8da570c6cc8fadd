// A refusal of the server, in place: what happened, and what helps.

import { h, hintParts } from "../dom.js";

export function errorNotice(title, error) {
  return h("div.notice.red", { role: "alert" }, h("p", null, h("strong", null, title), `: ${error.message}`), error.hint && h("p.hint", null, hintParts(error.hint)));
}
