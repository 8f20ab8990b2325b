"use strict";
// The server renders the first view, which works without this script: it has a form and links. Later
// views are rendered here from the JSON of POST /v1/search, with the same elements.
const NAMES = { semantic: "Model", bm25: "BM25" };
const TITLES = 10; // per ranking
const box = document.getElementById("q");
const failed = document.getElementById("failed");
const about = document.querySelector(".about").firstChild.textContent.trim();
const examplesTemplate = document.getElementById("examples-template");
let controller = new AbortController();
let timer = 0;

// An element with a class, attributes and children; texts are never read as HTML.
function element(name, attributes = {}, ...children) {
  const created = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, value);
  created.append(...children.flat().filter((child) => child !== null && child !== ""));
  return created;
}

// The address of a state: the query `q`, `bm25` to show the ranking of BM25, and the id `why` of the
// title to explain with its ranking `in`.
function addressOf(state) {
  const parameters = Object.entries(state).filter(([name, value]) => value || name === "why");
  return "/?" + new URLSearchParams(parameters);
}

// The state of an address, from its part after the question mark.
function stateOf(search) {
  const parameters = new URLSearchParams(search);
  const state = { q: parameters.get("q") || "", bm25: parameters.get("bm25") || "" };
  if (parameters.get("why")) {
    state.why = parameters.get("why");
    state.in = parameters.get("in") || "semantic";
  }
  return state;
}

async function postSearch(request, signal) {
  const answer = await fetch("/v1/search", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(request),
    signal,
  });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error);
  return body;
}

// The rankings of a state, and the explanation of the title that `why` names.
async function search(state, signal) {
  const query = state.q.slice(0, box.maxLength);
  const names = state.bm25 ? ["semantic", "bm25"] : ["semantic"];
  const requests = names.map((ranking) => postSearch({ query, ranking, k: TITLES }, signal));
  const explainRequest = { query, ranking: state.in, k: 1, explain: true, filters: { doc_id: [state.why] } };
  const explainAnswer = state.why === undefined ? null : postSearch(explainRequest, signal);
  const answers = await Promise.all(requests);
  const explained = (await explainAnswer)?.results.find((result) => result.doc_id === state.why);
  return { answers, explanation: explained?.explanation };
}

function short(similarity) {
  return similarity.toFixed(2).replace(/^0/, "");
}

function signed(value) {
  return (value < 0 ? "-" : "+") + Math.abs(value).toFixed(3);
}

function matchedWord(word) {
  if (word.match === null) return element("span", { class: "missing" }, word.word);
  if (word.is_same) return element("span", {}, element("mark", {}, word.spelled));
  const rule = word.rule === null ? "" : ` by rule in line ${word.rule}`;
  const match = element("mark", { class: "near" }, word.spelled);
  return element("span", {}, `${word.word} \u2192 `, match, ` ${short(word.similarity)}${rule}`);
}

function scoreLine(result) {
  const id = element("span", { class: "id" }, result.doc_id);
  if (result.words.length) {
    const entries = Object.entries(result.shown_parts);
    const parts = entries.flatMap(([name, value], index) => {
      const comma = index + 1 < entries.length ? "," : "";
      return [" ", element("span", {}, `${name} ${signed(value)}${comma}`)];
    });
    const score = element("data", { class: "score", value: result.score }, result.score.toFixed(3));
    return element("div", { class: "soft sum" }, "score ", score, ":", parts, " ", id);
  }
  const texts = [];
  if ("bm25" in result.parts) {
    texts.push(`BM25 ${result.score.toFixed(1)}`);
  } else {
    const { similarity, prior } = result.shown_parts;
    texts.push(`score ${result.score.toFixed(3)}`, `similarity ${similarity.toFixed(3)}`);
    if (prior !== undefined) texts.push(`prior ${signed(prior)}`);
    if (result.bm25_score) texts.push(`BM25 ${result.bm25_score.toFixed(1)}`);
  }
  return element("div", { class: "soft" }, texts.flatMap((text) => [element("span", {}, text), " "]), id);
}

