// The places of the page, with their keys: the navigation, the palette, the keyboard and the help have the same ones.

export const OF_SWARM = [
  { view: "board", title: "Board", key: "g b" },
  { view: "graph", title: "Graph", key: "g t" },
  { view: "workers", title: "Workers", key: "g w" },
  { view: "events", title: "Events", key: "g e" },
  { view: "replay", title: "Replay", key: "g p" },
];
export const OF_ALL = [
  { view: "inbox", title: "Inbox", key: "g i" },
  { view: "runs", title: "Runs", key: "g r" },
  { view: "repos", title: "Repos", key: "g o" },
];
export const PLACES = [...OF_SWARM, ...OF_ALL];

/** Whether a view shows all runs, and not one of them. */
export const isOfAll = (view) => OF_ALL.some((place) => place.view === view);
