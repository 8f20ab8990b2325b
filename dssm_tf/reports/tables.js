"use strict";
// Texts of the data reach the page as text nodes and attributes only, never as HTML.
const data = JSON.parse(document.getElementById("data").textContent);
const names = data.systems.map((system) => system.name);
const chosen = { metric: data.metric, a: 0, b: 0, one: -1 };

function byId(id) {
  return document.getElementById(id);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function make(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function draw(tag, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function signed(value, digits) {
  const text = Math.abs(value).toFixed(digits);
  return Number(text) === 0 ? text : (value > 0 ? "+" : "\u2212") + text;
}

function count(number) {
  return number.toLocaleString("en");
}

function chance(p) {
  if (p === null) return "not tested";
  return p < 0.0001 ? "p < 0.0001" : `p = ${p.toFixed(4)}`;
}

/** Places of the systems, best first by the chosen metric. */
function ranked() {
  const mean = (place) => data.systems[place].means[chosen.metric];
  return names.map((_, place) => place).sort((a, b) => mean(b) - mean(a) || a - b);
}

/** The test of two systems, seen from the first. */
function test(a, b) {
  const [low, high] = [Math.min(a, b), Math.max(a, b)];
  const n = names.length;
  const place = low * n - (low * (low + 1)) / 2 + high - low - 1;
  const all = data.tests[chosen.metric];
  const sign = a < b ? 1 : -1;
  return {
    difference: sign * all.difference[place],
    p: all.p[place],
    gained: (a < b ? all.gained : all.lost)[place],
    lost: (a < b ? all.lost : all.gained)[place],
  };
}

function sortTable(table, column, direction) {
  const body = table.tBodies[0];
  const sign = direction === "ascending" ? 1 : -1;
  const key = (row) => {
    const text = (row.cells[column] || { dataset: {} }).dataset.value;
    if (!text) return null;
    return column === 0 ? text : Number(text);
  };
  const order = (x, y) => (column === 0 ? x.localeCompare(y, "en", { numeric: true }) : x - y);
  const rows = [...body.rows].map((row) => ({ row, key: key(row) }));
  // Rows without a value, failed systems among them, stay last either way.
  const last = ({ row, key: value }) => value === null || row.classList.contains("failed");
  rows.sort((x, y) => last(x) - last(y) || (last(x) ? 0 : sign * order(x.key, y.key)));
  body.append(...rows.map(({ row }) => row));
}

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const onclick = () => {
      const now = head.getAttribute("aria-sort");
      const turned = now === "ascending" ? "descending" : "ascending";
      const direction = now ? turned : head.dataset.first;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", direction);
      sortTable(table, column, direction);
    };
    head.replaceChildren(make("button", { type: "button", onclick }, head.textContent));
  });
  table.caption.firstChild.append(" Press a head to sort.");
}

function level(p) {
  if (p === null) return 0;
  return p < 0.001 ? 3 : p < 0.01 ? 2 : p < 0.05 ? 1 : 0;
}

function matrixCell(a, b) {
  if (a === b) return make("td", { class: "same" });
  const found = test(a, b);
  const stars = level(found.p);
  const kind = stars ? (found.difference > 0 ? "win" : "lose") + stars : "";
  return make(
    "td",
    {
      class: kind + (a === chosen.a && b === chosen.b ? " chosen" : ""),
      title: `${names[a]} minus ${names[b]}: ${signed(found.difference, 4)}, ${chance(found.p)}`,
      onclick: () => {
        [chosen.a, chosen.b] = [a, b];
        show();
        byId("pair").scrollIntoView();
      },
    },
    signed(found.difference, 3).replace("0.", ".") + "*".repeat(stars),
  );
}

function showMatrix() {
  const order = ranked();
  const label = data.metrics[chosen.metric].label;
  const heads = order.map((place, rank) =>
    make("th", { scope: "col", title: names[place] }, make("abbr", { title: names[place] }, `${rank + 1}`)),
  );
  const rows = order.map((a, rank) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, `${rank + 1} ${names[a]}`),
      make("td", { class: "same" }, data.systems[a].means[chosen.metric].toFixed(3)),
      ...order.map((b) => matrixCell(a, b)),
    ),
  );
  const head = make("tr", {}, make("th", { scope: "col" }, "Row minus column"), make("th", { scope: "col" }, "Mean"), ...heads);
  const pairs = (order.length * (order.length - 1)) / 2;
  const tests = pairs === 1 ? "1 pair" : `${count(pairs)} pairs`;
  byId("matrix").replaceChildren(
    make(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Tests, scrolls sideways" },
      make(
        "table",
        { class: "matrix" },
        make("caption", {}, make("span", {}, `${label}: ${tests} over ${count(data.measured)} queries; columns are numbered as rows.`)),
        make("thead", {}, head),
        make("tbody", {}, ...rows),
      ),
    ),
  );
}
