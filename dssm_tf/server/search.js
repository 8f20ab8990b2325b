"use strict";
// Without this script the page works by form and links; with it results change in place.
const box = document.getElementById("q");
const failed = document.getElementById("failed");
let asking = new AbortController();
let waiting = 0;

async function show(address, push) {
  asking.abort();
  const mine = (asking = new AbortController());
  const results = document.getElementById("results");
  results.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(address, { signal: mine.signal });
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    const held = document.activeElement && document.activeElement.id;
    const unfolded = document.querySelector("#poor[open]") && document.title === found.title;
    results.replaceWith(document.adoptNode(found.getElementById("results")));
    if (unfolded) document.getElementById("poor").open = true;
    document.title = found.title;
    failed.textContent = "";
    history[push ? "pushState" : "replaceState"](null, "", address);
    const kept = held && held !== "q" && document.getElementById(held);
    if (kept) {
      kept.focus({ preventScroll: true });
      kept.closest("li").scrollIntoView({ block: "nearest" });
    }
  } catch (error) {
    if (error.name === "AbortError") return;
    results.removeAttribute("aria-busy");
    failed.textContent = "The server does not answer. Is dssm serve still running?";
  }
}

function addressOf(query) {
  return query.trim() ? "/?" + new URLSearchParams({ q: query.trim() }) : "/";
}

function read(search) {
  box.value = new URLSearchParams(search).get("q") || "";
}

box.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => show(addressOf(box.value), false), 150);
});

document.getElementById("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(waiting);
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
  return [...section.querySelectorAll("a.why")].filter((one) => one.checkVisibility());
}

function move(event) {
  const columns = [...document.querySelectorAll(".systems section")].filter((one) => hits(one)[0]);
  const column = columns.findIndex((one) => one.contains(document.activeElement));
  if (!columns.length) return null;
  if (column < 0) return event.key === "ArrowDown" ? hits(columns[0])[0] : null;
  const place = hits(columns[column]).indexOf(document.activeElement);
  const across = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (across) {
    const beside = columns[column + across];
    return beside && hits(beside)[Math.min(place, hits(beside).length - 1)];
  }
  return hits(columns[column])[place + (event.key === "ArrowDown" ? 1 : -1)] || box;
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
