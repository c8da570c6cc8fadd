// Lines of the changed files that a check is about: named by its violations, its mutants, or the output of its command.

const MENTIONS_MAX = 5;

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

// `path:12`, `path(12`, and `File "path", line 12` as Python writes it.
function inOutput(output, paths) {
  const found = [];
  for (const path of paths) {
    const pattern = new RegExp(`(?:^|[\\s"'(/])${escaped(path)}(?:"?, line |:|\\()(\\d{1,7})`, "gm");
    for (const match of output.matchAll(pattern)) found.push({ path, line: Number(match[1]), at: match.index });
  }
  return found.sort((left, right) => left.at - right.at);
}

function unique(mentions) {
  const seen = new Map();
  for (const { path, line } of mentions) seen.set(`${path}:${line ?? ""}`, { path, line: line ?? null });
  // A path alone says less than one of its lines.
  const named = new Set([...seen.values()].filter((each) => each.line).map((each) => each.path));
  return [...seen.values()].filter((each) => each.line || !named.has(each.path)).slice(0, MENTIONS_MAX);
}

/** `[{path, line}, ...]` for one check of a claim; `line` may be null. `paths` are those of the diff. */
export function mentionsOf(check, claim, paths) {
  const survivors = check.name === "mutants" ? (claim.mutants ?? []).filter((mutant) => mutant.subject === check.subject && !mutant.killed_by) : [];
  const violations = (claim.violations ?? []).filter((violation) => violation.check === check.name && violation.path);
  return unique([
    ...survivors.map(({ path, line }) => ({ path, line })),
    ...inOutput(check.evidence ?? "", paths),
    ...violations.map(({ path }) => ({ path })),
  ]);
}
