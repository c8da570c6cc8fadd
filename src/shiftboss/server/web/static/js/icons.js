// Shapes for states: each can be told from the others without its colour.

const NAMESPACE = "http://www.w3.org/2000/svg";

// Drawn on a grid of 16. `f` is filled, `s` a stroke.
const SHAPES = {
  needs_you: [["f", "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1Zm-.9 3.5h1.8v4.6H7.100ZM8 10.300a1 1 0 1 1 0 2.100 1 1 0 0 1 0-2.100Z"]],
  failed: [["s", "M8 1.750a6.250 6.250 0 1 1 0 12.500 6.250 6.250 0 0 1 0-12.500ZM5.700 5.700l4.600 4.600M10.300 5.700l-4.600 4.600"]],
  running: [["s", "M8 1.750a6.250 6.250 0 1 1 0 12.500 6.250 6.250 0 0 1 0-12.500Z"], ["f", "M8 4.500a3.500 3.500 0 0 1 0 7Z"]],
  verifying: [["s", "M8 1.750a6.250 6.250 0 1 1 0 12.500 6.250 6.250 0 0 1 0-12.500Z"], ["f", "M8 4.500a3.500 3.500 0 1 1-3.500 3.500H8Z"]],
  waiting: [["d", "M8 1.750a6.250 6.250 0 1 1 0 12.500 6.250 6.250 0 0 1 0-12.500Z"]],
  accepted: [["s", "M8 1.750a6.250 6.250 0 1 1 0 12.500 6.250 6.250 0 0 1 0-12.500ZM5.200 8.200l2 2 3.600-4.200"]],
  done: [["f", "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1Zm3.600 4.900-4.300 5.200-2.900-2.900 1.060-1.060 1.740 1.740 3.240-3.940Z"]],
  cancelled: [["s", "M8 1.750a6.250 6.250 0 1 1 0 12.500 6.250 6.250 0 0 1 0-12.500ZM5 8h6"]],
  paused: [["s", "M8 1.750a6.250 6.250 0 1 1 0 12.500 6.250 6.250 0 0 1 0-12.500ZM6.400 5.600v4.800M9.600 5.600v4.800"]],
  question: [["s", "M8 1.750a6.250 6.250 0 1 1 0 12.500 6.250 6.250 0 0 1 0-12.500ZM6.300 6.300a1.750 1.750 0 1 1 2.600 1.500c-.600.330-.900.700-.900 1.400M8 11.400v.100"]],
  board: [["s", "M2.500 3h3v10h-3ZM6.500 3h3v6.500h-3ZM10.500 3h3v8h-3Z"]],
  graph: [["s", "M4 2.500a1.500 1.500 0 1 1 0 3 1.500 1.500 0 0 1 0-3ZM4 10.500a1.500 1.500 0 1 1 0 3 1.500 1.500 0 0 1 0-3ZM12 6.500a1.500 1.500 0 1 1 0 3 1.500 1.500 0 0 1 0-3ZM5.500 4.300l5 3M5.500 11.700l5-3"]],
  workers: [["s", "M6 2.500a2.500 2.500 0 1 1 0 5 2.500 2.500 0 0 1 0-5ZM1.500 13.500c0-2.700 1.900-4.200 4.500-4.200s4.500 1.500 4.500 4.200M11 3a2.200 2.200 0 0 1 0 4.200M12 9.600c1.700.500 2.600 1.900 2.600 3.900"]],
  events: [["s", "M2.500 4h.100M5.500 4h8M2.500 8h.100M5.500 8h8M2.500 12h.100M5.500 12h8"]],
  replay: [["s", "M3 8a5 5 0 1 0 1.600-3.650M3 2.500v2.600h2.600M8 5.300V8l2 1.300"]],
  inbox: [["s", "M2 9l1.800-5.500h8.400L14 9v3.500H2ZM2 9h3.500l1 1.700h3L10.500 9H14"]],
  runs: [["s", "M3 3.500h10M3 8h10M3 12.500h6"], ["s", "M11.500 11l1.300 1.300 2-2.300"]],
  repos: [["s", "M4 2.500h8.500v11H4.500A1.500 1.500 0 0 1 3 12V3.500a1 1 0 0 1 1-1ZM3 11.200a1.300 1.300 0 0 1 1.300-.700h8.200M6 5.300h3.500"]],
  search: [["s", "M7 2.500a4.500 4.500 0 1 1 0 9 4.500 4.500 0 0 1 0-9ZM10.400 10.400l3.100 3.100"]],
  sun: [["s", "M8 5.250a2.750 2.750 0 1 1 0 5.500 2.750 2.750 0 0 1 0-5.500ZM8 1.500v1.300M8 13.200v1.300M1.500 8h1.300M13.200 8h1.300M3.400 3.400l.900.900M11.700 11.700l.900.900M3.400 12.600l.900-.900M11.700 4.300l.900-.900"]],
  moon: [["s", "M13.300 9.700A5.700 5.700 0 0 1 6.300 2.700a5.700 5.700 0 1 0 7 7Z"]],
  chevron: [["s", "M4.500 6.500 8 10l3.500-3.500"]],
  retry: [["s", "M13 8a5 5 0 1 1-1.600-3.650M13 2.500v2.600h-2.600"]],
  money: [["s", "M8 1.750a6.250 6.250 0 1 1 0 12.500 6.250 6.250 0 0 1 0-12.500ZM9.800 6.200c-.300-.700-.900-1-1.800-1-1.100 0-1.800.500-1.800 1.300 0 1.900 3.700 1 3.700 3 0 .800-.800 1.300-1.900 1.300-1 0-1.700-.400-2-1.100M8 4.200v1M8 10.800v1"]],
  open: [["s", "M6 3.500h6.500V10M12 4 4 12"]],
  copy: [["s", "M5.500 5.500h7v7h-7ZM3.500 10.500v-7h7"]],
  diff: [["s", "M8 3v6M5 6h6M5 12.500h6"]],
  check: [["s", "M3.500 8.500l3 3 6-7"]],
  cross: [["s", "M4 4l8 8M12 4l-8 8"]],
  clock: [["s", "M8 1.750a6.250 6.250 0 1 1 0 12.500 6.250 6.250 0 0 1 0-12.500ZM8 4.500V8l2.500 1.500"]],
};

/** An icon, hidden from screen readers: the words beside it say the same. */
export function icon(name, className = "icon-shape") {
  const svg = document.createElementNS(NAMESPACE, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", className);
  svg.setAttribute("aria-hidden", "true");
  for (const [kind, path] of SHAPES[name] ?? []) svg.append(drawn(kind, path));
  return svg;
}

function drawn(kind, path) {
  const shape = document.createElementNS(NAMESPACE, "path");
  shape.setAttribute("d", path);
  if (kind === "f") {
    shape.setAttribute("fill", "currentColor");
    shape.setAttribute("fill-rule", "evenodd");
    return shape;
  }
  shape.setAttribute("fill", "none");
  shape.setAttribute("stroke", "currentColor");
  shape.setAttribute("stroke-width", "1.5");
  shape.setAttribute("stroke-linecap", "round");
  shape.setAttribute("stroke-linejoin", "round");
  if (kind === "d") shape.setAttribute("stroke-dasharray", "2.4 2.5");
  return shape;
}
