"use strict";
// Texts from the data are inserted as text nodes and attributes only, never as HTML.
const byId = (id) => document.getElementById(id);

function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

// ------------------------------------------------------------------ links to the sections

const heads = [...document.querySelectorAll("main h2")];
const links = heads.map((head, number) => {
  head.id = `part${number + 1}`;
  return make("a", { href: `#${head.id}` }, head.textContent);
});
if (links.length) document.querySelector("h1")?.after(make("nav", {}, ...links));

// ------------------------------------------------------------------ tables that can be sorted

const UNITS = { "": 1, s: 1, K: 1e3, M: 1e6, G: 1e9, "%": 1 };

/** The number at the start of a cell, such as 1.2M or 75 s; null if there is none. */
function number(text) {
  const match = /^([+-]?[\d,]*\.?\d+) ?([a-zA-Z%]*)/.exec(text.trim());
  return match && Number(match[1].replaceAll(",", "")) * (UNITS[match[2]] ?? 1);
}

function sortTable(table, column, sign) {
  const words = column === 0;
  const key = (row) => (words ? row.cells[0].textContent : number(row.cells[column].textContent));
  const order = (x, y) => (words ? x.localeCompare(y, "en", { numeric: true }) : x - y);
  const rows = [...table.tBodies[0].rows].map((row) => [key(row), row]);
  // Rows without a number, such as failed systems, stay last in both orders.
  rows.sort(([x], [y]) => (x === null) - (y === null) || (x === null ? 0 : sign * order(x, y)));
  table.tBodies[0].append(...rows.map(([, row]) => row));
}

for (const table of document.querySelectorAll("table:not(.matrix)")) {
  const heads = [...table.tHead.rows[0].cells];
  if (!table.tBodies[0] || table.tBodies[0].rows.length < 2) continue;
  heads.forEach((head, column) => {
    if (!head.textContent) return;
    const onclick = () => {
      const now = head.getAttribute("aria-sort");
      const up = now ? now === "descending" : column === 0; // numbers: the largest first
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      sortTable(table, column, up ? 1 : -1);
    };
    head.replaceChildren(make("button", { type: "button", title: "sort", onclick }, ...head.childNodes));
  });
}

if (byId("data")) showEvaluation();

