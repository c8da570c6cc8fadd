// Elements of the drawing. Text is set as text, as everywhere.

import { setAttribute } from "../dom.js";
import { clean } from "../format.js";

const NAMESPACE = "http://www.w3.org/2000/svg";

export function s(name, attributes = {}, ...children) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) if (value != null && value !== false) setAttribute(element, key, value);
  for (const child of children) if (child != null) element.append(child instanceof Node ? child : document.createTextNode(clean(child)));
  return element;
}

/** A text that fits: SVG does not cut off by itself. */
export function cut(text, max) {
  const cleaned = clean(text).replaceAll("\n", " ");
  const points = [...cleaned];
  return points.length > max ? `${points.slice(0, max - 1).join("")}…` : cleaned;
}
