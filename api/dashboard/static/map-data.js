// The map as numbers: flat arrays over nodes and GPUs, kept up by what `/v1/map` says has changed.

export const FREE = -1, ENDED = -2;

export class MapData {
  /** @param doc a whole answer of `/v1/map` */
  constructor(doc) {
    this.cluster = doc.cluster;
    this.levels = doc.levels.map((level) => ({
      name: level.name, names: level.names, ends: level.ends, starts: [0, ...level.ends.slice(0, -1)],
    }));
    this.types = doc.types;
    this.names = doc.nodes;
    this.typeOf = doc.node_types;
    const n = this.names.length;
    this.index = new Map(this.names.map((name, i) => [name, i]));
    this.gpu0 = new Int32Array(n + 1);
    for (let i = 0; i < n; i++) this.gpu0[i + 1] = this.gpu0[i] + this.types[this.typeOf[i]].gpus;
    const gpus = this.gpu0[n];
    /** Of each GPU: position of its job in `jobs`, or FREE or ENDED; its rank; whether it is claimed. */
    this.job = new Int32Array(gpus).fill(FREE);
    this.rank = new Int32Array(gpus).fill(-1);
    this.claim = new Int32Array(gpus).fill(FREE);
    this.aside = new Array(n).fill("");
    this.deadRails = new Map();
    this.jobs = [];
    this.jobAt = new Map();
    this.jobNamed = new Map();
    this.nodesOf = new Map();
    this.apply(doc);
  }

  get nodeCount() {
    return this.names.length;
  }

  /** Take in what changed. */
  apply(doc) {
    this.revision = doc.revision;
    for (const job of doc.jobs) {
      const at = this.jobAt.get(job.id) ?? this.jobs.length;
      this.jobs[at] = job;
      this.jobAt.set(job.id, at);
      this.jobNamed.set(job.job, at);
    }
    for (const use of doc.use) this.#use(use);
    this.claim.fill(FREE);
    this.claims = doc.claims;
    for (const claim of doc.claims) {
      const at = this.jobAt.get(claim.job) ?? ENDED;
      for (const gpu of bits(claim.gpus)) this.claim[this.gpu0[claim.node] + gpu] = at;
    }
    this.deadRails = new Map(doc.dead_rails.map((one) => [one.node, bits(one.rails)]));
    this.nodesOf.clear();
    for (let node = 0; node < this.nodeCount; node++) {
      let last = FREE;
      for (let gpu = this.gpu0[node]; gpu < this.gpu0[node + 1]; gpu++) {
        const job = this.job[gpu];
        if (job < 0 || job === last) continue;
        last = job;
        const there = this.nodesOf.get(job);
        if (!there) this.nodesOf.set(job, [node]);
        else if (there[there.length - 1] !== node) there.push(node);
      }
    }
  }

  #use([node, aside, ...pods]) {
    this.aside[node] = aside;
    this.job.fill(FREE, this.gpu0[node], this.gpu0[node + 1]);
    this.rank.fill(-1, this.gpu0[node], this.gpu0[node + 1]);
    for (let i = 0; i < pods.length; i += 3) {
      const at = this.jobAt.get(pods[i]) ?? ENDED;
      let rank = pods[i + 2];
      for (const gpu of bits(pods[i + 1])) {
        this.job[this.gpu0[node] + gpu] = at;
        this.rank[this.gpu0[node] + gpu] = rank++;
      }
    }
  }

  gpusOf(node) {
    return this.gpu0[node + 1] - this.gpu0[node];
  }

  /** Position of the domain of a level that has a node. */
  domainOf(depth, node) {
    const { ends } = this.levels[depth];
    let lo = 0, hi = ends.length - 1;
    while (lo < hi) {
      const middle = (lo + hi) >> 1;
      if (ends[middle] <= node) lo = middle + 1;
      else hi = middle;
    }
    return lo;
  }

  /** `[level, domain name]` outermost first, levels at which it has no place left out. */
  placesOf(node) {
    return this.levels.map((level, depth) => [level.name, level.names[this.domainOf(depth, node)]]).filter(([, name]) => name);
  }

  /** GPUs of a range of nodes: all, used, free on usable nodes, kept for somebody, nodes aside. */
  count(lo, hi) {
    const out = { nodes: hi - lo, gpus: 0, used: 0, free: 0, claimed: 0, aside: 0, idle: 0, kw: 0, kwAll: 0 };
    for (let node = lo; node < hi; node++) {
      let used = 0;
      for (let gpu = this.gpu0[node]; gpu < this.gpu0[node + 1]; gpu++) {
        if (this.job[gpu] !== FREE) used++;
        else if (this.claim[gpu] !== FREE) out.claimed++;
      }
      const all = this.gpusOf(node), draw = this.types[this.typeOf[node]].power_kw ?? 0;
      out.gpus += all;
      out.used += used;
      out.kwAll += draw;
      if (used) out.kw += draw;
      if (this.aside[node]) out.aside++;
      else {
        out.free += all - used;
        if (!used) out.idle++;
      }
    }
    return out;
  }
}

/** Positions of the bits of a hexadecimal number. */
export function bits(hex) {
  const found = [];
  for (let i = 0; i < hex.length; i++) {
    const digit = parseInt(hex[hex.length - 1 - i], 16);
    for (let bit = 0; bit < 4; bit++) if (digit & (1 << bit)) found.push(4 * i + bit);
  }
  return found;
}
