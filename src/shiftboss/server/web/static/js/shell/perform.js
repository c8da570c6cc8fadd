// Do an action: ask what has to be asked, send it, and say what came of it.

import { ask } from "./dialogs.js";

/** `ids`: the tasks whose cards change; `value`: what was typed already; `onError`: shows a refusal in place. */
export async function perform(each, ctx, { ids = [], value = null, onError } = {}) {
  const input = value ?? (each.ask ? await ask(each.ask) : "");
  return input === null ? null : ctx.act(each.done, () => each.run(input), { ids, onError });
}
