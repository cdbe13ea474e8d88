// Numbers, times and states in words.

const COUNT = new Intl.NumberFormat("en");

export const count = (n) => COUNT.format(n);
/** The name of a level for several of its domains. */
export const several = (level) => (level.endsWith("f") ? level.slice(0, -1) + "ve" : level) + "s";

export const plural = (n, one, many = one + "s") => `${count(n)} ${n === 1 ? one : many}`;
export const percent = (share) => (share >= 0.9995 ? "100 %" : (100 * share).toFixed(share < 0.1 && share > 0 ? 1 : 0) + " %");

export const power = (kw) => (kw >= 1e4 ? (kw / 1e3).toFixed(1) + " MW" : count(Math.round(kw)) + " kW");

/** Seconds in the two units that matter. */
export function span(s) {
  if (!Number.isFinite(s)) return "–";
  if (s < 0) return "now";
  if (s < 60) return Math.round(s) + " s";
  const units = [["d", 86400], ["h", 3600], ["min", 60]];
  for (const [i, [unit, size]] of units.entries()) {
    if (s < size) continue;
    const first = Math.floor(s / size), next = units[i + 1];
    const rest = next ? Math.floor((s % size) / next[1]) : 0;
    return `${first} ${unit}` + (rest ? ` ${rest} ${next[0]}` : "");
  }
  return "–";
}

/** A short time: 12 µs, 3.4 ms, 1.2 s. */
export function brief(s) {
  if (s === null || s === undefined) return "–";
  if (s === 0) return "0";
  if (s < 1e-3) return (s * 1e6).toPrecision(2) + " µs";
  if (s < 1) return (s * 1e3).toPrecision(3) + " ms";
  return s.toPrecision(3) + " s";
}

export function bytes(n) {
  if (n === null || n === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  for (; n >= 1000 && i < units.length - 1; i++) n /= 1000;
  return n.toPrecision(3) + " " + units[i];
}

export const now = () => Date.now() / 1000;
export const seconds = (time) => Date.parse(time) / 1000;
export const ago = (time) => span(Math.max(0, now() - seconds(time)));
export const until = (time) => span(seconds(time) - now());

export function clockTime(time) {
  const at = new Date(time);
  const day = now() - at / 1000 > 86400 || at / 1000 - now() > 86400;
  const part = day ? at.toLocaleDateString("en", { month: "short", day: "numeric" }) + " " : "";
  return part + at.toLocaleTimeString("en", { hour12: false });
}

/** Every state with a glyph, so that none is told by its colour alone. */
export const STATES = {
  pending: ["◔", "waits for a place"], reserved: ["◑", "a place is kept for it"], bound: ["◕", "has its place, starts"],
  running: ["▶", "runs"], recovering: ["⟳", "replaces what it lost"], evicting: ["⏏", "is leaving"],
  suspended: ["⏸", "is suspended"], succeeded: ["✔", "has succeeded"], failed: ["✖", "has failed"], cancelled: ["⊘", "was cancelled"],
};

/** What a gang waits for, in words. */
export const REASONS = {
  room: "no room", rule: "room, but not where its rules allow", quota: "its queue's quota is in use", limit: "its queue's limit is reached",
  patience: "waits for a better place", reservation: "its start is reserved", backoff: "waits before it tries again",
  breaker: "automatic moves have stopped", paused: "the scheduler is paused", closed: "its queue is closed",
  new: "not looked at yet", reserved: "a place is kept for it", suspended: "suspended by people", recovering: "replaces lost members",
};

/** Why nodes take nothing, with the mark they have on the map. */
export const STANDINGS = {
  cordoned: ["╱", "cordoned: takes no new gangs"], draining: ["↓", "draining: what runs there leaves"],
  suspect: ["?", "suspect: silent for a moment"], lost: ["✖", "lost: silent for too long"],
  out: ["✖", "out of service"], testing: ["~", "being tested"],
  mismatch: ["≠", "mismatch: an audit found its books wrong"], quarantined: ["⏳", "in quarantine: it came and went too often"],
};
