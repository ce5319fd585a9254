/* Draws the page's figures in the colours of its style sheet, and anew when those change: what Plotly keeps
   of an axis that is gone, its margin, would push the rest aside. */
(() => {
  "use strict";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const mouse = matchMedia("(hover: hover)");
  const narrow = matchMedia("(max-width: 44rem)");
  const paper = 680; /* pixels: what fits between the margins of a printed page */

  /* "$good" is the style sheet's --good; only keys that are colours are looked at. */
  function painted(value, key, style) {
    if (Array.isArray(value)) return value.map((one) => painted(one, key, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, painted(one, name, style)]));
    }
    const named = typeof value === "string" && /color$/.test(key) && /^\$[a-z]+$/.test(value);
    return named ? style.getPropertyValue("--" + value.slice(1)).trim() : value;
  }

  function axis(own) {
    const plain = { gridcolor: "$line", linecolor: "$line", zeroline: false, automargin: true, tickfont: { color: "$quiet" } };
    const title = own && own.title ? { ...own.title, font: { size: 12, color: "$quiet" }, standoff: 8 } : undefined;
    return { ...plain, ...own, title };
  }

  function laid(layout, width) {
    return {
      margin: { l: 8, r: 28, t: 12, b: 40 }, /* half of the last number stands right of its tick */
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      hoverlabel: { bgcolor: "$raised", bordercolor: "$line", font: { color: "$ink", size: 13 } },
      dragmode: mouse.matches ? "zoom" : false,
      hovermode: "closest",
      ...layout,
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", xanchor: "left", ...layout.legend },
      ...(width ? { width, autosize: false } : { autosize: true }),
      font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", size: 13, color: "$ink" },
      xaxis: axis(layout.xaxis),
      yaxis: axis(layout.yaxis),
    };
  }

  function draw(width) {
    const style = getComputedStyle(document.documentElement);
    for (const place of document.querySelectorAll("[data-figure]")) {
      const figure = JSON.parse(document.getElementById(place.dataset.figure).textContent);
      const data = painted(figure.data, "", style);
      const own = !width && narrow.matches ? { ...figure.layout, ...figure.narrow } : figure.layout;
      const layout = painted(laid(own, width), "", style);
      Plotly.newPlot(place, data, layout, { displayModeBar: false, responsive: true, doubleClick: "reset" });
    }
  }

  function drawAgain() {
    if (!document.documentElement.classList.contains("on-paper")) draw();
  }

  draw();
  dark.addEventListener("change", drawAgain);
  narrow.addEventListener("change", drawAgain);
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("on-paper");
    draw(paper);
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("on-paper");
    draw();
  });
})();
