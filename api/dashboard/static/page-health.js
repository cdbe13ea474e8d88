// What is not as it should be: nodes that take nothing new, lost rails, faults.

import { card, domainLink, h, name, nodeLink, refill, table } from "./dom.js";
import { get, live } from "./live.js";
import { clockTime, count, plural, STANDINGS } from "./words.js";

const ROWS = 500;

export function healthPage(body) {
  const sums = h("div", { class: "tiles" }), nodes = h("div"), rails = h("div"), faults = h("div");
  body.append(h("h1", null, "Health"), sums, card("Open faults", faults), card("Nodes that take nothing new", nodes), card("Lost rails", rails));
  let closed = false;
  const readFaults = async () => {
    try {
      const found = await get("/v1/faults?open=true&limit=500");
      if (!closed) refill(faults, faultsOf(found));
    } catch (error) {
      refill(faults, h("p", { class: "warn" }, error.message));
    }
  };
  const show = () => {
    const { overview, map } = live;
    if (overview) {
      const all = { ...overview.health, ...overview.aside };
      refill(sums, Object.entries(all).map(([reason, n]) => h("section", { class: "tile", "aria-label": reason }, h("h2", null, `${STANDINGS[reason]?.[0] ?? "✔"} ${reason}`), h("p", { class: "big" }, count(n)), h("p", { class: "note" }, STANDINGS[reason]?.[1] ?? "as they should be"))));
    }
    if (!map) return;
    const aside = map.aside.map((reason, node) => [node, reason]).filter(([, reason]) => reason);
    refill(nodes, aside.length ? [table(["Node", "Standing", "Where", ">GPUs in use"], aside.slice(0, ROWS).map(([node, reason]) => [nodeLink(map.names[node]), `${STANDINGS[reason]?.[0] ?? "·"} ${STANDINGS[reason]?.[1] ?? reason}`, h("span", null, map.placesOf(node).map(([level, name], i) => [i ? " › " : "", domainLink(level, name)])), `${count(map.count(node, node + 1).used)} / ${count(map.gpusOf(node))}`]), { label: "Nodes that take nothing new" }), aside.length > ROWS ? h("p", { class: "note" }, `The first ${ROWS} of ${plural(aside.length, "node")}.`) : null] : h("p", { class: "calm" }, "✔ All nodes take new gangs."));
    const dead = [...map.deadRails];
    refill(rails, dead.length ? table(["Node", "Rails"], dead.slice(0, ROWS).map(([node, lost]) => [nodeLink(map.names[node]), lost.join(", ")]), { label: "Nodes that lost rails" }) : h("p", { class: "calm" }, "✔ All rails are there, as far as is known."));
  };
  const release = live.useMap();
  live.addEventListener("overview", readFaults);
  readFaults();
  for (const what of ["overview", "map"]) live.addEventListener(what, show);
  show();
  return () => {
    closed = true;
    live.removeEventListener("overview", readFaults);
    for (const what of ["overview", "map"]) live.removeEventListener(what, show);
    release();
  };
}

function faultsOf(found) {
  if (!found.items.length) return h("p", { class: "calm" }, "✔ No fault is open.");
  const rows = found.items.slice().reverse().map((f) => [
    nodeLink(f.node), h("code", null, f.code), f.action.replaceAll("_", " "), f.gpus.length ? "GPU " + f.gpus.join(" ") : f.rail !== null ? `rail ${f.rail}` : "the node",
    h("time", { datetime: f.at }, clockTime(f.at)), name(f.message, { class: "message" }),
  ]);
  return [table(["Node", "Code", "Asks for", "Of", "When", "Message"], rows, { label: "Open faults" }), found.next ? h("p", { class: "note" }, "The first 500.") : null];
}
