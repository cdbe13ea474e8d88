// The first page: how full, how well, who waits and for what, what would fit.

import { card, domainLink, h, href, jobLink, name, refill, table } from "./dom.js";
import { live } from "./live.js";
import { mapPanel } from "./map-panel.js";
import { eventList } from "./page-events.js";
import { ago, brief, clockTime, count, percent, plural, power, REASONS, STATES, until } from "./words.js";

export function overviewPage(body) {
  const tiles = h("div", { class: "tiles" }), waits = h("div"), rest = h("div", { class: "columns" }), events = h("div");
  const panel = mapPanel({ small: true });
  body.append(
    h("h1", { class: "unseen" }, "Overview"), tiles,
    h("div", { class: "split" },
      h("section", { class: "card map-card", "aria-labelledby": "map-title" }, h("h2", { id: "map-title" }, h("a", { href: href("map") }, "Map")), panel.element),
      h("div", { class: "stack" }, card("Why gangs wait", waits), card("Latest events", events))),
    rest);
  const show = () => {
    const { overview } = live;
    if (!overview) return;
    refill(tiles, ...tilesOf(overview));
    refill(waits, waitsOf(overview));
    refill(rest, card("Largest gang that fits now", largestOf(overview)), card("Room by level", levelsOf(overview)), card("Queues", queuesOf(overview)));
  };
  const showEvents = () => refill(events, eventList(live.events.slice(0, 8)));
  live.addEventListener("overview", show);
  live.addEventListener("events", showEvents);
  show();
  showEvents();
  return () => {
    live.removeEventListener("overview", show);
    live.removeEventListener("events", showEvents);
    panel.close();
  };
}

function tile(title, value, note, extra, props) {
  return h("section", { class: "tile", "aria-label": title, ...props }, h("h2", null, title), h("p", { class: "big" }, value), extra, h("p", { class: "note" }, note));
}

/** A bar of parts that add up; each has a pattern of its own and is named below. */
export function bar(parts, label) {
  const all = parts.reduce((sum, part) => sum + part.value, 0);
  const words = parts.filter((part) => part.value).map((part) => `${count(part.value)} ${part.name}`).join(", ");
  return h("div", { class: "bar-box" },
    h("div", { class: "parts", role: "img", "aria-label": `${label}: ${words || "nothing"}` },
      parts.map((part) => part.value > 0 && h("span", { class: `part ${part.kind}`, style: { flexGrow: String(part.value / (all || 1)) } }))),
    h("p", { class: "keys", "aria-hidden": "true" }, parts.filter((part) => part.value).map((part) => h("span", null, h("i", { class: `key ${part.kind}` }), `${count(part.value)} ${part.name}`))));
}

function tilesOf(o) {
  const { gpus, nodes, jobs, faults } = o, open = Object.values(faults.open).reduce((a, b) => a + b, 0), running = (jobs.running ?? 0) + (jobs.bound ?? 0), waiting = o.waiting.reduce((sum, w) => sum + w.gangs, 0);
  const wanted = o.waiting.reduce((sum, w) => sum + w.gpus, 0), bad = nodes.total - nodes.usable;
  const claimed = Math.min(o.claimed_gpus, gpus.free);
  return [
    tile("GPUs in use", percent(gpus.total ? gpus.used / gpus.total : 0), `${count(gpus.used)} of ${count(gpus.total)}`,
      bar([{ name: "in use", value: gpus.used, kind: "used" }, { name: "kept", value: claimed, kind: "claimed" }, { name: "free", value: gpus.free - claimed, kind: "free" }, { name: "aside", value: gpus.aside, kind: "aside" }], "GPUs"), { class: "tile wide" }),
    tile("Gangs in their place", count(running), plural(jobs.recovering ?? 0, "gang") + " in recovery"),
    tile("Gangs that wait", count(waiting), waiting ? `for ${count(wanted)} GPUs` : "nobody waits"),
    tile("Nodes", count(nodes.usable), bad ? h("a", { href: href("health") }, `${count(bad)} take nothing new: `, Object.entries(o.aside).map(([why, n]) => `${count(n)} ${why}`).join(", ")) : "all take new gangs"),
    open > 0 && tile("Open faults", count(open), h("a", { href: href("health") }, Object.entries(faults.open).map(([action, n]) => `${count(n)} ${action.replaceAll("_", " ")}`).join(", "), faults.newest.length ? [": ", name(faults.newest[0].node), " ", name(faults.newest[0].code)] : null)),
    o.power && tile("Power", power(o.power.used_kw), `of ${power(o.power.total_kw)} if all nodes were in use`),
    o.scheduler && tile("Scheduler", o.scheduler.ready ? brief(o.scheduler.decide_s + o.scheduler.commit_s) : "not ready", `last cycle; ${o.scheduler.lag_revisions ? plural(o.scheduler.lag_revisions, "revision") + " behind" : "up to date"}`),
  ].filter(Boolean);
}

