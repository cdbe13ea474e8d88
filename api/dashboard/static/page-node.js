// One node: its standing, its GPUs one by one, its pods.

import { card, domainLink, h, jobLink, name, refill, shown, table } from "./dom.js";
import { get, live } from "./live.js";
import { eventTable } from "./page-events.js";
import { pill } from "./page-overview.js";
import { clockTime, count, STANDINGS } from "./words.js";

export function nodePage(body, nodeName) {
  const head = h("div"), facts = h("div"), gpus = h("div"), pods = h("div"), faults = h("div"), events = h("div");
  body.append(head, h("div", { class: "split even" }, card("How it stands", facts), card("GPUs", gpus)), card("Faults", faults), card("Pods", pods), card("Latest events", events));
  let closed = false, timer = 0;
  const read = async () => {
    const path = encodeURIComponent(nodeName);
    try {
      const [node, there, wrong] = await Promise.all([get(`/v1/nodes/${path}`), get(`/v1/pods?node=${path}`), get(`/v1/nodes/${path}/faults?limit=200`)]);
      if (closed) return;
      const held = there.items.filter((pod) => ["bound", "running", "terminating", "lost"].includes(pod.state));
      refill(head, h("h1", null, name(node.name), " ", standing(node)));
      refill(facts, factsOf(node));
      refill(gpus, gpusOf(node, held));
      refill(pods, there.items.length ? table(["Pod", "Job", "State", "GPUs", "Ranks", ">Attempt"], there.items.map((pod) => [name(pod.name), jobLink(pod.job), pill(pod.state), pod.gpus.join(" ") || "none", pod.ranks.length ? `${pod.ranks[0]}–${pod.ranks.at(-1)}` : "–", String(pod.attempt)]), { label: "Pods" }) : h("p", { class: "note" }, "No pod is here."));
      refill(faults, faultsOf(wrong.items));
      const mine = live.events.filter((e) => e.subject.kind === "node" && e.subject.name === nodeName);
      refill(events, mine.length ? eventTable(mine.slice(0, 100), "Events of the node") : h("p", { class: "note" }, "None lately."));
    } catch (error) {
      refill(head, h("h1", null, name(nodeName)), h("p", { class: "warn", role: "alert" }, error.status === 404 ? `There is no node ${shown(nodeName)}.` : error.message));
    }
  };
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(read, 150);
  };
  live.addEventListener("overview", soon);
  read();
  return () => {
    closed = true;
    clearTimeout(timer);
    live.removeEventListener("overview", soon);
  };
}

const reasonOf = (node) => (node.health !== "healthy" ? node.health : node.draining ? "draining" : node.cordoned ? "cordoned" : "");

function standing(node) {
  const reason = reasonOf(node);
  return h("span", { class: "pill " + (reason || "good") }, h("span", { "aria-hidden": "true" }, (reason ? STANDINGS[reason]?.[0] ?? "·" : "✔") + " "), reason || "healthy");
}

function factsOf(node) {
  const reason = reasonOf(node), c = node.cordoned, d = node.draining;
  const pairs = [
    ["Takes new gangs", reason ? `no: ${STANDINGS[reason]?.[1] ?? reason}` : "yes"],
    c && ["Cordoned", h("span", null, c.reason ? name(c.reason) : "no reason given", c.by ? [" by ", name(c.by)] : null, c.at ? `, ${clockTime(c.at)}` : "")],
    d && ["Draining", d.deadline ? `until ${clockTime(d.deadline)}` : "without a deadline"],
    ["Type", h("span", null, name(node.type), node.gpu ? [", ", count(node.gpus), " × ", name(node.gpu)] : ", no GPUs")],
    ["Where", Object.entries(node.domains).map(([level, domain], i) => [i ? " › " : "", `${level} `, domain ? domainLink(level, domain) : "–"])],
    node.cpus && ["CPUs, memory", `${count(node.cpus)}, ${count(node.memory_gib)} GiB`],
    Object.keys(node.labels).length && ["Labels", Object.entries(node.labels).map(([key, value]) => h("code", null, shown(`${key}=${value}`), " "))],
    node.taints.length && ["Taints", node.taints.map((t) => h("code", null, shown(`${t.key}=${t.value}:${t.effect}`), " "))],
  ];
  return h("dl", { class: "facts" }, pairs.filter(Boolean).flatMap(([key, value]) => [h("dt", null, key), h("dd", null, value)]));
}

function faultsOf(items) {
  if (!items.length) return h("p", { class: "calm" }, "✔ None was ever reported.");
  return table(["When", "Code", "Asks for", "Of", "Message", "Cleared"], items.slice().reverse().map((f) => [
    clockTime(f.at), h("code", null, f.code), f.action.replaceAll("_", " "), f.gpus.length ? "GPU " + f.gpus.join(" ") : f.rail !== null ? `rail ${f.rail}` : "the node",
    name(f.message, { class: "message" }), f.cleared_at ? clockTime(f.cleared_at) : h("b", { class: "warn" }, "✖ open"),
  ]), { label: "Faults, newest first" });
}

function gpusOf(node, pods) {
  const holder = new Map(pods.flatMap((pod) => pod.gpus.map((gpu, i) => [gpu, { pod, rank: pod.ranks[i] }])));
  if (!node.gpus) return h("p", { class: "note" }, "It has none.");
  return h("ol", { class: "gpus", start: "0" }, Array.from({ length: node.gpus }, (_, gpu) => {
    const held = holder.get(gpu);
    return h("li", { class: held ? "held" : "open" }, h("b", null, `GPU ${gpu}`), held ? [h("span", null, `rank ${held.rank}`), jobLink(held.pod.job)] : h("span", null, "free"));
  }));
}
