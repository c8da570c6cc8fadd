// Characters that a reader of code cannot see and a compiler can: they are named, not dropped, so that a line that
// shows something else than it does is noticed.

const UNSEEN = /([\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|[\u{e0000}-\u{e007f}])/gu;
// A line break is unseen in a name, too.
const UNSEEN_IN_NAMES = new RegExp(`[\\t\\n]|${UNSEEN.source}`, "gu");

const nameOf = (character) => `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

/** A path or a command, with the names of what cannot be seen in it: it is what it looks like. */
export function exact(value) {
  return String(value).replace(UNSEEN_IN_NAMES, (character) => `[${nameOf(character)}]`);
}

/** `[[isUnseen, text], ...]`; an unseen character is given as its name, such as U+202E. */
export function split(line) {
  const text = line.endsWith("\r") ? line.slice(0, -1) : line;
  const parts = text.split(UNSEEN).map((part, index) => (index % 2 ? [true, nameOf(part)] : [false, part]));
  return parts.filter(([, part]) => part);
}
