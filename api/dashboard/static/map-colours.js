// What a GPU looks like in each way of looking: a colour and a mark, so that neither tells alone.

import { ENDED, FREE } from "./map-data.js";
import { several } from "./words.js";

/** Marks of a cell of three by three: which of its nine points are inked, row by row. */
export const MARKS = {
  full: 0b111111111, ring: 0b111101111, slash: 0b001010100, cross: 0b101010101, dot: 0b000010000,
  plus: 0b010111010, bar: 0b111000111, half: 0b111111000, corners: 0b101000101,
};

const PALETTE = {
  light: {
    ground: "#ffffff", boxes: ["#eef1f5", "#e3e8ee", "#f6f8fa"], node: "#ffffff", line: "#aeb8c4", text: "#1b2430", soft: "#5b6776",
    free: "#b9c3ce", ended: "#8a94a0", claim: "#7a4fb5", used: "#2f6fb7", bad: "#c02626", warn: "#b86200", off: "#6b7280", test: "#7a4fb5",
    stranded: "#d9730d", open: "#1a9a7a", dim: "#dfe4ea",
  },
  dark: {
    ground: "#10151c", boxes: ["#18202a", "#1f2935", "#151c25"], node: "#0f141a", line: "#435061", text: "#e6ebf1", soft: "#a3afbd",
    free: "#3a4756", ended: "#7d8894", claim: "#b794e8", used: "#5b9be0", bad: "#ff6b6b", warn: "#f0a64b", off: "#8e99a6", test: "#b794e8",
    stranded: "#f29a4a", open: "#3fcf9f", dim: "#232d38",
  },
};

export const palette = (dark) => PALETTE[dark ? "dark" : "light"];

/** A colour for the nth of many: neighbours in number are far apart in hue. */
export function hueOf(n, dark) {
  const hue = (n * 137.508) % 360, ring = Math.floor(n / 7) % 3;
  const light = dark ? [66, 56, 74][ring] : [42, 52, 34][ring];
  return `hsl(${hue.toFixed(0)} ${dark ? 62 : 64}% ${light}%)`;
}

const ASIDE = {
  cordoned: ["off", "slash"], draining: ["warn", "bar"], suspect: ["warn", "plus"],
  lost: ["bad", "cross"], out: ["bad", "cross"], testing: ["test", "corners"], mismatch: ["bad", "half"], quarantined: ["warn", "ring"],
};
export const asideLook = (reason, p) => {
  const [colour, mark] = ASIDE[reason] ?? ["off", "slash"];
  return { colour: p[colour], mark };
};

/**
 * How to look at the map: `look(gpu, node)` answers {colour, mark}, `legend()` entries
 * [{colour, mark, text, count}].
 */
export function lookOf(mode, data, dark, extra) {
  const p = palette(dark);
  return { job: byJob, queue: byQueue, health: byHealth, fragmentation: byRoom, power: byPower, group: byGroup }[mode](data, p, dark, extra);
}

/** Looks that are made once: there may be a hundred thousand GPUs to ask for theirs. */
function lookBook(p) {
  const aside = new Map(), free = { colour: p.free, mark: "ring" }, claim = { colour: p.claim, mark: "dot" };
  return {
    free, claim, ended: { colour: p.ended, mark: "half" }, dim: { colour: p.dim, mark: "full" },
    aside(reason) {
      let look = aside.get(reason);
      if (!look) aside.set(reason, (look = asideLook(reason, p)));
      return look;
    },
  };
}

function emptyLook(data, book, gpu, node) {
  if (data.claim[gpu] !== FREE) return book.claim;
  return data.aside[node] ? book.aside(data.aside[node]) : book.free;
}