function waitsOf(o) {
  if (!o.waiting.length) return h("p", { class: "calm" }, "✔ Every gang has its place.");
  const most = Math.max(...o.waiting.map((w) => w.gpus), 1);
  return h("ul", { class: "plain waits" }, o.waiting.map((w) => h("li", null,
    h("div", { class: "row" }, h("a", { href: href("queue") + "?" + encodeURIComponent(w.reason) }, h("b", null, REASONS[w.reason] ?? w.reason)), h("span", { class: "num" }, `${plural(w.gangs, "gang")}, ${count(w.gpus)} GPUs`)),
    h("div", { class: "meter", "aria-hidden": "true" }, h("i", { style: { width: `${Math.max(2, (100 * w.gpus) / most)}%` } })),
    w.job && h("p", { class: "note" }, jobLink(w.job), ` waits for ${ago(w.since)}`, w.message ? ": " : "", w.message ? name(w.message, { class: "message" }) : null))),
    o.starts.length ? h("li", null, h("h3", null, "Next starts"), h("ul", { class: "plain" }, o.starts.map((s) => h("li", { class: "row" }, jobLink(s.job), h("span", { class: "num", title: clockTime(s.at) }, "in " + until(s.at)))))) : null);
}

function largestOf(o) {
  if (!o.largest_gangs.length) return h("p", null, "There are no GPUs yet.");
  // A node's own room is what its shape says.
  const levels = o.largest_gangs[0].within.map((room) => room.level).slice(0, -1);
  const rows = o.largest_gangs.slice().sort((a, b) => b.gpus_per_pod - a.gpus_per_pod).map((one) => [
    h("span", null, name(one.node_type), `, pods of ${one.gpus_per_pod}`), count(one.cluster.gpus),
    ...levels.map((level) => {
      const room = one.within.find((r) => r.level === level);
      if (!room?.gpus) return "0";
      return h("span", null, count(room.gpus), room.domain ? [" in ", domainLink(level, room.domain)] : null);
    }),
  ]);
  return table(["Shape", ">Anywhere", ...levels.map((level) => `>1 ${level}`)], rows, { label: "GPUs of the largest gang that fits, by shape and level" });
}

function levelsOf(o) {
  const rows = o.levels.map((level, depth) => [
    h("a", { href: href("level", String(depth)) }, name(level.level)),
    bar([{ name: "full", value: level.full, kind: "used" }, { name: "partly", value: level.partly, kind: "claimed" }, { name: "empty", value: level.empty, kind: "free" }], level.level),
    percent(level.fragmentation),
  ]);
  return table(["Level", "Domains", ">Scattered"], rows, { label: "How full the domains of each level are", class: "levels" });
}

function queuesOf(o) {
  const rows = o.queues.filter((q) => q.used_gpus || q.pending || q.quota_gpus !== null || o.queues.length < 8).slice(0, 30).map((q) => [
    name(q.name), count(q.used_gpus), q.quota_gpus === null ? "–" : count(q.quota_gpus), q.limit_gpus === null ? "–" : count(q.limit_gpus), count(q.pending),
  ]);
  return table(["Queue", ">GPUs in use", ">Quota", ">Limit", ">Waiting"], rows, { label: "Queues" });
}

/** A job's state with its glyph. */
export function pill(state) {
  const [glyph, words] = STATES[state] ?? ["·", state];
  return h("span", { class: `pill ${state}`, title: words }, h("span", { "aria-hidden": "true" }, glyph + " "), state);
}
