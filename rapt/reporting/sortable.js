// Tables are sorted by a button in each column's heading, of the report and of the site.
"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const text = (cell) => {
    const parts = [...((cell?.querySelector("b, code") ?? cell)?.childNodes ?? [])];
    const first = parts.findIndex((part) => !["#text", "ABBR"].includes(part.nodeName));
    return parts.slice(0, first < 0 ? undefined : Math.max(first, 1)).map((part) => part.textContent).join("").trim();
  };
  const value = (row, column) => {
    const shown = text(row.cells[column]).replace(/^η = /, "").replace("\u2212", "-").replaceAll(",", "");
    if (/^(–|missing|)$/.test(shown)) return null;
    const number = /^[+-]?\d/.test(shown) ? parseFloat(shown) : { inf: Infinity, "∞": Infinity }[shown];
    return number ?? shown;
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  const sort = (table, heading, column) => {
    const direction = heading.ariaSort === "ascending" ? "descending" : "ascending";
    all("thead th", table).forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    const rows = [...table.tBodies[0].rows].map((row) => [value(row, column), row]);
    rows.sort(([a], [b]) => (a === null) - (b === null) || (a === null ? 0 : sign * compare(a, b)));
    table.tBodies[0].append(...rows.map(([, row]) => row));
  };
  // Where each heading stands, as some span rows or columns.
  const columns = (table) => {
    const found = new Map();
    const taken = [...table.tHead.rows].map(() => []);
    [...table.tHead.rows].forEach((row, y) => {
      for (const heading of row.cells) {
        let x = 0;
        while (taken[y][x]) x += 1;
        for (let j = 0; j < heading.rowSpan; j += 1)
          for (let i = 0; i < heading.colSpan; i += 1) taken[y + j][x + i] = true;
        if (heading.colSpan === 1) found.set(heading, x);
      }
    });
    return found;
  };
  const tables = all("table.sortable, .md-typeset table:not([class])"); // the report's, and the site's
  for (const table of tables.filter((table) => table.tBodies[0].rows.length > 2))
    for (const [heading, column] of columns(table)) {
      const control = document.createElement("button");
      control.type = "button";
      control.append(...heading.childNodes);
      control.addEventListener("click", () => sort(table, heading, column));
      heading.append(control);
    }
})();