function emptyLegend(data, p) {
  const tally = new Map();
  let free = 0, claimed = 0;
  for (let node = 0; node < data.nodeCount; node++) {
    for (let gpu = data.gpu0[node]; gpu < data.gpu0[node + 1]; gpu++) {
      if (data.job[gpu] !== FREE) continue;
      if (data.claim[gpu] !== FREE) claimed++;
      else if (data.aside[node]) tally.set(data.aside[node], (tally.get(data.aside[node]) ?? 0) + 1);
      else free++;
    }
  }
  return [
    { colour: p.free, mark: "ring", text: "free", count: free },
    claimed && { colour: p.claim, mark: "dot", text: "kept for somebody", count: claimed },
    ...[...tally].map(([reason, n]) => ({ ...asideLook(reason, p), text: `free, ${reason}`, count: n })),
  ].filter(Boolean);
}

function byJob(data, p, dark, { job: chosen } = {}) {
  const book = lookBook(p), looks = data.jobs.map((job) => ({ colour: hueOf(job.id, dark), mark: "full" }));
  return {
    look(gpu, node) {
      const job = data.job[gpu];
      if (job === FREE) return emptyLook(data, book, gpu, node);
      if (job === ENDED) return book.ended;
      if (chosen !== undefined && chosen !== null && job !== chosen) return book.dim;
      return data.aside[node] ? { colour: looks[job].colour, mark: ASIDE[data.aside[node]]?.[1] ?? "slash" } : looks[job];
    },
    legend() {
      let used = 0, jobs = 0;
      for (const there of data.nodesOf.values()) jobs += there.length ? 1 : 0;
      for (const job of data.job) used += job !== FREE ? 1 : 0;
      return [{ colour: p.used, mark: "full", text: `in use by ${jobs} jobs, a colour each`, count: used }, ...emptyLegend(data, p)];
    },
  };
}

function byQueue(data, p, dark) {
  const queues = [...new Set(data.jobs.map((job) => job.queue))].sort();
  const number = new Map(queues.map((queue, i) => [queue, i]));
  const book = lookBook(p), looks = data.jobs.map((job) => ({ colour: hueOf(number.get(job.queue) + 1, dark), mark: "full" }));
  return {
    look(gpu, node) {
      const job = data.job[gpu];
      if (job === FREE) return emptyLook(data, book, gpu, node);
      return job === ENDED ? book.ended : looks[job];
    },
    legend() {
      const tally = new Array(queues.length).fill(0);
      for (const job of data.job) if (job >= 0) tally[number.get(data.jobs[job].queue)]++;
      const shown = queues.map((queue, i) => ({ colour: hueOf(i + 1, dark), mark: "full", text: queue, count: tally[i] }));
      return [...shown.filter((one) => one.count).sort((a, b) => b.count - a.count).slice(0, 12), ...emptyLegend(data, p)];
    },
  };
}

function byHealth(data, p) {
  const book = lookBook(p), used = { colour: p.used, mark: "full" }, railLess = { colour: p.warn, mark: "cross" };
  return {
    look(gpu, node) {
      if (data.aside[node]) return book.aside(data.aside[node]);
      if (data.deadRails.size && data.deadRails.get(node)?.includes(gpu - data.gpu0[node])) return railLess;
      return data.job[gpu] !== FREE ? used : book.free;
    },
    legend() {
      const tally = new Map();
      for (const reason of data.aside) if (reason) tally.set(reason, (tally.get(reason) ?? 0) + 1);
      const healthy = data.nodeCount - [...tally.values()].reduce((a, b) => a + b, 0);
      return [
        { colour: p.used, mark: "full", text: "healthy, in use", count: null }, { colour: p.free, mark: "ring", text: "healthy, free", count: null },
        { colour: p.line, mark: null, text: "healthy nodes", count: healthy },
        ...[...tally].map(([reason, n]) => ({ ...asideLook(reason, p), text: `nodes ${reason}`, count: n })),
        data.deadRails.size && { colour: p.warn, mark: "cross", text: "nodes that lost a rail", count: data.deadRails.size },
      ].filter(Boolean);
    },
  };
}

