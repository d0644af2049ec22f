// What the page does beyond being read: its theme, its place in the navigation, its tables' files
// and its charts. It loads nothing; without it the page stands as it is, with the figures drawn.
"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // The theme: the system's, until the reader chooses; a page from disk may have no storage.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const remember = (theme) => {
    try {
      localStorage.setItem("rapt-theme", theme);
    } catch {}
  };
  const remembered = () => {
    try {
      return localStorage.getItem("rapt-theme");
    } catch {
      return null;
    }
  };
  const themed = () => {
    button.setAttribute("aria-pressed", isDark());
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember(root.dataset.theme);
    themed();
  });
  dark.addEventListener("change", themed);

  // The section that is read is marked in the navigation, and kept in its sight.
  const links = all("nav a");
  const sections = links.map((link) => document.getElementById(link.hash.slice(1)));
  let current;
  const mark = () => {
    const line = innerHeight / 3;
    const above = sections.filter((section) => section.getBoundingClientRect().top < line);
    const last = Math.max(above.length - 1, 0);
    if (links[last] === current) return;
    current?.removeAttribute("aria-current");
    current = links[last];
    current.setAttribute("aria-current", "true");
    const list = current.closest("ul");
    list.scrollLeft = current.offsetLeft - (list.clientWidth - current.offsetWidth) / 2;
  };
  addEventListener("scroll", () => requestAnimationFrame(mark), { passive: true });
  addEventListener("toggle", mark, { capture: true }); // it moves the sections below

  // A link to what is folded, or into it, opens it.
  const unfold = () => {
    const target = document.getElementById(location.hash.slice(1));
    const inside = target?.querySelector(":scope > details");
    for (let at = inside ?? target; at; at = at.parentElement) if (at.matches("details")) at.open = true;
    target?.scrollIntoView();
  };
  addEventListener("hashchange", unfold);

  // A term of the glossary explains itself where a section has it first: on hover, focus and tap.
  const meanings = JSON.parse(document.getElementById("terms").textContent);
  const meaning = new Map(Object.entries(meanings).map(([name, text]) => [name.toLowerCase(), text]));
  const names = [...meaning.keys()].sort((a, b) => b.length - a.length);
  const any = names.map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}_-])(${any})(?=(?:s|es)?(?![\\p{L}\\p{N}_-]))`, "iu");
  const unmarked = "svg, code, pre, script, select, button, mark, q, a, summary, h1, .kicker, .sentence td, .canvas";
  const explain = (area) => {
    const seen = new Set();
    const walker = document.createTreeWalker(area, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      const found = node.parentElement.closest(unmarked) ? null : pattern.exec(node.data);
      if (!found) continue;
      const rest = node.splitText(found.index + found[0].length);
      const own = node.splitText(found.index);
      const name = found[0].toLowerCase();
      if (!seen.has(name)) {
        const term = document.createElement("abbr");
        term.dataset.name = name;
        term.setAttribute("aria-describedby", "term");
        if (!rest.parentElement.closest("thead")) term.tabIndex = 0; // a heading is a button
        own.replaceWith(term);
        term.append(own);
        seen.add(name);
      }
      walker.currentNode = own;
    }
    area.normalize();
  };
  const tip = document.createElement("div");
  Object.assign(tip, { id: "term", popover: "manual", role: "tooltip" });
  const tell = ({ target }) => {
    const term = target.closest?.("abbr");
    tip.hidePopover();
    if (!term) return;
    tip.textContent = meaning.get(term.dataset.name);
    tip.showPopover();
    const { left, top, bottom } = term.getBoundingClientRect();
    const below = bottom + 6 + tip.offsetHeight < innerHeight;
    tip.style.left = `${Math.max(8, Math.min(left, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${below ? bottom + 6 : Math.max(8, top - 6 - tip.offsetHeight)}px`;
  };
  for (const kind of ["mouseover", "focusin", "click"]) document.addEventListener(kind, tell);
  addEventListener("keydown", ({ key }) => key === "Escape" && tip.hidePopover());
  for (const kind of ["wheel", "touchmove"]) addEventListener(kind, () => tip.hidePopover(), { passive: true });
  document.body.append(tip);
  all("header, section").forEach(explain);

  // Each table can be saved as it stands.
  const quoted = (cell) => {
    const parts = [...cell.childNodes].map((part) => part.textContent.trim()).filter(Boolean);
    return `"${parts.join(" ").replaceAll('"', '""')}"${",".repeat(cell.colSpan - 1)}`;
  };
  for (const table of all("table")) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "csv", textContent: "CSV" });
    button.addEventListener("click", () => {
      const lines = [...table.rows].map((row) => [...row.cells].map(quoted).join(","));
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/csv" }));
      link.download = `${table.closest("section").id}.csv`;
      link.click();
      URL.revokeObjectURL(link.href);
    });
    table.createCaption().append(button);
  }

  // A chart shows one figure of its section, live and as wide as the page.
  const draw = async (chart) => {
    const canvas = chart.querySelector(".canvas");
    const menu = chart.querySelector("select");
    let shown;
    const show = async () => {
      const figure = document.getElementById(menu.value);
      const { title, ...spec } = JSON.parse(figure.querySelector("script").textContent);
      Object.assign(spec, { width: "container", height: 400 });
      spec.config.background = "transparent";
      shown?.finalize();
      shown = await vegaEmbed(canvas, spec, { actions: false, renderer: "svg", ast: true });
      await shown.view.resize().runAsync(); // the legend's columns follow the width
      canvas.setAttribute("aria-label", figure.querySelector("svg > title").textContent);
      chart.querySelector(".caption").textContent = figure.querySelector("figcaption").textContent;
    };
    chart.parentElement.classList.add("live");
    menu.onchange = show;
    try {
      await show();
    } catch (error) {
      chart.parentElement.classList.remove("live");
      console.error(error);
    }
  };

  const chosen = remembered();
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
  button.hidden = false;
  themed();
  mark();
  unfold();
  for (const chart of all(".chart")) {
    const folded = chart.closest("details:not([open])"); // where it has no width
    if (folded) folded.addEventListener("toggle", () => draw(chart), { once: true });
    else draw(chart);
  }
})();
