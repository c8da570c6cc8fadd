// A virtual list: only the rows in sight are in the document, so ten thousand cost as much as fifty.

const OVERSCAN_PX = 400;
const SETTLE_MS = 4000;

/**
 * `new VirtualList(scroller, { key, height, create, update })`.
 *
 * `key(item)` is unique and stays; `height(item)` is known before it is shown, so nothing jumps; `create(item)`
 * makes the element of a row, `update(element, item)` changes it in place. `target` (optional) selects what gets the
 * focus in a row. A row that came while somebody looked has `data-new` for a while. With `setItems`, the row under the pointer, or the focused one, stays where
 * it is on the screen; rows above it that went or came move into the space that is scrolled away.
 */
export class VirtualList {
  constructor(scroller, options) {
    this._scroller = scroller;
    this._options = options;
    this._space = document.createElement("div");
    this._space.className = "vlist-space";
    this._space.setAttribute("role", options.role ?? "list");
    if (options.label) this._space.setAttribute("aria-label", options.label);
    this._items = [];
    this._tops = [0];
    this._rows = new Map();
    this._indexes = new Map();
    this._shift = 0;
    this._pointerY = null;
    scroller.classList.add("vlist");
    scroller.append(this._space);
    this._listen();
  }

  _listen() {
    const draw = () => this._draw();
    this._scroller.addEventListener("scroll", draw, { passive: true });
    this._resized = new ResizeObserver(draw);
    this._resized.observe(this._scroller);
    this._scroller.addEventListener("pointermove", (event) => (this._pointerY = event.clientY), { passive: true });
    this._scroller.addEventListener("pointerleave", () => {
      this._pointerY = null;
      this._settle();
    });
  }

  close() {
    this._resized.disconnect();
    this._rows.clear();
  }

  get items() {
    return this._items;
  }

  /** `marksNew`: rows that were not there before are marked. */
  setItems(items, { marksNew = true } = {}) {
    const anchor = this._anchor();
    const known = this._indexes;
    this._items = items;
    this._measure();
    this._hold(anchor);
    this._draw({ known: marksNew ? known : null, isUpdate: true });
  }

  _measure() {
    const { height, key } = this._options;
    this._tops = new Float64Array(this._items.length + 1);
    this._indexes = new Map();
    this._items.forEach((item, index) => {
      this._tops[index + 1] = this._tops[index] + height(item);
      this._indexes.set(key(item), index);
    });
    this._resize();
  }

  _resize() {
    this._space.style.height = `${this._tops[this._items.length] + this._shift}px`;
  }

  /** The row that must not move: the focused one, else the one under the pointer, else the first in sight. */
  _anchor() {
    const focused = document.activeElement?.closest?.(".vlist-row");
    const index = focused && this._space.contains(focused) ? this._indexes.get(focused.vlistKey) : this._indexAtPointer();
    const item = this._items[index];
    return item === undefined ? null : { key: this._options.key(item), y: this._tops[index] + this._shift - this._scroller.scrollTop };
  }

  _indexAtPointer() {
    const { scrollTop } = this._scroller;
    if (this._pointerY !== null) {
      return this._indexAt(scrollTop - this._shift + this._pointerY - this._scroller.getBoundingClientRect().top);
    }
    return scrollTop > 0 ? this._indexAt(scrollTop - this._shift) : undefined;
  }

  _hold(anchor) {
    const index = anchor && this._indexes.get(anchor.key);
    if (index == null) return;
    const wanted = this._tops[index] + this._shift - anchor.y;
    if (wanted < 0) {
      // There is nothing left to scroll back to: keep the row in its place until the pointer leaves.
      this._shift -= wanted;
      this._resize();
    }
    const scrollTop = Math.max(0, wanted);
    if (scrollTop !== this._scroller.scrollTop) this._scroller.scrollTop = scrollTop;
  }

  _settle() {
    if (this._shift === 0) return;
    const { scrollTop } = this._scroller;
    const scrolled = Math.min(scrollTop, this._shift);
    this._shift = 0;
    this._resize();
    if (scrolled) this._scroller.scrollTop = scrollTop - scrolled;
    this._draw();
  }

