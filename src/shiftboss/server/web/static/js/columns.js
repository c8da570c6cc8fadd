// The columns of the board, in the order in which they matter, and how each state looks everywhere.

export const COLUMNS = [
  { name: "needs_you", title: "Needs you", tone: "red" },
  { name: "failed", title: "Failed", tone: "red" },
  { name: "running", title: "Running", tone: "plain" },
  { name: "verifying", title: "Verifying", tone: "plain" },
  { name: "waiting", title: "Waiting", tone: "quiet" },
  { name: "accepted", title: "Accepted", tone: "green" },
  { name: "done", title: "Done", tone: "green" },
];

const BY_NAME = new Map(COLUMNS.map((column) => [column.name, column]));

function columnOf(card) {
  return BY_NAME.get(card.column) ?? BY_NAME.get("waiting");
}

/** The icon, the tone and the word for a card: `{ icon, tone, word }`. */
export function lookOf(card) {
  if (card.status === "cancelled") return { icon: "cancelled", tone: "quiet", word: "Cancelled" };
  if (card.column === "done" && card.landed_commit) return { icon: "done", tone: "green", word: "Landed" };
  if (card.hold === "pause" && card.column === "waiting") return { icon: "paused", tone: "quiet", word: "Paused" };
  const column = columnOf(card);
  return { icon: column.name, tone: column.tone, word: column.title };
}
