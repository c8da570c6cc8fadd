// A file of a diff as rows: hunks, lines, and notes about what is not shown.

export const ROWS_PER_BLOCK = 64;

const UNSEEN = {
  binary: "Binary file: its content is not shown.",
  renamed: "Renamed; no line changed.",
  same: "No line changed: an empty file, or only its mode.",
  truncated: "The rest of this file is too long to be shown here.",
};

/** `{type: "hunk" | "line" | "note", ...}`; a line has `sign`, `text`, and its number `before` and `after`. */
export function rowsOf(file) {
  const rows = [];
  if (file.binary) rows.push(note("binary"));
  else if (!file.hunks?.length && !file.truncated) rows.push(note(file.old_path ? "renamed" : "same"));
  for (const hunk of file.hunks ?? []) {
    rows.push({ type: "hunk", text: hunk.header });
    rows.push(...linesOf(hunk));
  }
  if (file.truncated) rows.push(note("truncated"));
  return rows;
}

const note = (why) => ({ type: "note", text: UNSEEN[why] });

function* linesOf(hunk) {
  let before = hunk.old_start;
  let after = hunk.new_start;
  for (const [sign, text] of hunk.lines) {
    yield { type: "line", sign, text, before: sign === "+" ? null : before, after: sign === "-" ? null : after };
    if (sign !== "+") before += 1;
    if (sign !== "-") after += 1;
  }
}

export const widestOf = (rows) => rows.reduce((widest, row) => Math.max(widest, row.text.length), 0);

/** The index of the row that shows a line of the new file; -1 if the diff does not show it. */
export const indexOfLine = (rows, line) => rows.findIndex((row) => row.after === line);

/** Some lines around a line of a file; without it, or if the diff does not show it, the first changed ones. */
export function excerptOf(file, line, around = 3) {
  const lines = rowsOf(file).filter((row) => row.type === "line");
  const wanted = line ? indexOfLine(lines, line) : -1;
  const first = wanted >= 0 ? wanted - around : lines.findIndex((row) => row.sign !== " ");
  return lines.slice(Math.max(0, first), Math.max(0, first) + 2 * around + 1);
}
