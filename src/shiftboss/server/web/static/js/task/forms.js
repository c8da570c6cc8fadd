// Forms that ask before something is done. They stand in the page, not over it, so that they work with a thumb.

import { h, setText } from "../dom.js";

let forms = 0;

function field({ name, label, placeholder = "", required = true, value = "" }) {
  const id = `field-${(forms += 1)}`;
  const input = h("textarea.field", { id, name, placeholder, required, rows: "2", dir: "auto", value });
  return { name, input, element: h("div", null, h("label.label", { for: id }, label), input) };
}

/**
 * `{fields, buttons: [{label, tone, run(values), required}], cancel()}`. A button is off while it works. `run` returns
 * whether the form is done. Ctrl+Enter is the first button.
 */
export function form({ title = null, text = null, fields = [], buttons, cancel = null }) {
  const inputs = fields.map(field);
  const problem = h("p.tone-red", { role: "alert" });
  const elements = buttons.map(({ label, tone = "" }, index) =>
    h("button.button", { type: "button", class: tone, onclick: () => run(index) }, label),
  );

  async function run(index) {
    const values = Object.fromEntries(inputs.map(({ name, input }) => [name, input.value.trim()]));
    const missing = buttons[index].needsText === false ? null : inputs.find(({ input }) => input.required && !input.value.trim());
    if (missing) {
      setText(problem, "Write something first.");
      missing.input.focus();
      return;
    }
    setText(problem, "");
    for (const element of elements) element.disabled = true;
    try {
      await buttons[index].run(values);
    } finally {
      for (const element of elements) element.disabled = false;
    }
  }

  const keys = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run(0);
    if (event.key === "Escape" && cancel) {
      event.stopPropagation();
      cancel();
    }
  };
  return h(
    "form.ask",
    { onsubmit: (event) => event.preventDefault(), onkeydown: keys },
    title && h("h3", null, title),
    text && h("p.soft", null, text),
    inputs.map(({ element }) => element),
    problem,
    h("div.buttons", null, elements, cancel && h("button.button.ghost", { type: "button", onclick: cancel }, "Back")),
  );
}

export function focusFirst(element) {
  element.querySelector("textarea, button")?.focus();
}
