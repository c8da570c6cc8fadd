// Dialogs: the browser's own element keeps the focus inside and gives it back.

import { h } from "../dom.js";
import { errorNotice } from "./errors.js";

/** Show a dialog with this content; it is removed when it closes. Returns the element. */
export function showDialog(label, ...content) {
  const dialog = h("dialog", { "aria-label": label }, content);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/**
 * Ask for a text, a number, or only for a yes. `{ title, text, label, placeholder, button, tone, isRequired, type }`;
 * without a `label` there is nothing to type. `value` is what was typed before the server refused it, with the error
 * `refusal`. Resolves to the text (empty for a yes), or null.
 */
export function ask({ title, text, label, placeholder = "", button = "OK", tone = "primary", isRequired = true, type = "text", value = "", refusal = null }) {
  return new Promise((resolve) => {
    const field = label && input(type, { placeholder, required: isRequired, id: "dialog-field", value });
    const form = h(
      "form", { method: "dialog", onsubmit: submit },
      h("div.dialog-body.stack", null,
        h("h2", null, title),
        text && h("p.soft", null, text),
        refusal && errorNotice("That did not work", refusal),
        field && h("div", null, h("label.label", { for: "dialog-field" }, label), field)),
      h("div.dialog-foot", null,
        h("button.button.ghost", { type: "button", onclick: () => dialog.close() }, "Cancel"),
        h("button.button", { type: "submit", class: tone }, button)));
    let answer = null;
    function submit() {
      answer = field ? field.value.trim() : "";
    }
    field?.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) form.requestSubmit();
    });
    const dialog = showDialog(title, form);
    dialog.addEventListener("close", () => resolve(answer));
    field?.focus();
  });
}

function input(type, props) {
  return type === "text" ? h("textarea.field", { rows: "3", ...props }) : h("input.field", { type, min: "0", step: "any", ...props });
}