function explanationOf(explanation) {
  if (explanation.error) return element("p", { class: "soft" }, explanation.error);
  const { summary, sentences, notes, method } = explanation;
  const lines = [summary, ...sentences, ...notes, method];
  return element("ul", {}, lines.map((line) => element("li", {}, line)));
}

function resultItem(result, ranking, rank, state, explanation) {
  const id = `${ranking}-${rank}`;
  const isOpen = explanation && state.why === result.doc_id && state.in === ranking;
  const title = result.title_parts.flatMap((part) => [
    part.is_match ? element("mark", {}, part.text) : part.text, " ",
  ]);
  const empty = element("span", { class: "soft" }, "(an empty title)");
  const content = [element("div", { class: "title" }, title.length ? title : empty)];
  if (result.words.length) {
    const rules = result.applied_rules.map((rule) => element("span", { class: "rule" }, rule));
    const words = [...result.words.map(matchedWord), ...rules].flatMap((word) => [word, " "]);
    content.push(element("div", { class: "words" }, words));
  }
  content.push(scoreLine(result));
  const nextState = { q: state.q, bm25: state.bm25, why: isOpen ? "" : result.doc_id, in: ranking };
  const why = element("a", {
    class: "why", id: `${id}-why`, href: `${addressOf(nextState)}#${id}`, "aria-expanded": Boolean(isOpen),
    "aria-label": `Why ${result.title.slice(0, 80)}`,
  }, "why?");
  const item = element("li", { id }, element("span", { class: "rank" }, String(rank)));
  item.append(element("div", { class: "hit" }, content), why);
  if (isOpen) item.append(element("div", { class: "because" }, explanationOf(explanation)));
  return item;
}

function section(answer, state, explanation, hasHeading) {
  const name = NAMES[answer.ranking];
  const heading = hasHeading ? element("h2", {}, name) : "";
  const items = answer.results.map((result, index) =>
    resultItem(result, answer.ranking, index + 1, state, explanation));
  const list = items.length ? element("ol", {}, items) : element("p", { class: "state soft" }, "No results.");
  return element("section", { id: answer.ranking, "aria-label": name }, heading, list);
}

function rankings(answers, state, explanation) {
  const several = answers.length > 1;
  const links = answers.map(({ ranking }) => element("a", { href: `#${ranking}` }, NAMES[ranking]));
  const sections = answers.map((answer) => section(answer, state, explanation, several));
  const all = element("div", { class: "systems" }, sections);
  return several ? [element("nav", { class: "jumps" }, links), all] : [all];
}

// The results of a search as an element; examples if `searched` is null.
function render(state, searched) {
  const results = element("div", { id: "results" });
  const line = element("p", { class: "soft about" }, about);
  results.append(line);
  if (!searched) {
    results.append(examplesTemplate.content.cloneNode(true));
    return results;
  }
  const { answers, explanation } = searched;
  const address = addressOf({ q: state.q, bm25: state.bm25 ? "" : "1" });
  const text = state.bm25 ? "Hide BM25" : "Compare with BM25";
  line.append(" ", element("a", { id: "compare", href: address }, text));
  const { note, rules, corrected_query: meant } = answers[0];
  if (meant) {
    const link = element("a", { href: addressOf({ q: meant, bm25: state.bm25 }) }, meant);
    results.append(element("p", { class: "meant" }, "Did you mean ", link, "?"));
  }
  if (note) {
    const message = element("p", {}, element("strong", {}, note));
    results.append(element("div", { class: "state", role: "status" }, message));
  }
  results.append(...rules.map((rule) => element("p", { class: "soft" }, rule)));
  if (!answers.some((answer) => answer.results.length)) return results;
  const elements = rankings(answers, state, explanation);
  if (note) {
    const summary = element("summary", {}, "Show the best titles anyway");
    const poor = element("details", { id: "poor" }, summary, elements);
    poor.open = Boolean(explanation);
    results.append(poor);
  } else {
    results.append(...elements);
  }
  return results;
}

