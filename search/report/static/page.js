"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 640px)");

  // Colours and room come from the page, so that one figure serves light, dark, wide and narrow.
  const dress = (figure) => {
    const css = getComputedStyle(document.documentElement);
    const colour = (name) => css.getPropertyValue(name).trim();
    const layout = structuredClone(figure.layout);
    layout.font = { family: getComputedStyle(document.body).fontFamily, size: narrow.matches ? 11 : 13, color: colour("--ink") };
    layout.hoverlabel = { ...layout.hoverlabel, bgcolor: colour("--wash"), bordercolor: colour("--rule"), font: { color: colour("--ink") } };
    for (const axis of ["xaxis", "yaxis"]) {
      layout[axis] = { ...layout[axis], gridcolor: colour("--rule"), linecolor: colour("--rule"), zeroline: false, automargin: true };
    }
    if (narrow.matches) layout.margin = { ...layout.margin, l: 44, r: 10 };
    return layout;
  };
  const figures = [...document.querySelectorAll(".plot")].map((place) => {
    const figure = JSON.parse(document.getElementById(place.dataset.figure).textContent);
    return { place, figure };
  });
  const draw = () => {
    for (const { place, figure } of figures) {
      Plotly.react(place, figure.data, dress(figure), { responsive: true, displaylogo: false, displayModeBar: false });
    }
  };
  draw();
  dark.addEventListener("change", draw);
  narrow.addEventListener("change", draw);

  // Tables: a click sorts by the cell's data-v, a second click turns the order. Empty cells stay last.
  const sortBy = (header) => {
    const table = header.closest("table");
    const column = header.cellIndex;
    const first = header.classList.contains("n") && header.dataset.low === undefined ? "descending" : "ascending";
    const before = header.getAttribute("aria-sort");
    const order = before === null ? first : before === "ascending" ? "descending" : "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const value = (row) => row.cells[column].dataset.v ?? "";
    const compare = (one, two) => {
      const a = value(one), b = value(two);
      if (a === "" || b === "") return (a === "") - (b === "");
      return sign * (header.classList.contains("n") ? a - b : a.localeCompare(b, "en", { numeric: true }));
    };
    const body = table.tBodies[0];
    body.append(...[...body.rows].sort(compare));
  };
  for (const button of document.querySelectorAll("th button")) {
    button.addEventListener("click", () => sortBy(button.closest("th")));
  }
})();
