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
  // Names beside marks need room that a narrow page does not have; they are in the hover text too.
  const traces = (figure) =>
    narrow.matches ? figure.data.map((trace) => ({ ...trace, mode: trace.mode && trace.mode.replace("+text", "") })) : figure.data;
  const figures = [...document.querySelectorAll(".plot")].map((place) => {
    const figure = JSON.parse(document.getElementById(place.dataset.figure).textContent);
    return { place, figure };
  });
  const draw = () => {
    for (const { place, figure } of figures) {
      Plotly.react(place, traces(figure), dress(figure), { responsive: true, displaylogo: false, displayModeBar: false });
    }
  };
  const start = async () => {
    if (!figures.length) return;
    const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (char) => char.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const library = document.createElement("script");
    library.textContent = await new Response(stream).text();
    document.head.append(library);
    draw();
    dark.addEventListener("change", draw);
    narrow.addEventListener("change", draw);
    document.documentElement.dataset.drawn = "yes";
  };
  start();

  // Tables: a click sorts by the cell's data-v, a second click turns the order. Empty cells stay last.
  const number = /[-+]?[\d,]*\.?\d+/;
  const value = (row, column, numeric) => {
    const cell = row.cells[column];
    const text = cell.dataset.v ?? (cell.firstChild ? cell.firstChild.textContent.trim() || cell.textContent.trim() : "");
    return numeric ? (text.match(number)?.[0].replaceAll(",", "") ?? "") : text;
  };
  const sortBy = (header, wanted) => {
    const table = header.closest("table");
    const column = header.cellIndex;
    const first = header.classList.contains("n") && header.dataset.low === undefined ? "descending" : "ascending";
    const before = header.getAttribute("aria-sort");
    const order = wanted ?? (before === null ? first : before === "ascending" ? "descending" : "ascending");
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const numeric = header.classList.contains("n");
    const compare = (one, two) => {
      const a = value(one, column, numeric), b = value(two, column, numeric);
      if (a === "" || b === "") return (a === "") - (b === "");
      return sign * (numeric ? a - b : a.localeCompare(b, "en", { numeric: true }));
    };
    const body = table.tBodies[0];
    body.append(...[...body.rows].sort(compare));
  };
  for (const button of document.querySelectorAll("th button")) {
    button.addEventListener("click", () => sortBy(button.closest("th")));
  }

  // Where rows are cards, each cell says what its column is.
  for (const table of document.querySelectorAll("table")) {
    const labels = [...table.tHead.rows[0].cells].map((header) => header.textContent);
    for (const row of table.tBodies[0].rows) {
      for (const cell of row.cells) cell.dataset.label = labels[cell.cellIndex];
    }
  }

  // A word above a table filters it; where its rows are cards, a list takes the place of the headings.
  for (const table of document.querySelectorAll("table[data-sorts]")) {
    const rows = [...table.tBodies[0].rows];
    if (rows.length < 6) continue;
    const tools = document.createElement("div");
    tools.className = "tools";
    const filter = document.createElement("input");
    filter.type = "search";
    filter.placeholder = `filter ${rows.length} rows`;
    filter.setAttribute("aria-label", "Filter rows");
    filter.addEventListener("input", () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    });
    const sort = document.createElement("label");
    sort.className = `sort sort-of-${table.className}`;
    sort.append("sort by ");
    const list = document.createElement("select");
    for (const header of table.tHead.rows[0].cells) list.add(new Option(header.textContent, header.cellIndex));
    list.addEventListener("change", () => sortBy(table.tHead.rows[0].cells[list.value]));
    sort.append(list);
    tools.append(filter, sort);
    table.before(tools);
  }

  const copied = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  };
  for (const button of document.querySelectorAll(".copy")) {
    button.addEventListener("click", async () => {
      await copied(button.parentElement.querySelector("pre").textContent.trim());
      button.textContent = "copied";
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
  }
})();