function byRoom(data, p) {
  const whole = new Uint8Array(data.nodeCount);
  for (let node = 0; node < data.nodeCount; node++) {
    let free = 0;
    for (let gpu = data.gpu0[node]; gpu < data.gpu0[node + 1]; gpu++) free += data.job[gpu] === FREE && data.claim[gpu] === FREE ? 1 : 0;
    whole[node] = free === data.gpusOf(node) ? 1 : 0;
  }
  const book = lookBook(p), open = { colour: p.open, mark: "full" }, stranded = { colour: p.stranded, mark: "plus" };
  return {
    look(gpu, node) {
      if (data.job[gpu] !== FREE) return book.dim;
      if (data.claim[gpu] !== FREE || data.aside[node]) return emptyLook(data, book, gpu, node);
      return whole[node] ? open : stranded;
    },
    legend() {
      let wholly = 0, beside = 0;
      for (let node = 0; node < data.nodeCount; node++) {
        if (data.aside[node]) continue;
        if (whole[node]) wholly += data.gpusOf(node);
        else for (let gpu = data.gpu0[node]; gpu < data.gpu0[node + 1]; gpu++) beside += data.job[gpu] === FREE && data.claim[gpu] === FREE ? 1 : 0;
      }
      return [
        { colour: p.open, mark: "full", text: "free, on nodes that are wholly free", count: wholly },
        { colour: p.stranded, mark: "plus", text: "free, beside others", count: beside },
        { colour: p.dim, mark: "full", text: "in use", count: null }, ...emptyLegend(data, p).slice(1),
      ];
    },
  };
}

const POWER_MARKS = ["dot", "ring", "half", "full"];

function byPower(data, p, dark) {
  const depth = data.levels.length - 1, share = new Float32Array(data.nodeCount);
  const groups = depth < 0 ? [] : data.levels[depth].ends.map((end, i) => [data.levels[depth].starts[i], end]);
  for (const [lo, hi] of groups) {
    const { kw, kwAll } = data.count(lo, hi);
    share.fill(kwAll ? kw / kwAll : 0, lo, hi);
  }
  const ramp = (x) => `hsl(${(210 - 190 * x).toFixed(0)} 70% ${dark ? 40 + 22 * x : 62 - 20 * x}%)`;
  const step = (x) => (x <= 0 ? 0 : x < 0.5 ? 1 : x < 1 ? 2 : 3);
  const made = new Map();
  return {
    look(_, node) {
      let look = made.get(share[node]);
      if (!look) {
        const i = step(share[node]);
        made.set(share[node], (look = { colour: i ? ramp(share[node]) : p.free, mark: POWER_MARKS[i] }));
      }
      return look;
    },
    legend() {
      const { kw, kwAll } = data.count(0, data.nodeCount);
      const level = data.levels[depth]?.name ?? "cluster";
      if (!kwAll) return [{ colour: p.free, mark: "dot", text: "the draw of these nodes is not known", count: null }];
      return [
        { colour: p.free, mark: "dot", text: `${several(level)} that draw nothing`, count: null }, { colour: ramp(0.3), mark: "ring", text: "below half of their full draw", count: null },
        { colour: ramp(0.75), mark: "half", text: "above half", count: null }, { colour: ramp(1), mark: "full", text: "their full draw", count: null },
        { colour: p.line, mark: null, text: `${Math.round(kw)} of ${Math.round(kwAll)} kW in use`, count: null },
      ];
    },
  };
}

const GROUP_MARKS = ["full", "ring", "plus", "half", "bar", "cross", "corners"];

/** GPUs of one job by the group of an axis they are in; `chosen` alone keeps its colour. */
function byGroup(data, p, dark, { job, groupOf, chosen }) {
  return {
    look(gpu) {
      if (data.job[gpu] !== job) return { colour: p.dim, mark: data.job[gpu] === FREE ? "ring" : "full" };
      const group = groupOf(data.rank[gpu]);
      if (chosen !== null && chosen !== undefined && group !== chosen) return { colour: p.free, mark: "ring" };
      return { colour: hueOf(group + 1, dark), mark: GROUP_MARKS[group % GROUP_MARKS.length] };
    },
    legend: () => [],
  };
}
