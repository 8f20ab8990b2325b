"use strict";
const COLOURS = ["--accent", "--loss", "--gain", "--soft", "--ink"].map((name) => `var(${name})`);
const DASHES = ["", "6 3", "2 3", "8 3 2 3", "1 4"];
const LETTER = 6.2; // pixels, about, of a drawn letter

/** The room for a drawing, in pixels: text keeps its size on a phone. */
function canvas(figure) {
  const style = getComputedStyle(figure);
  const inner = figure.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  return { width: Math.max(260, Math.min(960, Math.floor(inner))), left: 46 };
}

function picture(width, height, label, marks) {
  const size = { viewBox: `0 0 ${width} ${height}`, style: `width:${width}px;max-width:100%` };
  return draw("svg", { ...size, role: "img", "aria-label": label }, ...marks);
}

function shortened(text, letters) {
  return text.length <= letters ? text : `${text.slice(0, Math.max(1, letters - 1))}\u2026`;
}

function seconds(value) {
  if (value >= 3600) return `${+(value / 3600).toPrecision(2)} h`;
  if (value >= 60) return `${+(value / 60).toPrecision(2)} min`;
  return `${+value.toPrecision(2)} s`;
}

/** Horizontal lines and their values, three or more between two values. */
function scale(low, high, width, left, y, digits) {
  return [0, 1, 2, 3].flatMap((part) => {
    const value = low + ((high - low) * part) / 3;
    return [
      draw("line", { x1: left, x2: width, y1: y(value), y2: y(value), style: "stroke:var(--line)" }),
      draw("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, value.toFixed(digits)),
    ];
  });
}

/** Where a label fits beside its point without covering others; null where nowhere. */
function freePlace(x, y, text, taken, width) {
  const wide = text.length * LETTER;
  const places = [
    [x + 8, y + 4],
    [x - 8 - wide, y + 4],
    [x - wide / 2, y - 9],
    [x - wide / 2, y + 17],
    [x + 8, y - 8],
    [x + 8, y + 16],
    [x - 8 - wide, y - 8],
    [x - 8 - wide, y + 16],
  ];
  for (const [left, base] of places) {
    const box = [left, base - 10, left + wide, base + 3];
    const inside = box[0] >= 48 && box[2] <= width && box[1] >= 0 && box[3] <= 262;
    const covers = taken.some((t) => box[0] < t[2] && box[2] > t[0] && box[1] < t[3] && box[3] > t[1]);
    if (inside && !covers) {
      taken.push(box);
      return [left, base];
    }
  }
  return null;
}

function showCost() {
  const figure = byId("cost");
  const { width, left } = canvas(figure);
  const height = 300;
  const label = data.metrics[chosen.metric].label;
  const timed = ranked().filter((place) => data.systems[place].seconds > 0);
  const untimed = ranked().filter((place) => !timed.includes(place));
  const note = untimed.length ? ` Without a training time: ${untimed.map((place) => names[place]).join(", ")}.` : "";
  byId("timed").hidden = !timed.length;
  if (!timed.length) return;
  const times = timed.map((place) => Math.log10(data.systems[place].seconds));
  const first = Math.floor(Math.min(...times));
  const last = Math.max(first + 1, Math.ceil(Math.max(...times)));
  const means = timed.map((place) => data.systems[place].means[chosen.metric]);
  const room = Math.max(0.02, (Math.max(...means) - Math.min(...means)) * 0.1);
  const low = Math.max(0, Math.min(...means) - room);
  const high = Math.max(...means) + room;
  const x = (time) => left + 10 + ((time - first) / (last - first)) * (width - left - 30);
  const y = (value) => 250 - ((value - low) / (high - low)) * 236;
  const marks = scale(low, high, width, left, y, 2);
  const ticks = Math.max(1, Math.ceil((last - first) / Math.max(1, Math.floor(width / 80))));
  for (let time = first; time <= last; time += ticks) {
    marks.push(draw("line", { x1: x(time), x2: x(time), y1: 250, y2: 255, style: "stroke:var(--soft)" }));
    marks.push(draw("text", { x: x(time), y: 270, "text-anchor": "middle" }, seconds(10 ** time)));
  }
  marks.push(draw("text", { x: (left + width) / 2, y: 292, "text-anchor": "middle" }, "training time (logarithmic)"));
  const kinds = [...new Set(data.systems.map((system) => system.kind))];
  const taken = timed.map((_, i) => [x(times[i]) - 5, y(means[i]) - 5, x(times[i]) + 5, y(means[i]) + 5]);
  let bare = 0;
  timed.forEach((place, i) => {
    const [px, py] = [x(times[i]), y(means[i])];
    const text = `${names[place]}: ${label} ${means[i].toFixed(3)}, ${seconds(data.systems[place].seconds)}`;
    const colour = COLOURS[kinds.indexOf(data.systems[place].kind) % COLOURS.length];
    marks.push(draw("circle", { cx: px, cy: py, r: 5, style: `fill:${colour}` }, draw("title", {}, text)));
    const shown = shortened(names[place], 24);
    const at = freePlace(px, py, shown, taken, width);
    if (at) marks.push(draw("text", { x: at[0], y: at[1], class: "strong" }, shown));
    else bare += 1;
  });
  const used = kinds.filter((kind) => timed.some((place) => data.systems[place].kind === kind));
  const legend = used.map((kind) =>
    make(
      "span",
      { class: "key" },
      make("span", { style: `color:${COLOURS[kinds.indexOf(kind) % COLOURS.length]}`, "aria-hidden": "true" }, "\u25cf "),
      kind,
    ),
  );
  const hidden = bare ? ` ${bare === 1 ? "1 point has" : `${bare} points have`} no room for a name; point at it to see one.` : "";
  figure.replaceChildren(
    picture(width, height, `${label} against training time`, marks),
    make("figcaption", {}, `${label} against training time, each system a point: `, ...legend, note + hidden),
  );
}

function showSweeps() {
  const box = byId("sweeps");
  box.replaceChildren();
  if (!data.sweeps.length) return;
  box.append(make("h2", {}, "Sweeps"));
  const grid = make("div", { class: data.sweeps.length > 1 ? "two" : "" });
  box.append(grid);
  // All boxes first: a drawing is as wide as the box it finds.
  const figures = data.sweeps.map(() => make("figure", {}));
  grid.append(...figures);
  data.sweeps.forEach((sweep, place) => drawSweep(figures[place], sweep));
}

function drawSweep(figure, sweep) {
  const { width, left } = canvas(figure);
  const height = 230;
  const points = sweep.points.map(([text, place]) => ({ text, system: data.systems[place] }));
  const all = points.flatMap(({ system }) =>
    system.means.flatMap((mean, m) => [mean - (system.spreads[m] || 0), mean + (system.spreads[m] || 0)]),
  );
  const room = Math.max(0.005, (Math.max(...all) - Math.min(...all)) * 0.08);
  const [low, high] = [Math.max(0, Math.min(...all) - room), Math.max(...all) + room];
  const inner = width - left - 40;
  const x = (place) => left + 20 + (points.length > 1 ? (place / (points.length - 1)) * inner : inner / 2);
  const y = (value) => 190 - ((value - low) / (high - low)) * 176;
  const marks = scale(low, high, width, left, y, 3);
  const letters = Math.max(3, Math.floor(inner / Math.max(1, points.length - 1) / LETTER) - 1);
  points.forEach(({ text }, place) =>
    marks.push(draw("text", { x: x(place), y: 208, "text-anchor": "middle" }, shortened(text, letters))),
  );
  marks.push(draw("text", { x: (left + width) / 2, y: 226, "text-anchor": "middle" }, sweep.name));
  data.metrics.forEach(({ label }, m) => {
    const colour = COLOURS[m % COLOURS.length];
    const line = points.map(({ system }, place) => `${x(place)},${y(system.means[m])}`).join(" ");
    const dash = { "stroke-dasharray": DASHES[m % DASHES.length], "stroke-width": 2 };
    marks.push(draw("polyline", { points: line, fill: "none", style: `stroke:${colour}`, ...dash }));
    points.forEach(({ text, system }, place) => {
      const [mean, deviation] = [system.means[m], system.spreads[m]];
      const title = `${label} at ${text}: ${mean.toFixed(3)}`;
      if (deviation) {
        const ends = { x1: x(place), x2: x(place), y1: y(mean - deviation), y2: y(mean + deviation) };
        marks.push(draw("line", { ...ends, style: `stroke:${colour}` }));
      }
      marks.push(draw("circle", { cx: x(place), cy: y(mean), r: 4, style: `fill:${colour}` }, draw("title", {}, title)));
    });
  });
  const legend = data.metrics.map(({ label }, m) => {
    const stroke = { x1: 0, x2: 26, y1: 5, y2: 5, "stroke-dasharray": DASHES[m % DASHES.length], "stroke-width": 2 };
    const sample = draw("line", { ...stroke, style: `stroke:${COLOURS[m % COLOURS.length]}` });
    const svg = draw("svg", { viewBox: "0 0 26 10", style: "display:inline-block;width:26px", "aria-hidden": "true" }, sample);
    return make("span", { class: "key" }, svg, ` ${label}`);
  });
  const spread = points.some(({ system }) => system.spreads.some(Boolean));
  figure.replaceChildren(
    picture(width, height, `Sweep over ${sweep.name}`, marks),
    make("figcaption", {}, ...legend, spread ? "Uprights: one standard deviation over seeds." : ""),
  );
}

function gradeColour(label) {
  const best = Math.max(1, ...data.grades.map(Number).filter((grade) => !Number.isNaN(grade)));
  const grade = Number(label);
  if (Number.isNaN(grade)) {
    return label === "not judged" ? "var(--wash)" : "color-mix(in srgb, var(--soft) 35%, var(--card))";
  }
  if (grade === 0) return "color-mix(in srgb, var(--loss) 28%, var(--card))";
  return `color-mix(in srgb, var(--gain) ${Math.round(12 + (46 * grade) / best)}%, var(--card))`;
}

function gradeName(label) {
  return Number.isNaN(Number(label)) ? label : `grade ${label}`;
}

function showFirst() {
  const figure = byId("first");
  const { width } = canvas(figure);
  const marks = [];
  ranked().forEach((place, rank) => {
    const top = rank * 44;
    marks.push(draw("text", { x: 0, y: top + 12, class: "strong" }, shortened(names[place], Math.floor(width / LETTER))));
    let x = 0;
    data.grades.forEach((label, i) => {
      const share = data.first[place][i] / data.measured;
      const wide = share * width;
      if (!wide) return;
      const text = `${(100 * share).toFixed(1)} %`;
      const title = draw("title", {}, `${names[place]}, ${gradeName(label)}: ${text}`);
      const style = `fill:${gradeColour(label)};stroke:var(--line)`;
      marks.push(draw("rect", { x, y: top + 17, width: wide, height: 20, style }, title));
      if (wide > text.length * LETTER + 4) {
        marks.push(draw("text", { x: x + wide / 2, y: top + 31, "text-anchor": "middle", class: "strong" }, text));
      }
      x += wide;
    });
  });
  const legend = data.grades.map((label) =>
    make("span", { class: "key" }, make("span", { class: "swatch", style: `background:${gradeColour(label)}` }), ` ${gradeName(label)}`),
  );
  figure.replaceChildren(
    picture(width, names.length * 44, "Grade of the first title, a bar a system", marks),
    make("figcaption", {}, "Shares of queries by the grade of the first title, best system first, left to right: ", ...legend),
  );
}

function showLengths() {
  const MOST = 20; // words; longer texts share the last bar
  const figure = byId("lengths");
  const { width, left } = canvas(figure);
  const kinds = ["queries", "titles"];
  const shares = kinds.map((kind) => {
    const found = new Array(MOST + 1).fill(0);
    const total = data.lengths[kind].reduce((sum, [, number]) => sum + number, 0);
    for (const [words, number] of data.lengths[kind]) found[Math.min(words, MOST)] += number / total;
    return found;
  });
  const means = kinds.map((kind) => {
    const total = data.lengths[kind].reduce((sum, [, number]) => sum + number, 0);
    return data.lengths[kind].reduce((sum, [words, number]) => sum + words * number, 0) / total;
  });
  const longest = Math.max(...shares.map((own) => own.reduce((last, share, words) => (share ? words : last), 0)));
  const high = Math.max(...shares.flat());
  const step = (width - left) / (longest + 1);
  const y = (share) => 190 - (share / high) * 176;
  const marks = scale(0, high * 100, width, left, (value) => y(value / 100), 0);
  for (let words = 0; words <= longest; words += 1) {
    kinds.forEach((kind, k) => {
      const share = shares[k][words];
      const bar = (step * 0.8) / 2;
      const at = { x: left + words * step + step * 0.1 + k * bar, y: y(share), width: bar, height: 190 - y(share) };
      const title = draw("title", {}, `${(100 * share).toFixed(1)} % of ${kind} have ${words} words${words === MOST ? " or more" : ""}`);
      if (share) marks.push(draw("rect", { ...at, style: `fill:${COLOURS[k]}` }, title));
    });
    const every = step < 22 ? 2 : 1;
    const text = `${words}${words === MOST ? "+" : ""}`;
    if (words % every === 0) {
      marks.push(draw("text", { x: left + (words + 0.5) * step, y: 206, "text-anchor": "middle" }, text));
    }
  }
  marks.push(draw("text", { x: (left + width) / 2, y: 226, "text-anchor": "middle" }, "words"));
  const legend = kinds.map((kind, k) =>
    make(
      "span",
      { class: "key" },
      make("span", { class: "swatch", style: `background:${COLOURS[k]}` }),
      ` ${kind} (${k ? "right" : "left"} bar), mean ${means[k].toFixed(2)} words`,
    ),
  );
  figure.replaceChildren(
    picture(width, 232, "Lengths of queries and titles", marks),
    make("figcaption", {}, "Per cent of texts by their number of words: ", ...legend),
  );
}

function show() {
  for (const select of document.querySelectorAll("select.metric")) select.value = chosen.metric;
  for (const key of ["a", "b", "one"]) byId(key).value = chosen[key];
  showMatrix();
  showPair();
  showFound();
  showExtremes();
  showPlots();
}

function showPlots() {
  showCost();
  showSweeps();
  showFirst();
  showLengths();
}

function option(value, text) {
  return make("option", { value }, text);
}

function start() {
  if (names.length < 2) {
    for (const id of ["tests", "pair"]) {
      byId(id).hidden = true;
      document.querySelector(`nav a[href="#${id}"]`).hidden = true;
    }
  }
  for (const select of document.querySelectorAll("select.metric")) {
    select.append(...data.metrics.map(({ label }, place) => option(place, label)));
  }
  for (const id of ["a", "b", "one"]) byId(id).append(...names.map((name, place) => option(place, name)));
  byId("one").prepend(option(MEAN_OF_ALL, "all systems, their mean"));
  const order = ranked();
  chosen.a = order[0];
  chosen.b = data.references[chosen.a] ?? order[1] ?? chosen.a;
  document.addEventListener("change", ({ target }) => {
    if (target.classList.contains("metric")) chosen.metric = Number(target.value);
    else if (["a", "b", "one"].includes(target.id)) chosen[target.id] = Number(target.value);
    else return;
    show();
  });
  byId("find").addEventListener("input", showFound);
  byId("swap").addEventListener("click", () => {
    [chosen.a, chosen.b] = [chosen.b, chosen.a];
    show();
  });
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    if (chosen.a !== chosen.b) drawBars(byId("bars"), values(chosen.a).map((value, query) => value - values(chosen.b)[query]));
    showPlots();
  });
  show();
}

start();
