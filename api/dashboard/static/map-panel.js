// A map with its legend, its choice of colours, and what is told of the thing under the pointer.

import { domainLink, h, jobLink, nodeLink, refill, shown } from "./dom.js";
import { live } from "./live.js";
import { swatch } from "./map-atlas.js";
import { FREE, ENDED } from "./map-data.js";
import { MapView } from "./map-view.js";
import { count, plural, STANDINGS } from "./words.js";

const MODES = [["job", "job"], ["queue", "queue"], ["health", "health"], ["fragmentation", "fragmentation"], ["power", "power"]];

/** @param options small: without the panel of what is picked; mode */
export function mapPanel(options) {
  const legend = h("ul", { class: "legend plain", "aria-label": "What the marks mean" }), tip = h("div", { class: "tip", "aria-hidden": "true", hidden: true });
  const picked = h("div", { class: "picked" });
  let chosen = null;
  const view = new MapView({
    mode: options.mode ?? "job",
    tell: (thing) => sentence(live.map, thing),
    onhover: (thing, event) => showTip(tip, view, thing, event),
    onopen: (thing, what) => open(live.map, thing, what),
    onpick: (thing, by) => {
      if (options.small && by !== "key") open(live.map, thing, thing?.gpu >= 0 && jobAt(live.map, thing) >= 0 ? "job" : "node");
      else if (!options.small) pick(thing);
    },
  });
  const pick = (thing) => {
    const job = thing?.node !== undefined && thing.gpu >= 0 ? jobAt(live.map, thing) : FREE;
    chosen = job >= 0 ? job : null;
    if (view.mode === "job") view.setMode("job", { job: chosen });
    view.mark(thing?.node !== undefined && thing ? [thing.node] : null);
    refill(picked, thing ? describe(live.map, thing) : hint());
  };
  const mode = h("select", { id: "map-mode" + (options.small ? "-small" : ""), onchange: () => {
    view.setMode(mode.value, {});
    showLegend();
  } }, MODES.map(([value, text]) => h("option", { value, selected: value === view.mode }, text)));
  const showLegend = () => refill(legend, view.legend().map((one) => h("li", null, one.mark ? swatch(one.colour, one.mark) : null, h("bdi", null, shown(one.text)), one.count === null ? null : h("span", { class: "num" }, count(one.count)))));
  const show = () => {
    if (!live.map) return;
    view.setData(live.map);
    showLegend();
    if (!options.small && !picked.childElementCount) refill(picked, hint());
  };
  const dark = () => {
    view.setDark(document.documentElement.dataset.theme === "dark");
    showLegend();
  };
  const release = live.useMap();
  live.addEventListener("map", show);
  live.addEventListener("theme", dark);
  show();
  const element = h("div", { class: options.small ? "map-panel small" : "map-panel" },
    h("div", { class: "map-tools" }, h("label", { for: mode.id }, "Coloured by "), mode, legend),
    h("div", { class: "map-frame" }, view.element, tip),
    options.small ? null : h("aside", { class: "card side", "aria-label": "What is picked", "aria-live": "polite" }, picked));
  return {
    element, view,
    close() {
      live.removeEventListener("map", show);
      live.removeEventListener("theme", dark);
      release();
      view.close();
    },
  };
}

export function showTip(tip, view, thing, event) {
  tip.hidden = !thing || thing.box?.depth < 0 && thing.node === undefined;
  if (tip.hidden) return;
  refill(tip, describe(view.data, thing, true));
  const box = view.element.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
  tip.style.left = `${Math.min(x + 14, Math.max(0, box.width - tip.offsetWidth - 4))}px`;
  tip.style.top = `${y + 18 + tip.offsetHeight > box.height ? Math.max(0, y - tip.offsetHeight - 10) : y + 18}px`;
}

const jobAt = (data, thing) => data.job[data.gpu0[thing.node] + Math.max(0, thing.gpu)];
const hint = () => h("p", { class: "note" }, "Click a GPU, a node or a domain. Keys: arrows go from node to node, + and − zoom, 0 shows all, Enter opens the node, J its job.");

