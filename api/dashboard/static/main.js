// The frame: which page is shown, how it is found by name, and whether the service is there.

import { h, href, link, refill, shown } from "./dom.js";
import { live } from "./live.js";
import { count } from "./words.js";
import { curvesPage } from "./page-curves.js";
import { domainPage, levelPage } from "./page-domain.js";
import { eventsPage } from "./page-events.js";
import { healthPage } from "./page-health.js";
import { jobPage } from "./page-job.js";
import { jobsPage, queuePage } from "./page-queue.js";
import { mapPage } from "./page-map.js";
import { nodePage } from "./page-node.js";
import { overviewPage } from "./page-overview.js";

const PAGES = [
  ["", "Overview", overviewPage], ["map", "Map", mapPage], ["queue", "Queue", queuePage], ["jobs", "Jobs", jobsPage],
  ["health", "Health", healthPage], ["curves", "Curves", curvesPage], ["events", "Events", eventsPage],
  ["level", null, levelPage], ["job", null, jobPage], ["node", null, nodePage], ["domain", null, domainPage],
];
const main = document.getElementById("main");
let close = null;

function route() {
  const [, ...parts] = location.hash.split("/");
  let words;
  try {
    words = parts.map((part) => decodeURIComponent(part.split("?")[0]));
  } catch {
    words = [""];
  }
  const [, title, page] = PAGES.find(([path]) => path === (words[0] ?? "")) ?? PAGES[0];
  close?.();
  main.replaceChildren();
  document.title = (title ?? shown(words.slice(1).join("/"))) + " · Podyard";
  for (const one of document.querySelectorAll("#nav a")) {
    if (one.dataset.page === (words[0] ?? "")) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  const body = h("div", { class: "page" });
  main.append(body);
  close = page(body, ...words.slice(1)) ?? null;
}

function navigation() {
  const links = PAGES.filter(([, title]) => title).map(([path, title]) => h("a", { href: path ? href(path) : "#/", "data-page": path }, title));
  document.getElementById("nav").append(...links);
}

// -- light and dark -------------------------------------------------------------------------------

const wantsDark = matchMedia("(prefers-color-scheme: dark)");

function theme() {
  let chosen = null;
  try {
    chosen = localStorage.getItem("theme");
  } catch {
    // Storage may be forbidden; the browser's own wish then holds.
  }
  const dark = chosen ? chosen === "dark" : wantsDark.matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  const button = document.getElementById("theme");
  button.textContent = dark ? "☀" : "☾";
  button.setAttribute("aria-label", dark ? "Light colours" : "Dark colours");
  live.dispatchEvent(new Event("theme"));
}

document.getElementById("theme").addEventListener("click", () => {
  try {
    localStorage.setItem("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  } catch {
    return;
  }
  theme();
});
wantsDark.addEventListener("change", theme);

// -- finding by name ------------------------------------------------------------------------------

const find = document.getElementById("find-text");
let release = null;

find.addEventListener("focus", () => {
  release ??= live.useMap();
});
find.addEventListener("input", () => {
  const text = find.value.toLowerCase();
  document.getElementById("find-list").replaceChildren(...candidates(text).slice(0, 20).map(([kind, name]) => h("option", { value: name }, kind)));
});
document.getElementById("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = find.value.trim();
  if (!text) return;
  const all = candidates(text.toLowerCase()), [, , to] = all.find(([, name]) => name === text) ?? all[0] ?? [];
  if (to) location.hash = to.slice(1);
  else if (text.includes("/")) location.hash = href("job", ...text.split("/")).slice(1);
  else location.hash = href("job", "default", text).slice(1);
  find.blur();
});

function candidates(text) {
  const { map } = live, found = [];
  if (!map || !text) return found;
  for (const job of map.jobs) if (job.job.toLowerCase().includes(text)) found.push(["job", job.job, href("job", ...split(job.job))]);
  for (const level of map.levels) for (const name of level.names) if (name && name.toLowerCase().includes(text)) found.push([level.name, name, href("domain", level.name, name)]);
  for (const name of map.names) if (name.toLowerCase().includes(text)) found.push(["node", name, href("node", name)]);
  const rank = (name) => (name.toLowerCase() === text ? 0 : name.toLowerCase().startsWith(text) ? 1 : 2);
  return found.sort((a, b) => rank(a[1]) - rank(b[1]) || a[1].length - b[1].length || (a[1] < b[1] ? -1 : 1));
}

const split = (full) => [full.slice(0, full.indexOf("/")), full.slice(full.indexOf("/") + 1)];

document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/" && !typing) {
    event.preventDefault();
    find.focus();
  } else if (event.key === "Escape" && document.activeElement === find) find.blur();
});

// -- whether the service is there -----------------------------------------------------------------

function frame() {
  const { overview, state, why } = live, alarm = document.getElementById("alarm"), mark = document.getElementById("live");
  mark.className = "live " + state;
  mark.textContent = { live: "live", away: "away", connecting: "…" }[state];
  const trouble = state === "away" ? `What is shown may be old: ${why}. Trying again.` : overview?.scheduler && !overview.scheduler.ready ? "The scheduler is not ready: nothing is placed." : "";
  alarm.hidden = !trouble;
  alarm.textContent = trouble;
  if (!overview) return;
  document.getElementById("cluster").replaceChildren(h("bdi", null, shown(overview.cluster || "no cluster yet")));
  refill(document.getElementById("foot"), `Revision ${count(overview.revision)} · ${count(overview.nodes.total)} nodes · ${count(overview.gpus.total)} GPUs · `, link(["level", "0"], "as tables"));
}

for (const what of ["overview", "state"]) live.addEventListener(what, frame);
addEventListener("hashchange", () => {
  route();
  scrollTo(0, 0);
});
theme();
navigation();
route();
live.start();
