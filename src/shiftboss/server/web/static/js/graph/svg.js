// Elements of the drawing. Text is set as text, as everywhere.

import { setAttribute } from "../dom.js";
import { clean } from "../format.js";

const NAMESPACE = "http://www.w3.org/2000/svg";
// No node is wide enough for more, so longer texts are not measured.
const FIT_CHARACTERS = 100;

export function s(name, attributes = {}, ...children) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) if (value != null && value !== false) setAttribute(element, key, value);
  for (const child of children) if (child != null) element.append(child instanceof Node ? child : document.createTextNode(clean(child)));
  return element;
}

/** A text of at most `max` characters: SVG does not cut off by itself. */
export function cut(text, max) {
  const cleaned = clean(text).replaceAll("\n", " ");
  const points = [...cleaned];
  return points.length > max ? `${points.slice(0, max - 1).join("")}…` : cleaned;
}

/** The same without its middle: the ends of ids tell tasks apart. */
export function cutMiddle(text, max) {
  const points = [...clean(text).replaceAll("\n", " ")];
  if (points.length <= max) return points.join("");
  const end = Math.floor((max - 1) / 2);
  return `${points.slice(0, max - 1 - end).join("")}…${points.slice(-end).join("")}`;
}

const canvas = document.createElement("canvas").getContext("2d");

/** A text that is at most `width` pixels wide in this font, whose letters may be narrow or wide. */
export function fit(text, width, font) {
  canvas.font = font;
  const points = [...cut(text, FIT_CHARACTERS)];
  const isTooWide = (shown) => canvas.measureText(shown).width > width;
  if (!isTooWide(points.join(""))) return points.join("");
  let [shortest, longest] = [0, points.length - 1];
  while (shortest < longest) {
    const middle = Math.ceil((shortest + longest) / 2);
    if (isTooWide(`${points.slice(0, middle).join("")}…`)) longest = middle - 1;
    else shortest = middle;
  }
  return `${points.slice(0, shortest).join("")}…`;
}
