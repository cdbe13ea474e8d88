// One job: how it stands, why it waits or where it lies, what its groups cost there, what happened.

import { card, domainLink, h, jobLink, name, nodeLink, refill, shown, table } from "./dom.js";
import { groupsOf } from "./groups.js";
import { get, live } from "./live.js";
import { swatch } from "./map-atlas.js";
import { hueOf } from "./map-colours.js";
import { showTip } from "./map-panel.js";
import { MapView } from "./map-view.js";
import { eventTable } from "./page-events.js";
import { pill } from "./page-overview.js";
import { ago, brief, bytes, clockTime, count, plural, REASONS, seconds, span, until } from "./words.js";

const PODS_SHOWN = 200;
const PLACED = new Set(["bound", "running", "recovering", "evicting"]);
const AXIS_WORDS = { tp: "tensor", cp: "context", ep: "expert", dp: "data", pp: "pipeline" };

export function jobPage(body, namespace, jobName) {
  const base = `/v1/namespaces/${encodeURIComponent(namespace)}/jobs/${encodeURIComponent(jobName)}`, full = `${namespace}/${jobName}`;
  const head = h("div"), facts = h("div"), why = h("div"), costs = h("div"), happened = h("div"), saved = h("div"), pods = h("div");
  const places = placementMap(full);
  const mapCard = card("Where it lies", places.element);
  body.append(head, h("div", { class: "split even" }, card("How it stands", facts), card("Why", why)), mapCard, card("What its talk costs there", costs), card("Pods", pods), card("Checkpoints", saved), card("Time line", happened));
  let last = -1, closed = false, timer = 0;
  const read = async () => {
    let job;
    try {
      job = await get(base);
    } catch (error) {
      refill(head, h("h1", null, name(full)), h("p", { class: "warn", role: "alert" }, error.status === 404 ? `There is no job ${shown(full)}.` : error.message));
      for (const one of body.querySelectorAll(".card")) one.hidden = true;
      return;
    }
    if (closed) return;
    for (const one of body.querySelectorAll(".card")) one.hidden = false;
    refill(head, headOf(job, full));
    refill(facts, factsOf(job));
    const [verdict, placement, history, checkpoints] = await Promise.all([
      get(base + "/explain").catch(() => null), PLACED.has(job.state) ? get(base + "/placement").catch(() => null) : null, get(base + "/events?limit=1000").catch(() => null), get(base + "/checkpoints").catch(() => null),
    ]);
    if (closed) return;
    refill(why, verdict ? verdictOf(job, verdict) : h("p", null, shown(job.message || "Nothing is known.")));
    const has = placement?.pods.length;
    mapCard.hidden = !has;
    if (has) places.setJob(job, placement);
    refill(costs, has ? costsOf(placement) : h("p", { class: "note" }, "It has no place yet; ", h("code", null, `yardctl submit --test-only`), " tells what one would cost."));
    refill(pods, has ? podsOf(placement) : h("p", { class: "note" }, "It has no pods yet."));
    refill(saved, checkpointsOf(checkpoints?.items ?? []));
    const events = (history?.items ?? []).slice().reverse();
    refill(happened, lifeOf(job), events.length ? eventTable(events.slice(0, 300), "Events of the job and its pods, newest first") : h("p", { class: "note" }, "Its events are no longer kept."));
  };
  const again = () => {
    const revision = live.events.find((e) => e.subject.namespace === namespace && (e.subject.name === jobName || e.subject.name.startsWith(jobName + "-")))?.revision ?? 0;
    if (revision <= last) return;
    last = revision;
    clearTimeout(timer);
    timer = setTimeout(read, 150);
  };
  live.addEventListener("events", again);
  live.addEventListener("overview", again);
  const slow = setInterval(() => !document.hidden && read(), 30000);
  read();
  return () => {
    closed = true;
    clearTimeout(timer);
    clearInterval(slow);
    live.removeEventListener("events", again);
    live.removeEventListener("overview", again);
    places.close();
  };
}

function headOf(job, full) {
  return [h("h1", null, name(full), " ", pill(job.state), job.held ? h("span", { class: "pill" }, "⏸ held") : null), job.message ? h("p", { class: "lead" }, name(job.message, { class: "message" })) : null];
}

function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(Boolean).flatMap(([key, value]) => [h("dt", null, key), h("dd", null, value)]));
}