  _indexAt(y) {
    let low = 0;
    let high = this._items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this._tops[middle + 1] <= y) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  _draw({ known = null, isUpdate = false } = {}) {
    const { scrollTop, clientHeight } = this._scroller;
    if (clientHeight === 0) return;
    const top = scrollTop - this._shift;
    const first = this._indexAt(top - OVERSCAN_PX);
    const last = Math.min(this._items.length - 1, this._indexAt(top + clientHeight + OVERSCAN_PX));
    const gone = new Map(this._rows);
    for (let index = first; index <= last; index++) {
      const key = this._options.key(this._items[index]);
      gone.delete(key);
      this._drawRow(key, index, known, isUpdate);
    }
    for (const [key, row] of gone) this._drop(key, row);
  }

  /** A focused row that scrolled out of sight stays: the keyboard must not lose its place. */
  _drop(key, row) {
    const index = this._indexes.get(key);
    if (index !== undefined && row.contains(document.activeElement)) {
      this._place(row, index);
      return;
    }
    const hadFocus = row.contains(document.activeElement);
    row.remove();
    this._rows.delete(key);
    if (hadFocus) this._options.onLostFocus?.(row.vlistIndex);
  }

  _drawRow(key, index, known, isUpdate) {
    const item = this._items[index];
    let row = this._rows.get(key);
    if (!row) {
      row = this._createRow(key, item);
      if (known?.size && !known.has(key)) this._mark(row);
    } else if (isUpdate && row.vlistItem !== item) {
      this._options.update(row.firstChild, item);
    }
    row.vlistItem = item;
    this._place(row, index);
  }

  _createRow(key, item) {
    const row = document.createElement("div");
    row.className = "vlist-row";
    row.setAttribute("role", this._options.rowRole ?? "listitem");
    row.vlistKey = key;
    row.append(this._options.create(item));
    this._rows.set(key, row);
    return row;
  }

  /** Rows are kept in their order in the document, for the Tab key and for screen readers. */
  _place(row, index) {
    row.vlistIndex = index;
    const height = this._tops[index + 1] - this._tops[index];
    row.style.transform = `translateY(${this._tops[index] + this._shift}px)`;
    row.style.height = `${height}px`;
    row.setAttribute("aria-setsize", String(this._items.length));
    row.setAttribute("aria-posinset", String(index + 1));
    const before = this._rowBefore(index);
    if (before ? before.nextSibling !== row : this._space.firstChild !== row) {
      if (!row.contains(document.activeElement) || !row.isConnected) this._space.insertBefore(row, before ? before.nextSibling : this._space.firstChild);
    }
  }

  _rowBefore(index) {
    if (index === 0) return null;
    const row = this._rows.get(this._options.key(this._items[index - 1]));
    return row?.isConnected ? row : null;
  }

  _mark(row) {
    row.dataset.new = "";
    setTimeout(() => delete row.dataset.new, SETTLE_MS);
  }

  /** Bring a row into sight and focus what can be focused in it. */
  focusIndex(index, target = this._options.target ?? "a, button, [tabindex]") {
    if (index < 0 || index >= this._items.length) return false;
    const top = this._tops[index] + this._shift;
    const bottom = this._tops[index + 1] + this._shift;
    const { scrollTop, clientHeight } = this._scroller;
    if (top < scrollTop) this._scroller.scrollTop = top;
    else if (bottom > scrollTop + clientHeight) this._scroller.scrollTop = bottom - clientHeight;
    this._draw();
    const row = this._rows.get(this._options.key(this._items[index]));
    const element = row?.querySelector(target);
    element?.focus({ preventScroll: true });
    return Boolean(element);
  }

  focusKey(key) {
    const index = this._indexes.get(key);
    return index !== undefined && this.focusIndex(index);
  }

  /** The index of the row that has the focus, or -1. */
  get focusedIndex() {
    const row = document.activeElement?.closest?.(".vlist-row");
    return row && this._space.contains(row) ? row.vlistIndex : -1;
  }

  move(delta) {
    const index = this.focusedIndex;
    return this.focusIndex(index < 0 ? 0 : Math.max(0, Math.min(this._items.length - 1, index + delta)));
  }
}
