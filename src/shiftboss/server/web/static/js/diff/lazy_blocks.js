// Long lists of rows of one height. Only the blocks near the window have content; the browser scrolls as usual.

const MARGIN = "600px 0px";

/**
 * Fill `body` with blocks of `perBlock` rows. `draw(row, index)` makes a row. Returns `{show(index), stop()}`; `show`
 * makes sure that a row is there, and returns it.
 */
export function lazyBlocks(body, rows, { perBlock, rowHeight, draw }) {
  const blocks = [];
  const observer = new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => {
    if (isIntersecting) fill(target);
    else target.replaceChildren();
  }), { rootMargin: MARGIN });

  function fill(block) {
    if (block.childElementCount) return;
    const start = blocks.indexOf(block) * perBlock;
    block.append(...rows.slice(start, start + perBlock).map((row, offset) => draw(row, start + offset)));
  }

  for (let start = 0; start < rows.length; start += perBlock) {
    const block = document.createElement("div");
    block.style.setProperty("height", `${Math.min(perBlock, rows.length - start) * rowHeight}px`);
    blocks.push(block);
    body.append(block);
    observer.observe(block);
  }
  return {
    show(index) {
      const block = blocks[Math.floor(index / perBlock)];
      if (block) fill(block);
      return block?.children[index % perBlock] ?? null;
    },
    stop: () => observer.disconnect(),
  };
}
