// Splits a line of code into coloured parts. Only lines in view are split, so this keeps no state.

const NUMBER = String.raw`\b(?:0[xXbBoO][0-9a-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)`;
const WORD = String.raw`[A-Za-z_$\u00c0-\uffff][\w$\u00c0-\uffff]*`;
// A longer line is data or minified code, where colours help nobody.
const LINE_MAX = 2000;
const patterns = new WeakMap();

function patternOf(language) {
  let pattern = patterns.get(language);
  if (!pattern) {
    const parts = `(${language.comment})|(${language.string})|(${NUMBER})|(${WORD})`;
    pattern = new RegExp(parts, "g");
    patterns.set(language, pattern);
  }
  return pattern;
}

function kindOfWord(word, rest, language) {
  if (language.keywords.has(language.ignoresCase ? word.toLowerCase() : word)) return "keyword";
  return rest.startsWith("(") ? "call" : "";
}

/** `[[kind, text], ...]`; together the texts are the line. `kind` is comment, string, number, keyword, call or "". */
export function tokens(line, language) {
  if (!language || line.length > LINE_MAX) return [["", line]];
  const parts = [];
  let end = 0;
  for (const match of line.matchAll(patternOf(language))) {
    const [text, comment, string, number] = match;
    const after = match.index + text.length;
    let kind = "";
    if (comment !== undefined) kind = "comment";
    else if (string !== undefined) kind = "string";
    else if (number !== undefined) kind = "number";
    else kind = kindOfWord(text, line.slice(after, after + 1), language);
    if (!kind || !text) continue;
    if (match.index > end) parts.push(["", line.slice(end, match.index)]);
    parts.push([kind, text]);
    end = after;
  }
  if (end < line.length) parts.push(["", line.slice(end)]);
  return parts;
}