function factsOf(job) {
  const spec = job.spec, sizes = spec.parallelism, restarts = Math.max(0, job.attempt - 1);
  const axes = sizes && Object.entries(AXIS_WORDS).filter(([axis]) => typeof sizes[axis] === "number" ? sizes[axis] > 1 : sizes[axis]).map(([axis]) => `${axis} ${typeof sizes[axis] === "number" ? sizes[axis] : "elastic"}`).join(" · ");
  return facts([
    ["Queue", name(job.queue)], ["Priority", String(job.priority) + (job.preemptible ? "" : ", never preempted")],
    ["GPUs", `${count(job.gpus)} in ${plural(job.members, "pod")}` + (job.minimum < job.members ? `, at least ${count(job.minimum)} of them` : "")],
    axes && ["Layout", axes], spec.roles?.length && ["Roles", spec.roles.map((role) => `${shown(role.name)} × ${role.replicas}`).join(", ")],
    spec.topology?.length && ["Rules", h("ul", { class: "plain" }, spec.topology.map((rule) => h("li", null, `${shown(rule.group ?? "parts")} within ${shown(rule.within)}, ${rule.mode}`, job.rules_broken.some((b) => b.group === rule.group && b.within === rule.within) ? h("span", { class: "warn" }, " ✖ does not hold") : null)))],
    job.node_type && ["Node type", name(job.node_type)],
    ["Submitted", h("time", { datetime: job.submitted_at }, `${clockTime(job.submitted_at)}, ${ago(job.submitted_at)} ago`)],
    job.bound_at && ["Waited", span(seconds(job.bound_at) - seconds(job.submitted_at))],
    job.started_at && !job.finished_at && ["Running for", ago(job.started_at)],
    job.finished_at && ["Ended", clockTime(job.finished_at)],
    job.expected_start && ["Expected start", `${clockTime(job.expected_start)}, in ${until(job.expected_start)}`],
    spec.duration_s && ["Declared duration", span(spec.duration_s)],
    ["Running pods", `${count(job.running)} of ${count(job.members)}`],
    ["Restarts", restarts ? plural(restarts, "restart") + ` (attempt ${job.attempt})` : "none"],
    job.saved && ["Last checkpoint", `step ${count(job.saved.step)}, ${ago(job.saved.at)} ago`],
    job.evicting && ["Leaving", `${job.evicting.step}, then ${job.evicting.then}` + (job.evicting.why ? `: ${shown(job.evicting.why)}` : "")],
  ]);
}

function verdictOf(job, v) {
  const out = [h("p", { class: "lead" }, v.fits ? "✔ " : v.when === "never" ? "✖ Never, as the cluster is: " : "◔ Not now: ", v.code && !v.fits ? h("b", null, (REASONS[v.code] ?? v.code) + ". ") : null, name(v.message, { class: "message" }))];
  if (v.rule) out.push(h("p", null, "The rule that binds: ", h("b", null, shown(`${v.rule.group || "parts"} within ${v.rule.within}`)), `, ${v.rule.mode}`));
  if (v.nearest) out.push(h("p", null, "Nearest: ", v.nearest.domain ? [v.nearest.level + " ", domainLink(v.nearest.level, v.nearest.domain)] : "the whole cluster", `, which lacks ${plural(v.nearest.lacks.nodes, "node")} (${plural(v.nearest.lacks.gpus, "GPU")})`));
  if (v.wanted && v.fitting < v.wanted) out.push(h("div", { class: "meter", role: "img", "aria-label": `${v.fitting} of ${v.wanted} members would find a place` }, h("i", { style: { width: `${(100 * v.fitting) / v.wanted}%` } })), h("p", { class: "note" }, `${count(v.fitting)} of ${count(v.wanted)} members would find a place`));
  const aside = Object.entries(v.set_aside);
  if (aside.length) out.push(h("p", { class: "note" }, "Not looked at: ", aside.map(([reason, n]) => `${count(n)} ${reason.replaceAll("_", " ")}`).join(", ")));
  if (v.ahead) out.push(h("p", null, `${plural(v.ahead, "gang is", "gangs are")} before it in line.`));
  if (v.expected_start) out.push(h("p", null, `Expected start: ${clockTime(v.expected_start)}, in ${until(v.expected_start)}.`));
  if (v.holders.length) {
    out.push(h("h3", null, "Who holds what it lacks"), table(["Job", ">GPUs", "Ends"], v.holders.map((one) => [one.job ? jobLink(one.job) : one.hidden ? plural(one.hidden, "job") + " of others" : plural(one.more, "more job"), count(one.gpus), one.expected_end ? "in " + until(one.expected_end) : "not declared"]), { label: "Holders" }));
  }
  if (v.changes.length) {
    out.push(h("h3", null, "What would help"), h("ul", null, v.changes.map((one) => h("li", null, name(one.message, { class: "message" }), one.others_first ? h("span", { class: "note" }, `; ${plural(one.others_first, "gang")} would go first`) : null))), h("p", { class: "note" }, "Each was tried on a copy of the cluster: with it the job would start now, were it next."));
  }
  return out;
}

