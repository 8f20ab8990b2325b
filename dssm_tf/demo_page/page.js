"use strict";
// The search box of the page. Texts become text nodes and attributes only, never HTML.

const RESULTS = 3; // the number of displayed titles
const DIGITS = 3; // after the point
const MIN_MARKED_SIMILARITY = 0.2; // of a marked word; the table under "Why?" has all words
const MIN_COSINE_PART = 0.02; // of a word with its own row; the other words share one
const MINUS = "\u2212";
const model = new MaxSim(JSON.parse(document.getElementById("data").textContent));
const searchBox = document.getElementById("q");
const message = document.getElementById("status");
const results = document.getElementById("results");
const examples = [...document.querySelectorAll(".examples button")];

/** An element with attributes and children; children that are null are left out. */
function element(name, attributes, ...children) {
  const created = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, value);
  created.append(...children.filter((child) => child !== null));
  return created;
}

/** A number with its sign. */
function signed(value) {
  return (value < 0 ? MINUS : "+") + Math.abs(value).toFixed(DIGITS);
}

/** A number with a sign only if it is below 0. */
function unsigned(value) {
  return (value < 0 ? MINUS : "") + Math.abs(value).toFixed(DIGITS);
}

function markedWords(hit) {
  return hit.queryWords.filter(({ similarity }) => similarity >= MIN_MARKED_SIMILARITY);
}

/** The title with its matched words marked: solid if the query has the word, dashed if it is similar. */
function markedTitle(hit) {
  const queryWords = new Set(hit.queryWords.map(({ word }) => word));
  const matched = new Set(markedWords(hit).map(({ match }) => match));
  const parts = hit.title.split(/\s+/).flatMap((part) => {
    const words = model.words.of(part).filter((word) => matched.has(word));
    if (!words.length) return [part, " "];
    const kind = words.some((word) => queryWords.has(word)) ? "same" : "near";
    return [element("mark", { class: kind }, part), " "];
  });
  return element("span", { class: "title" }, ...parts);
}

/** Each marked word of the query with its word of the title. */
function wordLine(hit) {
  const words = markedWords(hit).map(({ word, match, similarity }) => {
    if (word === match) return element("span", {}, element("mark", {}, word));
    const near = element("mark", { class: "near" }, match);
    return element("span", {}, element("b", {}, word), " \u2192 ", near, ` ${similarity.toFixed(2).replace(/^0/, "")}`);
  });
  return element("div", { class: "words" }, ...words);
}

/** The words of the query with their parts of the cosine; words with small parts share the last row. */
function cosineRows(hit) {
  if (!hit.textCosine) return [];
  const words = hit.cosineWords();
  const isSmall = ({ adds }) => Math.abs(adds) < MIN_COSINE_PART;
  const rows = words.filter((word) => !isSmall(word)).map(({ word, adds }) => [[word], adds]);
  const others = words.filter(isSmall);
  if (!others.length) return rows;
  const names = others.map(({ word }) => word).join(", ");
  const sum = others.reduce((total, { adds }) => total + adds, 0);
  return [...rows, [[others.length > 1 ? `together: ${names}` : names], sum]];
}

/** The parts of a score in groups: a heading, and rows of cells with the exact number that they add. */
function groupsOf(hit) {
  const words = (list) => {
    const matched = list.filter(({ match }) => match !== null);
    const others = list.filter(({ match }) => match === null).map(({ word }) => word);
    const rows = matched.map(({ word, match, similarity, adds }) => [[word, match, similarity.toFixed(2)], adds]);
    return others.length ? [...rows, [[`no match: ${others.join(", ")}`], 0]] : rows;
  };
  const pairs = hit.pairs.map(({ pair, adds }) => [[`\u201c${pair}\u201d is in both texts`], adds]);
  const prior = hit.prior ? [[["how often the title was clicked: below 0, and nearest to 0 for the most clicked one"], hit.prior]] : [];
  return [
    ["Words of the question", words(hit.queryWords)],
    ["Words of the title", words(hit.titleWords)],
    ["Neighboring words", pairs],
    ["Both texts as a whole, each as one vector", cosineRows(hit)],
    ["Popularity", prior],
  ].filter(([, rows]) => rows.length);
}

