// One domain, a rack or a leaf, with what is in it; and the domains of a level as a table.

import { card, domainLink, h, href, jobLink, name, nodeLink, refill, shown, table } from "./dom.js";
import { live } from "./live.js";
import { bar } from "./page-overview.js";
import { count, plural, percent, STANDINGS } from "./words.js";

const ROWS = 400;

function page(body, show) {
  const release = live.useMap();
  live.addEventListener("map", show);
  show();
  return () => {
    live.removeEventListener("map", show);
    release();
  };
}

const parts = (c) => bar([{ name: "in use", value: c.used, kind: "used" }, { name: "free", value: c.free, kind: "free" }, { name: "aside", value: c.gpus - c.used - c.free, kind: "aside" }], "GPUs");

export function levelPage(body, position) {
  return page(body, () => {
    const { map } = live;
    if (!map) return;
    const depth = Math.max(0, Math.min(map.levels.length - 1, Number(position) || 0)), level = map.levels[depth];
    if (!level) return refill(body, h("h1", null, "Levels"), h("p", null, "The cluster has no level above its nodes."));
    const rows = level.names.map((domain, i) => [domain, level.starts[i], level.ends[i]]).slice(0, ROWS).map(([domain, lo, hi]) => {
      const c = map.count(lo, hi);
      return [domain ? domainLink(level.name, domain) : `no ${level.name}`, count(c.nodes), count(c.idle), parts(c), c.aside ? count(c.aside) : "–", c.kwAll ? `${c.kw.toFixed(0)} / ${c.kwAll.toFixed(0)}` : "–"];
    });
    refill(body, h("h1", null, "The map as a table"), h("p", { class: "axes" }, map.levels.map((one, i) => h("a", { href: href("level", String(i)), "aria-current": i === depth ? "page" : null, class: "choice" }, shown(one.name), ` (${count(one.names.length)})`))),
      table(["Name", ">Nodes", ">Wholly free", "GPUs", ">Aside", ">kW"], rows, { label: `Domains of the level ${level.name}` }), level.names.length > ROWS ? h("p", { class: "note" }, `The first ${ROWS}.`) : null);
  });
}

export function domainPage(body, levelName, domainName) {
  return page(body, () => {
    const { map } = live;
    if (!map) return;
    const depth = map.levels.findIndex((level) => level.name === levelName), domain = depth < 0 ? -1 : map.levels[depth].names.indexOf(domainName);
    if (domain < 0) return refill(body, h("h1", null, name(domainName)), h("p", { class: "warn", role: "alert" }, shown(`There is no ${levelName} '${domainName}'.`)));
    const level = map.levels[depth], lo = level.starts[domain], hi = level.ends[domain], c = map.count(lo, hi);
    const above = map.levels.slice(0, depth).map((l, d) => [l.name, l.names[map.domainOf(d, lo)]]).filter(([, n]) => n);
    refill(body, h("p", { class: "note" }, above.map(([l, n], i) => [i ? " › " : "", `${l} `, domainLink(l, n)])), h("h1", null, `${shown(level.name)} `, name(domainName)),
      card("Use", h("p", null, `${plural(c.nodes, "node")}, ${count(c.idle)} wholly free, ${c.aside ? count(c.aside) + " aside" : "none aside"}. `, c.kwAll ? `${c.kw.toFixed(1)} of ${c.kwAll.toFixed(1)} kW.` : ""), parts(c)),
      card("Jobs here", jobsIn(map, lo, hi)), depth + 1 < map.levels.length ? card("Inside", inside(map, depth + 1, lo, hi)) : null, card("Nodes", nodesIn(map, lo, hi)));
  });
}

function jobsIn(map, lo, hi) {
  const held = new Map();
  for (let at = map.gpu0[lo]; at < map.gpu0[hi]; at++) if (map.job[at] >= 0) held.set(map.job[at], (held.get(map.job[at]) ?? 0) + 1);
  if (!held.size) return h("p", { class: "note" }, "None.");
  const rows = [...held].sort((a, b) => b[1] - a[1]).slice(0, 100).map(([job, n]) => [jobLink(map.jobs[job].job), map.jobs[job].state, count(n), count(map.jobs[job].gpus), percent(n / map.jobs[job].gpus)]);
  return table(["Job", "State", ">GPUs here", ">Of all its", ">Share"], rows, { label: "Jobs" });
}

function inside(map, depth, lo, hi) {
  const level = map.levels[depth], rows = [];
  for (let d = map.domainOf(depth, lo); d < level.ends.length && level.starts[d] < hi; d++) {
    const c = map.count(level.starts[d], level.ends[d]);
    rows.push([level.names[d] ? domainLink(level.name, level.names[d]) : `no ${level.name}`, count(c.nodes), count(c.idle), parts(c)]);
  }
  return table([level.name, ">Nodes", ">Wholly free", "GPUs"], rows.slice(0, 100), { label: `Domains of the level ${level.name}` });
}

function nodesIn(map, lo, hi) {
  const rows = [];
  for (let node = lo; node < Math.min(hi, lo + ROWS); node++) {
    const c = map.count(node, node + 1), aside = map.aside[node];
    rows.push([nodeLink(map.names[node]), name(map.types[map.typeOf[node]].name), `${count(c.used)} / ${count(c.gpus)}`, aside ? `${STANDINGS[aside]?.[0] ?? ""} ${aside}` : "healthy"]);
  }
  return [table(["Node", "Type", ">GPUs in use", "Standing"], rows, { label: "Nodes" }), hi - lo > ROWS ? h("p", { class: "note" }, `The first ${ROWS} of ${count(hi - lo)}.`) : null];
}