function open(data, thing, what) {
  if (!data || !thing || thing.node === undefined) return;
  const job = jobAt(data, thing);
  if (what === "job" && job >= 0) location.hash = jobLink(data.jobs[job].job).getAttribute("href");
  else if (what === "node") location.hash = nodeLink(data.names[thing.node]).getAttribute("href");
}

/** One node in one sentence. */
function sentence(data, thing) {
  const name = shown(data.names[thing.node]), tally = new Map();
  for (let gpu = data.gpu0[thing.node]; gpu < data.gpu0[thing.node + 1]; gpu++) tally.set(data.job[gpu], (tally.get(data.job[gpu]) ?? 0) + 1);
  const parts = [...tally].map(([job, n]) => (job === FREE ? `${n} free` : job === ENDED ? `${n} of a job that has ended or is not yours` : `${n} used by ${shown(data.jobs[job].job)}`));
  const places = data.placesOf(thing.node).map(([level, domain]) => `${level} ${shown(domain)}`).join(", ");
  return `Node ${name}, ${places}. GPUs: ${parts.join(", ") || "none"}. ${data.aside[thing.node] || "healthy"}.`;
}

/** What lies under the pointer, or was picked. */
export function describe(data, thing, brief) {
  if (thing.node !== undefined) return describeNode(data, thing, brief);
  const { depth, domain } = thing.box;
  if (depth < 0) return h("p", null, "The cluster");
  const level = data.levels[depth], name = level.names[domain], lo = level.starts[domain], hi = level.ends[domain], c = data.count(lo, hi);
  return [
    h("h3", null, level.name + " ", name ? domainLink(level.name, name) : "(nodes without one)"),
    h("p", null, `${plural(c.nodes, "node")}, ${count(c.idle)} wholly free`), h("p", null, `${count(c.used)} of ${plural(c.gpus, "GPU")} in use, ${count(c.free)} free`),
    c.aside ? h("p", null, `${plural(c.aside, "node")} aside`) : null, c.kwAll ? h("p", null, `${c.kw.toFixed(1)} of ${c.kwAll.toFixed(1)} kW`) : null,
  ];
}

function describeNode(data, thing, brief) {
  const { node, gpu } = thing, at = data.gpu0[node] + gpu, job = gpu >= 0 ? data.job[at] : FREE, type = data.types[data.typeOf[node]];
  const aside = data.aside[node], rails = data.deadRails.get(node);
  return [
    h("h3", null, "node ", nodeLink(data.names[node])),
    gpu >= 0 && type.gpus ? h("p", null, `GPU ${gpu}`, job >= 0 ? [": rank ", count(data.rank[at]), " of ", jobLink(data.jobs[job].job)] : job === ENDED ? ": held by a job that has ended or is not yours" : data.claim[at] !== FREE ? [": kept for ", data.claim[at] >= 0 ? jobLink(data.jobs[data.claim[at]].job) : "people or others"] : ": free") : null,
    job >= 0 ? h("p", { class: "note" }, `${data.jobs[job].state}, ${plural(data.jobs[job].gpus, "GPU")}, priority ${data.jobs[job].priority}, queue `, h("bdi", null, shown(data.jobs[job].queue))) : null,
    aside ? h("p", { class: "warn" }, `${STANDINGS[aside]?.[0] ?? ""} ${STANDINGS[aside]?.[1] ?? aside}`) : null,
    rails ? h("p", { class: "warn" }, `✖ lost ${rails.length === 1 ? "rail" : "rails"} ${rails.join(", ")}`) : null,
    h("p", { class: "note" }, h("bdi", null, shown(type.name)), `, ${plural(type.gpus, "GPU")}`, brief ? null : type.power_kw ? `, ${type.power_kw} kW` : null),
    h("p", { class: "note" }, data.placesOf(node).map(([level, name], i) => [i ? " › " : null, `${level} `, brief ? h("bdi", null, shown(name)) : domainLink(level, name)])),
  ];
}
