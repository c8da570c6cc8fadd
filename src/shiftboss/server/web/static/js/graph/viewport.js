// Moving around in the drawing: the browser scrolls it, the pointer drags it, keys and buttons change its size.

import { toggleAttribute } from "../dom.js";

const STEP = 1.25;
const SIZES = { min: 0.2, max: 2 };
const DRAG_PX = 4;
// In a smaller drawing only the ids of the tasks are shown, larger.
const DETAILS_FROM = 0.8;

/** `{setDrawing(svg, layout), zoom(steps), fit(), center(place, size)}` for a scrolling element. */
export function viewport(scroller, onZoom) {
  const view = { scale: 1, layout: null, svg: null };

  function resize() {
    view.svg.setAttribute("width", Math.round(view.layout.width * view.scale));
    view.svg.setAttribute("height", Math.round(view.layout.height * view.scale));
    toggleAttribute(view.svg, "data-small", view.scale < DETAILS_FROM);
    onZoom(view.scale);
  }

  function setScale(scale, at = { x: scroller.clientWidth / 2, y: scroller.clientHeight / 2 }) {
    if (view.svg === null) return;
    const bounded = Math.min(SIZES.max, Math.max(SIZES.min, scale));
    const ratio = bounded / view.scale;
    const left = (scroller.scrollLeft + at.x) * ratio - at.x;
    const top = (scroller.scrollTop + at.y) * ratio - at.y;
    view.scale = bounded;
    resize();
    scroller.scrollTo(left, top);
  }

  function fit() {
    if (view.svg === null) return;
    const scale = Math.min(1, scroller.clientWidth / view.layout.width, scroller.clientHeight / view.layout.height);
    // Smaller than this, nothing could be read: the rest is scrolled to.
    setScale(Math.max(scale, 0.55));
  }

  function setDrawing(svg, layout) {
    const isFirst = view.svg === null;
    Object.assign(view, { svg, layout });
    scroller.replaceChildren(svg);
    if (isFirst) fit();
    else resize();
  }

  function center(place, size) {
    const x = (place.x + size.width / 2) * view.scale - scroller.clientWidth / 2;
    const y = (place.y + size.height / 2) * view.scale - scroller.clientHeight / 2;
    scroller.scrollTo(x, y);
  }

  scroller.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = scroller.getBoundingClientRect();
    setScale(view.scale * Math.exp(-event.deltaY / 300), { x: event.clientX - box.left, y: event.clientY - box.top });
  }, { passive: false });
  dragged(scroller);
  return { setDrawing, fit, center, zoom: (steps) => setScale(view.scale * STEP ** steps) };
}

// Touch screens scroll by themselves.
function dragged(scroller) {
  let start = null;
  scroller.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch" || event.button !== 0) return;
    start = { x: event.clientX, y: event.clientY, left: scroller.scrollLeft, top: scroller.scrollTop, isDrag: false };
  });
  scroller.addEventListener("pointermove", (event) => {
    if (!start) return;
    const [x, y] = [event.clientX - start.x, event.clientY - start.y];
    start.isDrag ||= Math.hypot(x, y) > DRAG_PX;
    if (start.isDrag) scroller.scrollTo(start.left - x, start.top - y);
  });
  const end = () => {
    if (start?.isDrag) scroller.addEventListener("click", (event) => event.preventDefault(), { once: true, capture: true });
    start = null;
  };
  scroller.addEventListener("pointerup", end);
  scroller.addEventListener("pointerleave", () => (start = null));
  scroller.addEventListener("dragstart", (event) => event.preventDefault());
}
