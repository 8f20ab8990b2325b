"use strict";
// Without this script the page works with its form and links; with it, results are replaced in place.
const box = document.getElementById("q");
const failed = document.getElementById("failed");
let controller = new AbortController();
let timer = 0;

async function show(address, push) {
  controller.abort();
  const current = (controller = new AbortController());
  const results = document.getElementById("results");
  results.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(address, { signal: current.signal });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const focusedId = document.activeElement && document.activeElement.id;
    const unfolded = document.querySelector("#poor[open]") && document.title === page.title;
    results.replaceWith(document.adoptNode(page.getElementById("results")));
    if (unfolded) document.getElementById("poor").open = true;
    document.title = page.title;
    failed.textContent = "";
    history[push ? "pushState" : "replaceState"](null, "", address);
    const focused = focusedId && focusedId !== "q" && document.getElementById(focusedId);
    if (focused) {
      focused.focus({ preventScroll: true });
      focused.closest("li").scrollIntoView({ block: "nearest" });
    }
  } catch (error) {
    if (error.name === "AbortError") return;
    results.removeAttribute("aria-busy");
    failed.textContent = "The server does not answer. Is dssm serve still running?";
  }
}

function addressOf(query) {
  const parameters = new URLSearchParams();
  if (query.trim()) parameters.set("q", query.trim());
  if (query.trim() && new URLSearchParams(location.search).get("bm25")) parameters.set("bm25", "1");
  return "/?" + parameters;
}

function read(search) {
  box.value = new URLSearchParams(search).get("q") || "";
}

box.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(() => show(addressOf(box.value), false), 150);
});

document.getElementById("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(timer);
  show(addressOf(box.value), true);
});

document.addEventListener("click", (event) => {
  const link = event.target.closest("#results a[href^='/']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const address = new URL(link.href);
  read(address.search);
  link.focus();
  show(address.pathname + address.search, true);
});

window.addEventListener("popstate", () => {
  read(location.search);
  show(location.pathname + location.search, false);
});

function hits(section) {
  return [...section.querySelectorAll("a.why")].filter((link) => link.checkVisibility());
}

function move(event) {
  const columns = [...document.querySelectorAll(".systems section")].filter((section) => hits(section)[0]);
  const column = columns.findIndex((section) => section.contains(document.activeElement));
  if (!columns.length) return null;
  if (column < 0) return event.key === "ArrowDown" ? hits(columns[0])[0] : null;
  const index = hits(columns[column]).indexOf(document.activeElement);
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (step) {
    const neighbor = columns[column + step];
    return neighbor && hits(neighbor)[Math.min(index, hits(neighbor).length - 1)];
  }
  return hits(columns[column])[index + (event.key === "ArrowDown" ? 1 : -1)] || box;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = document.activeElement === box;
  if ((event.key === "/" && !typing) || event.key === "Escape") {
    event.preventDefault();
    box.focus();
    box.select();
  } else if (event.key === "ArrowDown" || (event.key.startsWith("Arrow") && !typing)) {
    const next = move(event);
    if (!next) return;
    event.preventDefault();
    next.focus();
    if (next !== box) next.closest("li").scrollIntoView({ block: "nearest" });
  }
});
