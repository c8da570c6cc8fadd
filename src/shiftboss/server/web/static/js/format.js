// Text for people. What comes from tasks, agents and logs is foreign: `clean` takes out what could
// change how its surroundings are shown.

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

// Escape sequences of terminals that colour the text or move the cursor, and the beginnings of others. What stands in a
// longer one, such as the title of a window, is shown: it could hide a part of what somebody decides on.
const ESCAPES = /(?:\u001b\[|\u009b)[0-9;:?]*[A-Za-z]?|\u001b[()][A-Z0-9]|\u001b[\\\]PX^_]?/g;
// Control characters other than tab and line feed; marks that change the direction of the text; line
// and paragraph separators; the byte order mark; tag characters.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;
const SUSPECT = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufeff\ufff9-\ufffb\udb40]/;

/** Foreign text without escapes, control characters and marks of direction. */
export function clean(value) {
  const text = String(value);
  return SUSPECT.test(text) ? text.replace(/\r\n?/g, "\n").replace(ESCAPES, "").replace(UNSEEN, "") : text;
}

/** The first line of a text, at most `max` characters. */
export function firstLine(value, max = 300) {
  const line = clean(value).trimStart().split("\n", 1)[0];
  return line.length > max ? `${line.slice(0, max - 1)}…` : line;
}

/**
 * Texts of the server begin in lower case where they follow a colon; here they stand alone. A name at the beginning,
 * one of `names` or one that is no plain word, stays as it is.
 */
export function sentence(text, names = []) {
  const [first] = text.split(/[\s,:;]/, 1);
  const isName = !/^[a-z]+$/.test(first) || names.includes(first);
  return isName ? text : text[0].toUpperCase() + text.slice(1);
}

export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

const GROUPED = new Intl.NumberFormat("en");

export function number(value) {
  return GROUPED.format(value);
}

/** 950, 12.3k, 4.1M: for tokens. */
export function compact(value) {
  if (value < 1000) return String(value);
  const [divisor, unit] = value < 999_500 ? [1e3, "k"] : [1e6, "M"];
  const scaled = value / divisor;
  return `${scaled < 10 ? scaled.toFixed(1) : Math.round(scaled)}${unit}`;
}

export function dollars(value) {
  if (value === 0) return "$0";
  if (value < 0.01) return "<$0.01";
  return value < 1000 ? `$${value.toFixed(2)}` : `$${number(Math.round(value))}`;
}

export function percent(share) {
  return `${Math.round(share * 100)}%`;
}

/** 8s, 4m, 1h 20m, 3d 4h: two units at most. */
export function duration(ms) {
  if (ms < MINUTE) return `${Math.max(0, Math.floor(ms / SECOND))}s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)}m`;
  if (ms < DAY) return pair(ms, HOUR, "h", MINUTE, "m");
  return pair(ms, DAY, "d", HOUR, "h");
}

/** With tenths, for what often takes less than a second. */
export function shortDuration(ms) {
  return ms < 10 * SECOND ? `${(ms / SECOND).toFixed(1)}s` : duration(ms);
}

function pair(ms, large, largeUnit, small, smallUnit) {
  const rest = Math.floor((ms % large) / small);
  return `${Math.floor(ms / large)}${largeUnit}${rest ? ` ${rest}${smallUnit}` : ""}`;
}

// The clock of the server: ages are right even if the clock of this machine is not.
let skew = 0;

export function setServerTime(ms) {
  skew = ms - Date.now();
}

export function now() {
  return Date.now() + skew;
}

export function age(ms) {
  return duration(now() - ms);
}

/** A time as milliseconds, whether the API has it as a number or as text. */
export function millis(value) {
  if (value == null || value === "") return null;
  return typeof value === "number" ? value : Date.parse(value);
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const CLOCK_SECONDS = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DATE = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const FULL = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

export function clock(ms, { seconds = false } = {}) {
  return (seconds ? CLOCK_SECONDS : CLOCK).format(ms);
}

/** 14:05 today, 3 Nov 14:05 on other days. */
export function when(ms) {
  const isToday = new Date(ms).toDateString() === new Date(now()).toDateString();
  return isToday ? clock(ms) : `${DATE.format(ms)} ${clock(ms)}`;
}

export function fullTime(ms) {
  return FULL.format(ms);
}

export function shortCommit(commit) {
  return clean(commit).slice(0, 8);
}

// From here on a worker is asked to write a checkpoint.
const CONTEXT_HIGH = 0.7;

/** The tone of a use of the context: `amber` when it is nearly full. */
export function toneOfContext(share) {
  return share >= CONTEXT_HIGH ? "amber" : "";
}

/** Where a task stands, as its worker reports it: `WORKING · writing new code · 2/3 files`. */
export function milestoneOf({ milestone, substate, progress }) {
  return [milestone, substate?.replaceAll("_", " "), progress].filter(Boolean).join(" · ");
}
