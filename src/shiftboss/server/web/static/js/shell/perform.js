// Do an action: ask what has to be asked, send it, and say what came of it.

import { ask } from "./dialogs.js";

/**
 * `ids`: the tasks whose cards change; `value`: what was typed already; `onError`: shows a refusal in place; `within`:
 * the element whose controls are disabled while the server decides. What was typed into a dialog is not lost if the
 * server refuses: the dialog opens again, and says why.
 */
export async function perform(each, ctx, { ids = [], value = null, onError, within = null } = {}) {
  const isTyped = value === null && Boolean(each.ask?.label);
  let dialog = each.ask;
  for (;;) {
    const input = value ?? (dialog ? await ask(dialog) : "");
    if (input === null) return null;
    let refusal = null;
    const options = { ids, onError: isTyped ? (error) => (refusal = error) : onError };
    const answer = await withoutControls(within, () => ctx.act(each.done, () => each.run(input), options));
    if (!refusal) return answer;
    dialog = { ...each.ask, value: input, refusal };
  }
}

/** While the server decides, nothing can be sent twice. */
async function withoutControls(element, run) {
  const controls = [...(element?.querySelectorAll("button, textarea") ?? [])].filter((control) => !control.disabled);
  controls.forEach((control) => (control.disabled = true));
  try {
    return await run();
  } finally {
    controls.forEach((control) => (control.disabled = false));
  }
}
