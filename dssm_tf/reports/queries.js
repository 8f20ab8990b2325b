"use strict";
const AT_FIRST = 10; // queries listed before one asks for more
const FURTHER = 20;
const MEAN_OF_ALL = -1;
const newQueries = new Set(data.new);
const unpacked = data.values.map((metrics) => metrics.map(() => null));

/** A system's values of the chosen metric, a number a query. */
function values(system) {
  const kept = unpacked[system];
  if (!kept[chosen.metric]) {
    const bytes = atob(data.values[system][chosen.metric]);
    kept[chosen.metric] = Array.from(
      { length: bytes.length / 2 },
      (_, i) => (bytes.charCodeAt(2 * i) + 256 * bytes.charCodeAt(2 * i + 1)) / data.unit,
    );
  }
  return kept[chosen.metric];
}

/** A number a query, the same in each visit, by which equals stand in no order of ids or texts. */
const lot = data.queries.map((_, query) => {
  let bits = Math.imul((query + 1) ^ ((query + 1) >>> 15), 0x2c1b3c6d);
  bits = Math.imul(bits ^ (bits >>> 12), 0x297a2d39);
  return (bits ^ (bits >>> 15)) >>> 0;
});

/** Places of queries by falling value; of equal ones, those with titles first, then by lot. */
function fallingOrder(numbers) {
  const bare = (query) => (data.rankings[query] ? 0 : 1);
  return numbers
    .map((_, query) => query)
    .sort((x, y) => numbers[y] - numbers[x] || bare(x) - bare(y) || lot[x] - lot[y]);
}

function risingOrder(numbers) {
  return fallingOrder(numbers.map((number) => -number));
}

function titleList(query, system) {
  const { top, grades } = data.rankings[query];
  const lines = top[system].map((title, place) => {
    const grade = grades[title];
    const line = make(
      "li",
      { class: grade > 0 ? "good" : undefined },
      make("span", { class: "rank" }, `${place + 1}`),
      make("span", { class: "title" }, data.titles[title] || "(empty)"),
    );
    if (grade > 0) line.append(make("span", { class: "grade" }, `grade ${grade}`));
    return line;
  });
  return make("ol", { class: "titles" }, ...(lines.length ? lines : [make("li", {}, "nothing ranked")]));
}

function relevantTitles(query) {
  const { relevant, more } = data.rankings[query];
  const texts = relevant.map(([title, grade]) => `${data.titles[title] || "(empty)"} (${grade})`);
  return make("p", { class: "soft" }, `Relevant (grade): ${texts.join("; ")}${more ? ` and ${more} more` : ""}`);
}

/** One line of a list, which opens where the page has the titles. */
function queryItem(query, value, kind, systems) {
  const parts = [make("span", { class: "query" }, data.queries[query] || "(empty)")];
  if (newQueries.has(query)) parts.push(make("span", { class: "tag" }, "not in log"));
  parts.push(make("span", { class: `value ${kind}` }, value));
  if (!data.rankings[query]) return make("div", { class: "row" }, ...parts);
  const inside = make("div", { class: "inside" });
  const details = make("details", {}, make("summary", {}, ...parts), inside);
  details.addEventListener("toggle", () => {
    if (!details.open || inside.firstChild) return;
    const sides = systems.map((system) =>
      make("div", {}, make("h4", {}, `${names[system]}: ${values(system)[query].toFixed(3)}`), titleList(query, system)),
    );
    inside.append(make("div", { class: "pair" }, ...sides), relevantTitles(query));
  });
  return details;
}

/** A list that grows when asked to. */
function showList(id, queries, item) {
  const box = byId(id);
  box.replaceChildren();
  let listed = 0;
  const more = make("button", { type: "button", class: "more" });
  const grow = (step) => {
    more.remove();
    box.append(...queries.slice(listed, listed + step).map(item));
    listed = Math.min(queries.length, listed + step);
    if (listed < queries.length) {
      more.textContent = `${Math.min(FURTHER, queries.length - listed)} more of ${count(queries.length - listed)}`;
      box.append(more);
    }
  };
  more.addEventListener("click", () => {
    const next = listed;
    grow(FURTHER);
    const first = box.children[next];
    (first.querySelector("summary") || first).focus();
  });
  if (queries.length) grow(AT_FIRST);
  else box.append(make("p", { class: "soft" }, "None."));
}