/** A row of a table: a heading that fills the columns without cells, and further cells. */
function row([heading, ...cells], ...others) {
  const span = String(3 - cells.length);
  const head = element("th", { scope: "row", colspan: span }, heading);
  return element("tr", {}, head, ...cells.map((cell) => element("td", {}, cell)), ...others);
}

/** The table of all parts of a score. The displayed numbers add up to the displayed score. */
function explanation(hit) {
  const groups = groupsOf(hit);
  const parts = groups.flatMap(([, rows]) => rows.map(([, adds]) => adds));
  const rounded = roundedParts(parts, hit.score, DIGITS);
  const largest = Math.max(...parts.map(Math.abs));
  const bodies = groups.map(([heading, rows]) => {
    const title = element("tr", { class: "group" }, element("th", { colspan: "4", scope: "colgroup" }, heading));
    return element("tbody", {}, title, ...rows.map(([cells]) => {
      const value = rounded.shift();
      const bar = element("span", { class: value < 0 ? "bar loss" : "bar" });
      bar.style.width = `${(3.5 * Math.abs(value)) / largest}rem`;
      return row(cells, element("td", { class: "adds" }, value ? bar : null, signed(value)));
    }));
  });
  const names = ["word", "matches", "similarity", "adds"].map((name) => element("th", { scope: "col" }, name));
  const head = element("thead", {}, element("tr", {}, ...names));
  const sum = row(["score"], element("td", { class: "adds" }, unsigned(hit.score)));
  return element("table", { class: "why" }, head, ...bodies, element("tfoot", {}, sum));
}

function resultItem(hit, index) {
  const details = element("details", {}, element("summary", {}, "Why?"));
  const fill = () => { if (!details.querySelector("table")) details.append(explanation(hit)); };
  details.addEventListener("toggle", fill);
  if (index === 0) {
    details.open = true;
    fill();
  }
  const rank = element("span", { class: "rank" }, String(index + 1));
  const score = element("span", { class: "score" }, unsigned(hit.score));
  const head = element("div", { class: "head" }, rank, markedTitle(hit), score);
  return element("li", {}, head, wordLine(hit), details);
}

function statusMessage(words, hits, milliseconds) {
  if (!searchBox.value.trim()) return "Type a question, or choose an example.";
  if (!words.length) return "The question has no word.";
  if (!hits.length) return "Nothing was found: no title has a word that is similar to a word of the question.";
  if (!hits.some((hit) => model.isGood(hit))) return "No good match was found. These titles are the closest ones.";
  const count = model.titles.length.toLocaleString("en");
  return `The best ${hits.length} of ${count} titles, in ${Math.max(1, Math.round(milliseconds))} ms`;
}

function search() {
  const started = performance.now();
  const words = model.words.of(searchBox.value);
  const ranking = words.length ? model.rank(searchBox.value) : [];
  const matched = ranking.filter((hit) => hit.queryWords.some(({ match }) => match !== null));
  const hits = matched.slice(0, RESULTS);
  message.textContent = statusMessage(words, hits, performance.now() - started);
  results.replaceChildren(...hits.map(resultItem));
  for (const button of examples) button.setAttribute("aria-pressed", button.value === searchBox.value);
}

searchBox.addEventListener("input", search);
document.getElementById("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
for (const button of examples) {
  button.addEventListener("click", () => {
    searchBox.value = button.value;
    search();
  });
}
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || document.activeElement === searchBox || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  searchBox.focus();
  searchBox.select();
});
if (!searchBox.value) searchBox.value = examples[0]?.value ?? "";
search();