function costsOf(p) {
  const axes = Object.entries(p.groups), levels = [...new Set(axes.flatMap(([, g]) => Object.keys(g.spans)))];
  const told = p.inter_node_s === null ? null : h("p", null, h("b", null, brief(p.inter_node_s)), " of talk between nodes in a training step, ", h("b", null, brief(p.exposed_s)), " of all talk not hidden behind computation", p.assumed ? " (assumed: the job does not describe its model)" : "", ".");
  const regret = p.regret === null ? null : h("p", null, "Regret ", h("b", null, p.regret.toFixed(2)), p.regret <= 1.005 ? ": no better place on an empty cluster." : `: on an empty cluster it would take ${brief(p.inter_node_s / p.regret)}.`, p.search === "bounded" ? " The search was cut before every choice was seen." : "");
  const spread = (s) => (s ? `${s.mean === s.max ? s.max : s.mean.toFixed(2) + ", at most " + s.max}${s.least_possible && s.max > s.least_possible ? ` (least possible ${s.least_possible})` : ""}` : "–");
  return [told, regret, h("p", { class: "note" }, "The last columns: how many domains of each level a group of the axis lies in."), table(["Groups", ">Groups of", ">Bytes a step", ">Time", ">Not hidden", "Bound by", "Rail-true", ...levels.map((l) => `>${shown(l)}`)],
    axes.map(([axis, g]) => [h("span", null, h("b", null, shown(axis)), AXIS_WORDS[axis] ? ` ${AXIS_WORDS[axis]}` : ""), `${count(g.count)} × ${count(g.size)}`, bytes(g.bytes_per_step), brief(g.seconds), brief(g.exposed_s), g.bottleneck ?? "–", g.rail_true ? "✔ all" : `${count(g.rail_true_groups)} of ${count(g.count)}`, ...levels.map((l) => spread(g.spans[l]))]), { label: "Cost and spread by axis" })];
}

function podsOf(p) {
  const shownPods = p.pods.slice(0, PODS_SHOWN);
  return [table(["Pod", "Node", "GPUs", "Ranks", "Where"], shownPods.map((pod) => [name(pod.name), nodeLink(pod.node), pod.gpus.join(" ") || "none", pod.ranks.length ? `${pod.ranks[0]}–${pod.ranks.at(-1)}` : "–", Object.entries(pod.domains).map(([level, domain], i) => [i ? " › " : "", domain ? domainLink(level, domain) : "–"])]), { label: "Pods" }),
    p.pods.length > PODS_SHOWN ? h("p", { class: "note" }, `The first ${PODS_SHOWN} of ${count(p.pods.length)} pods.`) : null];
}

function checkpointsOf(items) {
  if (!items.length) return h("p", { class: "note" }, "It has told of none.");
  return table([">Step", "When", "Where", "Copies"], items.map((c) => [count(c.step), h("time", { datetime: c.at }, `${clockTime(c.at)}, ${ago(c.at)} ago`), name(c.uri), !c.exists ? h("span", { class: "warn" }, "✖ none is left") : c.nodes.length ? `on ${plural(c.nodes.length - c.lost_nodes.length, "node")}` + (c.lost_nodes.length ? `, ${c.lost_nodes.length} lost` : "") : "kept elsewhere"]), { label: "Checkpoints, newest first" });
}

/** Its stages on one line: submitted, placed, running, ended. */
function lifeOf(job) {
  const marks = [["submitted", job.submitted_at], ["placed", job.bound_at], ["running", job.started_at], ["ended", job.finished_at]].filter(([, at]) => at);
  return h("ol", { class: "life" }, marks.map(([what, at], i) => h("li", null, h("b", null, what), h("time", { datetime: at }, clockTime(at)), i + 1 < marks.length ? h("span", { class: "note" }, span(seconds(marks[i + 1][1]) - seconds(at)) + " →") : null)));
}