/** The queries that hold all words of the search box, in part or whole, with the values of a and b. */
function showFound() {
  const words = byId("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  const holds = (text) => words.every((word) => text.toLowerCase().includes(word));
  const places = data.queries.map((_, query) => query);
  const found = words.length ? places.filter((query) => holds(data.queries[query])) : [];
  const { a, b } = chosen;
  const pair = a === b ? [a] : [a, b];
  byId("found-summary").textContent = words.length
    ? `${count(found.length)} of ${count(places.length)} queries; ${data.metrics[chosen.metric].label} of ` +
      `${pair.map((system) => names[system]).join(" and ")}, the systems chosen above.`
    : "";
  const item = (query) =>
    queryItem(query, pair.map((system) => values(system)[query].toFixed(3)).join("  "), "", pair);
  if (words.length) showList("found", found, item);
  else byId("found").replaceChildren();
}

function showPair() {
  const { a, b } = chosen;
  const label = data.metrics[chosen.metric].label;
  const summary = byId("pair-summary");
  if (a === b) {
    summary.textContent = "Choose two different systems.";
    byId("bars").replaceChildren();
    byId("gains").replaceChildren();
    byId("losses").replaceChildren();
    return;
  }
  const found = test(a, b);
  const equal = data.measured - found.gained - found.lost;
  summary.replaceChildren(
    `${names[a]} minus ${names[b]}: ${signed(found.difference, 3)} ${label}, ${chance(found.p)}${found.p === null ? "" : " adjusted"}. `,
    make("span", { class: "gain" }, `${count(found.gained)} queries gained`),
    ", ",
    make("span", { class: "loss" }, `${count(found.lost)} lost`),
    `, ${count(equal)} did not change.`,
  );
  const own = values(a);
  const other = values(b);
  const differences = own.map((value, query) => value - other[query]);
  drawBars(byId("bars"), differences);
  const item = (query) => {
    const kind = differences[query] > 0 ? "gain" : "loss";
    return queryItem(query, signed(differences[query], 3), kind, [a, b]);
  };
  showList("gains", fallingOrder(differences).filter((query) => differences[query] > 0), item);
  showList("losses", risingOrder(differences).filter((query) => differences[query] < 0), item);
}

/** Differences of queries, greatest gain left, greatest loss right. */
function drawBars(figure, differences) {
  const changed = fallingOrder(differences).filter((query) => differences[query] !== 0);
  const [a, b] = [names[chosen.a], names[chosen.b]];
  if (!changed.length) {
    figure.replaceChildren(make("p", { class: "soft" }, "No query differs."));
    return;
  }
  const { width, left } = canvas(figure);
  const height = 220;
  const most = Math.max(...changed.map((query) => Math.abs(differences[query])));
  const step = (width - left) / changed.length;
  const y = (value) => 110 - (value / most) * 96;
  const marks = [most, most / 2, 0, -most / 2, -most].flatMap((value) => [
    draw("line", { x1: left, x2: width, y1: y(value), y2: y(value), style: "stroke:var(--line)" }),
    draw("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, signed(value, 2)),
  ]);
  const colour = (value) => `fill:var(--${value > 0 ? "gain" : "loss"})`;
  const gap = step > 4 ? 1 : 0;
  if (step >= 3) {
    changed.forEach((query, place) => {
      const value = differences[query];
      const top = Math.min(y(value), y(0));
      const text = `${data.queries[query] || "(empty)"}: ${signed(value, 3)}`;
      const size = { x: left + place * step, y: top, width: step - gap, height: Math.abs(y(value) - y(0)) };
      marks.push(draw("rect", { ...size, style: colour(value) }, draw("title", {}, text)));
    });
  } else {
    // Too many to be seen one by one: one outline for gains and one for losses.
    for (const sign of [1, -1]) {
      const points = [];
      changed.forEach((query, place) => {
        const value = differences[query];
        if (Math.sign(value) !== sign) return;
        const x = left + place * step;
        points.push(`${x.toFixed(1)},${y(value).toFixed(1)}`, `${(x + step).toFixed(1)},${y(value).toFixed(1)}`);
      });
      if (!points.length) continue;
      const [first, last] = [points[0].split(",")[0], points[points.length - 1].split(",")[0]];
      const outline = [`${first},${y(0)}`, ...points, `${last},${y(0)}`].join(" ");
      marks.push(draw("polygon", { points: outline, style: colour(sign) }));
    }
  }
  figure.replaceChildren(
    picture(width, height, `${a} minus ${b}, query by query`, marks),
    make(
      "figcaption",
      {},
      `${data.metrics[chosen.metric].label} of ${a} minus ${b}: ${count(changed.length)} queries that differ, ` +
        "greatest gain left, greatest loss right.",
    ),
  );
}

function showExtremes() {
  const one = chosen.one;
  const all = names.map((_, place) => place);
  const numbers =
    one === MEAN_OF_ALL
      ? data.queries.map((_, query) => all.reduce((sum, place) => sum + values(place)[query], 0) / all.length)
      : values(one);
  const best = numbers.filter((value) => value === 1).length;
  const none = numbers.filter((value) => value === 0).length;
  const label = data.metrics[chosen.metric].label;
  const who = one === MEAN_OF_ALL ? "with every system" : `with ${names[one]}`;
  byId("extremes-summary").textContent =
    `${count(best)} of ${count(numbers.length)} queries have ${label} 1 ${who}, ${count(none)} have 0.`;
  const systems = one === MEAN_OF_ALL ? ranked().slice(0, 2) : [one];
  const item = (query) => queryItem(query, numbers[query].toFixed(3), "", systems);
  showList("best", fallingOrder(numbers).filter((query) => numbers[query] > 0), item);
  showList("worst", risingOrder(numbers).filter((query) => numbers[query] < 1), item);
}
