/* What is asked of an open page: an object of functions, each with what it found wrong. */
({
  figures: () => [...document.querySelectorAll("[data-figure]")],

  /* Plots follow their window a moment later; then two frames, and all is drawn. */
  settled() {
    const fits = (one) => Math.abs(one.querySelector("svg").clientWidth - one.clientWidth) < 2;
    return new Promise((done) => {
      const look = () => this.figures().every(fits)
        ? requestAnimationFrame(() => requestAnimationFrame(done)) : setTimeout(look, 20);
      look();
    });
  },

  wide() {
    const edge = document.documentElement.clientWidth + 1;
    return [...document.querySelectorAll("body *")]
      .filter((one) => !one.closest(".scroll, pre, .skip"))
      .filter((one) => one.getBoundingClientRect().right > edge)
      .map((one) => one.tagName + " " + one.textContent.trim().slice(0, 60));
  },

  words: (figure, kind) =>
    [...figure.querySelectorAll(kind)].filter((one) => one.textContent.trim()),

  cut() {
    return this.figures().flatMap((figure) => {
      const paper = figure.getBoundingClientRect();
      const outside = (box) => box.left < paper.left - 1 || box.right > paper.right + 1
        || box.top < paper.top - 1 || box.bottom > paper.bottom + 1;
      return this.words(figure, "svg text")
        .filter((one) => outside(one.getBoundingClientRect()))
        .map((one) => `${figure.dataset.figure}: ${one.textContent}`);
    });
  },

  overlapping() {
    const touch = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
      && a.top < b.bottom - 2 && b.top < a.bottom - 2;
    const pairs = (figure, kind) => {
      const words = this.words(figure, kind);
      const boxes = words.map((one) => one.getBoundingClientRect());
      return words.flatMap((one, at) => words.slice(at + 1)
        .filter((_, later) => touch(boxes[at], boxes[at + 1 + later]))
        .map((other) => `${figure.dataset.figure}: ${one.textContent} / ${other.textContent}`));
    };
    const kinds = [".xtick text", ".ytick text", ".legendtext", ".annotation-text"];
    return this.figures().flatMap((figure) => kinds.flatMap((kind) => pairs(figure, kind)));
  },

  empty() {
    const size = (box) => box.width + box.height;
    return this.figures()
      .filter((one) => ![...one.querySelectorAll(".point, .points path, .js-line, .js-fill")]
        .some((mark) => size(mark.getBoundingClientRect()) > 0))
      .map((one) => one.dataset.figure);
  },

  /* Text with less contrast to the colour behind it than asked for, as WCAG counts it. */
  pale(least) {
    const parsed = (text) => text.match(/[\d.]+/g).map(Number);
    const linear = (one) => (one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    const bright = (colour) => {
      const [r, g, b] = colour.slice(0, 3).map((one) => linear(one / 255));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (one) => {
      for (let at = one; at; at = at.parentElement) {
        const colour = parsed(getComputedStyle(at).backgroundColor);
        if (colour[3] === undefined) return colour;
      }
      return [255, 255, 255];
    };
    const found = new Set();
    for (const one of document.querySelectorAll("body *:not(script, style, noscript, .skip)")) {
      const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
      const style = getComputedStyle(one);
      if (!own || style.visibility === "hidden" || !one.getClientRects().length) continue;
      const colour = one.closest("svg") ? style.fill : style.color;
      const [low, high] = [bright(parsed(colour)), bright(behind(one))].sort((a, b) => a - b);
      const contrast = (high + 0.05) / (low + 0.05);
      if (contrast < least) found.add(`${contrast.toFixed(2)}: ${one.textContent.trim().slice(0, 40)}`);
    }
    return [...found];
  },
})