function showEvaluation() {
  const data = JSON.parse(byId("data").textContent);
  const { names } = data;
  const chosen = { metric: data.metric, a: 0, b: 0, order: "gains", shown: 10 };
  const label = () => data.metrics[chosen.metric];
  const mean = (system) => data.means[system][chosen.metric];

  function signed(value, digits) {
    const text = Math.abs(value).toFixed(digits);
    return Number(text) === 0 ? text : (value > 0 ? "+" : "\u2212") + text;
  }

  function chance(p) {
    if (p === null) return "not tested";
    return p < 0.0001 ? "adjusted p < 0.0001" : `adjusted p = ${p.toFixed(4)}`;
  }

  /** The systems, best first by the chosen metric. */
  function ranked() {
    return names.map((_, system) => system).sort((a, b) => mean(b) - mean(a) || a - b);
  }

  /** The difference of two systems and its significance. */
  function test(a, b) {
    const { gained, p } = data.tests[chosen.metric];
    return { difference: mean(a) - mean(b), p: p[a][b], gained: gained[a][b], lost: gained[b][a] };
  }

  /** A system's values of the chosen metric, one per query. */
  const values = (system) => data.values[system][chosen.metric].map((value) => value / data.unit);

  // ------------------------------------------------------------------ the matrix of tests

  function matrixCell(a, b) {
    if (a === b) return make("td", { class: "same" });
    const { difference, p } = test(a, b);
    const stars = p === null || data.marked[a] || data.marked[b] ? 0 : (p < 0.001) + (p < 0.01) + (p < 0.05);
    const kind = stars ? (difference > 0 ? "win" : "lose") + stars : "";
    const onclick = () => {
      Object.assign(chosen, { a, b, order: "gains" });
      show();
      byId("queries").scrollIntoView();
    };
    const title = `${names[a]} minus ${names[b]}: ${signed(difference, 4)}, ${chance(p)}`;
    const here = a === chosen.a && b === chosen.b ? " chosen" : "";
    return make("td", { class: kind + here, title, onclick }, signed(difference, 3).replace("0.", ".") + "*".repeat(stars));
  }

  function showMatrix() {
    const order = ranked();
    const head = (text, title) => make("th", { scope: "col" }, make("abbr", { title }, text));
    const rows = order.map((a, rank) =>
      make(
        "tr",
        {},
        make("th", { scope: "row" }, `${rank + 1} ${names[a]}`),
        make("td", { class: "same" }, mean(a).toFixed(3)),
        ...order.map((b) => matrixCell(a, b)),
      ),
    );
    const heads = order.map((system, rank) => head(`${rank + 1}`, names[system]));
    const caption = `${label()}, ${data.measured.toLocaleString("en")} queries; columns are numbered as rows.`;
    byId("matrix").replaceChildren(
      make("caption", {}, make("span", {}, caption)),
      make("thead", {}, make("tr", {}, head("Row minus column", ""), head("Mean", ""), ...heads)),
      make("tbody", {}, ...rows),
    );
  }

  // ------------------------------------------------------------------ query by query

  /** A fixed pseudo-random number per query, which orders queries with equal values. */
  function lot(query) {
    const bits = Math.imul((query + 1) ^ ((query + 1) >>> 15), 0x2c1b3c6d);
    return Math.imul(bits ^ (bits >>> 12), 0x297a2d39) >>> 0;
  }

  /** For each order: the number that queries are sorted by, and which queries are listed. */
  const ORDERS = {
    gains: { number: (a, b) => a - b, listed: (x) => x > 0 },
    losses: { number: (a, b) => b - a, listed: (x) => x > 0 },
    best: { number: (a) => a, listed: (x) => x > 0 },
    worst: { number: (a) => 1 - a, listed: (x) => x > 0 },
  };

  function titleList(query, system) {
    const { top, grades } = data.rankings[query];
    const lines = top[system].map((title, index) =>
      make(
        "li",
        { class: grades[title] > 0 ? "good" : undefined },
        make("span", { class: "rank" }, `${index + 1}`),
        make("span", { class: "title" }, data.titles[title] || "(empty)"),
        make("span", { class: "grade" }, grades[title] > 0 ? `grade ${grades[title]}` : ""),
      ),
    );
    const side = `${names[system]}: ${values(system)[query].toFixed(3)}`;
    return make("div", {}, make("h4", {}, side), make("ol", { class: "titles" }, ...lines));
  }

  /** A row of the list. It can be opened if the page has the titles of the query. */
  function queryItem(query, text, kind) {
    const parts = [make("span", { class: "query" }, data.queries[query] || "(empty)")];
    if (data.new.includes(query)) parts.push(make("span", { class: "tag" }, "not in the log"));
    parts.push(make("span", { class: `value ${kind}` }, text));
    if (!data.rankings[query]) return make("div", { class: "row" }, ...parts);
    const inside = make("div", { class: "inside" });
    const ontoggle = () => {
      if (inside.firstChild) return;
      const { relevant, more } = data.rankings[query];
      const texts = relevant.map(([title, grade]) => `${data.titles[title] || "(empty)"} (${grade})`);
      const sides = [...new Set([chosen.a, chosen.b])].map((system) => titleList(query, system));
      const also = `Relevant (grade): ${texts.join("; ")}${more ? ` and ${more} more` : ""}`;
      inside.append(make("div", { class: "pair" }, ...sides), make("p", { class: "soft" }, also));
    };
    return make("details", { ontoggle }, make("summary", {}, ...parts), inside);
  }

  function showQueries() {
    const { a, b, order } = chosen;
    const words = byId("words").value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (query) => words.every((word) => data.queries[query].toLowerCase().includes(word));
    const { number, listed } = ORDERS[order];
    const [ours, theirs] = [values(a), values(b)];
    const numbers = ours.map((value, query) => number(value, theirs[query]));
    const withoutTitles = (query) => (data.rankings[query] ? 0 : 1);
    const selected = numbers
      .map((_, query) => query)
      .filter((query) => (words.length ? matches(query) : listed(numbers[query])))
      .sort((x, y) => numbers[y] - numbers[x] || withoutTitles(x) - withoutTitles(y) || lot(x) - lot(y));
    const differs = order === "gains" || order === "losses";
    const items = selected.slice(0, chosen.shown).map((query) => {
      const difference = ours[query] - theirs[query];
      if (!differs) return queryItem(query, ours[query].toFixed(3), "");
      return queryItem(query, signed(difference, 3), difference > 0 ? "gain" : difference < 0 ? "loss" : "");
    });
    const onclick = () => {
      chosen.shown += 20;
      showQueries();
    };
    const left = selected.length - items.length;
    if (left > 0) items.push(make("button", { type: "button", class: "more", onclick }, `${left.toLocaleString("en")} more`));
    byId("list").replaceChildren(...(items.length ? items : [make("p", { class: "soft" }, "None.")]));
    const all = a === b ? {} : test(a, b);
    byId("summary").textContent =
      a === b
        ? `${names[a]}: ${mean(a).toFixed(3)} ${label()}.`
        : `${names[a]} minus ${names[b]}: ${signed(all.difference, 3)} ${label()}, ${chance(all.p)}; ` +
          `${all.gained} queries gained, ${all.lost} lost, ${data.measured - all.gained - all.lost} did not change.`;
  }

  // ------------------------------------------------------------------ selection

  function show() {
    for (const select of document.querySelectorAll("select")) select.value = chosen[select.dataset.key];
    chosen.shown = 10;
    if (names.length > 1) showMatrix();
    showQueries();
  }

  const options = (texts) => texts.map((text, value) => make("option", { value }, text));
  for (const select of document.querySelectorAll("select[data-key]")) {
    const { key } = select.dataset;
    if (key !== "order") select.append(...options(key === "metric" ? data.metrics : names));
    select.addEventListener("change", () => {
      chosen[key] = key === "order" ? select.value : Number(select.value);
      show();
    });
  }
  byId("words").addEventListener("input", showQueries);
  chosen.a = ranked()[0];
  chosen.b = data.references[chosen.a] ?? ranked()[1] ?? chosen.a;
  const ranked_queries = Object.keys(data.rankings).length;
  byId("carried").textContent =
    `Listed here are ${data.queries.length.toLocaleString("en")} of ${data.measured.toLocaleString("en")} queries, the first titles of ` +
    `every system for ${ranked_queries} of them: the best and worst of each system, and those on which the first two differ most. Counts and tests are of all; ` +
    "per_query.tsv and runs/ hold everything.";
  if (names.length < 2) {
    byId("tests").hidden = true;
    chosen.order = "worst";
  }
  show();
}