// Scrolls as little as possible to show a result. If it is higher than the window, its title is shown.
function reveal(item) {
  item?.scrollIntoView({ block: "nearest" });
  item?.querySelector(".title")?.scrollIntoView({ block: "nearest" });
}

// Searches and renders an address. `push`: whether it becomes a new entry of the browser's history.
async function show(address, push) {
  controller.abort();
  const current = (controller = new AbortController());
  const results = document.getElementById("results");
  results.setAttribute("aria-busy", "true");
  const state = stateOf(new URL(address, location.href).search);
  const title = state.q ? `${state.q.slice(0, 60)} - search` : "Search";
  try {
    const searched = state.q.trim() ? await search(state, current.signal) : null;
    if (current.signal.aborted) return;
    const focusedId = document.activeElement && document.activeElement.id;
    const isUnfolded = document.querySelector("#poor[open]") && document.title === title;
    results.replaceWith(render(state, searched));
    if (isUnfolded && document.getElementById("poor")) document.getElementById("poor").open = true;
    document.title = title;
    failed.textContent = "";
    history[push ? "pushState" : "replaceState"](null, "", address);
    const focused = focusedId && focusedId !== "q" && document.getElementById(focusedId);
    if (focused) {
      focused.focus({ preventScroll: true });
      reveal(focused.closest("li"));
    }
  } catch (error) {
    if (error.name === "AbortError") return;
    results.removeAttribute("aria-busy");
    failed.textContent = error instanceof TypeError
      ? "The server does not answer. Is dssm serve still running?" : error.message;
  }
}

function addressOfQuery(query) {
  return addressOf({ q: query.trim(), bm25: query.trim() && stateOf(location.search).bm25 });
}

function fillBox(search) {
  box.value = stateOf(search).q;
}

box.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(() => show(addressOfQuery(box.value), false), 150);
});

document.getElementById("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(timer);
  show(addressOfQuery(box.value), true);
});
document.addEventListener("click", (event) => {
  const link = event.target.closest("#results a[href^='/']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const address = new URL(link.href);
  fillBox(address.search);
  link.focus();
  show(address.pathname + address.search, true);
});

window.addEventListener("popstate", () => {
  fillBox(location.search);
  show(location.pathname + location.search, false);
});

function visibleLinks(section) {
  return [...section.querySelectorAll("a.why")].filter((link) => link.checkVisibility());
}

// The link or box that an arrow key moves the focus to; null or undefined if there is none.
function nextFocus(event) {
  const sections = [...document.querySelectorAll(".systems section")];
  const columns = sections.filter((section) => visibleLinks(section).length);
  const column = columns.findIndex((section) => section.contains(document.activeElement));
  if (!columns.length) return null;
  if (column < 0) return event.key === "ArrowDown" ? visibleLinks(columns[0])[0] : null;
  const index = visibleLinks(columns[column]).indexOf(document.activeElement);
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (step) {
    const neighbor = columns[column + step];
    return neighbor && visibleLinks(neighbor)[Math.min(index, visibleLinks(neighbor).length - 1)];
  }
  return visibleLinks(columns[column])[index + (event.key === "ArrowDown" ? 1 : -1)] || box;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = document.activeElement === box;
  if ((event.key === "/" && !isTyping) || event.key === "Escape") {
    event.preventDefault();
    box.focus();
    box.select();
  } else if (event.key === "ArrowDown" || (event.key.startsWith("Arrow") && !isTyping)) {
    const next = nextFocus(event);
    if (!next) return;
    event.preventDefault();
    next.focus();
    if (next !== box) reveal(next.closest("li"));
  }
});