/** The job's own nodes, coloured by the groups of the axis that is picked. */
function placementMap(full) {
  const buttons = h("div", { class: "axes", role: "group", "aria-label": "Groups shown" }), note = h("p", { class: "note", "aria-live": "polite" });
  const tip = h("div", { class: "tip", "aria-hidden": "true", hidden: true });
  let groups = {}, axis = null, job = null, nodes = [], chosen = null, releases = null, asked = false;
  const groupAt = (thing) => {
    if (!axis || !thing || thing.node === undefined || thing.gpu < 0) return null;
    const at = live.map.gpu0[thing.node] + thing.gpu;
    return live.map.job[at] === job ? groups[axis].groupOf(live.map.rank[at]) : null;
  };
  const view = new MapView({
    only: [], mode: "job", label: `Where the pods of ${shown(full)} are`,
    tell: (thing) => told(groupAt(thing), thing),
    onhover: (thing, event) => showTip(tip, view, thing, event),
    onpick: (thing) => {
      const group = groupAt(thing);
      chosen = group === chosen ? null : group;
      look();
    },
    onopen: (thing) => (location.hash = nodeLink(live.map.names[thing.node]).getAttribute("href")),
  });
  const told = (group, thing) => `Node ${shown(live.map.names[thing.node])}, ranks ${ranksOf(thing.node)}` + (group === null ? "" : `, ${axis} group ${group}`);
  const ranksOf = (node) => {
    const { gpu0, rank, job: jobs } = live.map, there = [];
    for (let at = gpu0[node]; at < gpu0[node + 1]; at++) if (jobs[at] === job) there.push(rank[at]);
    return there.length ? `${there[0]} to ${there.at(-1)}` : "none";
  };
  const look = () => {
    if (!live.map || job === null) return;
    if (axis) view.setMode("group", { job, groupOf: groups[axis].groupOf, chosen });
    else view.setMode("job", { job });
    const marks = axis ? Array.from({ length: Math.min(groups[axis].count, 7) }, (_, i) => i) : [];
    refill(buttons, Object.keys(groups).map((one) => h("button", { type: "button", "data-key": one, "aria-pressed": String(one === axis), onclick: () => {
      axis = one === axis ? null : one;
      asked = true;
      chosen = null;
      look();
    } }, `${one} ${groups[one].size}`)));
    refill(note, axis ? [`${plural(groups[axis].count, "group")} of ${groups[axis].size} ranks, a colour and mark each: `, marks.map((i) => swatch(hueOf(i + 1, view.dark), ["full", "ring", "plus", "half", "bar", "cross", "corners"][i % 7])), groups[axis].count > 7 ? "… " : " ", chosen === null ? "Click a GPU to see its group alone." : h("b", null, `Group ${chosen}: ranks ${members(chosen)}.`)] : Object.keys(groups).length ? "Pick an axis to see its groups." : `${plural(nodes.length, "node")}`);
  };
  const members = (group) => {
    const found = [];
    for (let at = 0; at < live.map.job.length && found.length < 13; at++) if (live.map.job[at] === job && groups[axis].groupOf(live.map.rank[at]) === group) found.push(live.map.rank[at]);
    found.sort((a, b) => a - b);
    return found.slice(0, 12).join(", ") + (found.length > 12 ? " …" : "");
  };
  let wanted = null;
  const show = () => {
    if (!live.map || !wanted) return;
    const at = live.map.jobNamed.get(full), there = wanted.pods.map((pod) => live.map.index.get(pod.node)).filter((n) => n !== undefined);
    if (at === undefined || !there.length) return;
    job = at;
    const only = [...new Set(there)].sort((a, b) => a - b), same = only.length === nodes.length && only.every((n, i) => n === nodes[i]);
    if (view.data !== live.map) view.options.only = nodes = only;
    else if (!same) view.setOnly((nodes = only));
    view.setData(live.map);
    look();
  };
  const dark = () => {
    view.setDark(document.documentElement.dataset.theme === "dark");
    look();
  };
  live.addEventListener("map", show);
  live.addEventListener("theme", dark);
  return {
    element: h("div", null, buttons, note, h("div", { class: "map-frame job-map" }, view.element, tip)),
    setJob(found, placement) {
      wanted = placement;
      releases ??= live.useMap();
      const sizes = found.spec.parallelism, world = placement.pods.reduce((sum, pod) => sum + pod.ranks.length, 0);
      groups = sizes ? groupsOf(sizes, world) : {};
      if (axis === null && !asked) axis = ["pp", "dp", "ep", "cp", "tp"].find((one) => groups[one]) ?? null;
      if (axis && !groups[axis]) axis = null;
      show();
    },
    close() {
      live.removeEventListener("map", show);
      live.removeEventListener("theme", dark);
      releases?.();
      view.close();
    },
  };
}
