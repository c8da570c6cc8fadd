// The keyboard: single keys, and `g` followed by a letter. Keys in a field belong to the field.

const SEQUENCE_MS = 1200;
// Fields that take no text.
const UNTYPED = new Set(["checkbox", "range"]);

/** `bind({ "j": run, "g b": run, "mod+k": run })`; a function that returns false leaves the key to the browser. */
export function bindKeys(bindings) {
  let prefix = "";
  let timer = null;
  document.addEventListener("keydown", (event) => {
    const name = nameOf(event);
    if (name === null || (isTyping(event.target) && !name.startsWith("mod+") && name !== "escape")) return;
    if (document.querySelector("dialog[open]") && name !== "mod+k") return;
    const sequence = prefix ? `${prefix} ${name}` : name;
    clearTimeout(timer);
    prefix = "";
    if (sequence === "g") {
      prefix = "g";
      timer = setTimeout(() => (prefix = ""), SEQUENCE_MS);
      return;
    }
    const run = bindings()[sequence];
    if (run && run(event) !== false) event.preventDefault();
  });
}

function nameOf(event) {
  if (event.altKey || event.isComposing) return null;
  const key = event.key.length === 1 ? event.key : event.key.toLowerCase();
  if (event.metaKey || event.ctrlKey) return `mod+${key.toLowerCase()}`;
  return key;
}

function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) && !UNTYPED.has(target.type);
}
