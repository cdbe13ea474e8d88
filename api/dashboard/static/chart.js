// Curves over time, drawn as SVG; each line has a dash of its own and its name at its end.

import { h, svg } from "./dom.js";

const W = 560, H = 200, LEFT = 52, RIGHT = 8, TOP = 10, BOTTOM = 24;
const DASHES = ["", "7 4", "2 3", "10 3 2 3"];

/**
 * @param times Unix seconds, ascending
 * @param lines [{name, values (null = not known), low, high}]
 * @param options title, unit(value) -> text, max: fixed top, least: lowest top
 */
export function chart(times, lines, { title, unit, max, least = 1e-9 }) {
  const known = lines.flatMap((line) => [...line.values, ...(line.high ?? [])]).filter((v) => v !== null && v !== undefined);
  if (!times.length || !known.length) return h("figure", { class: "chart" }, h("figcaption", null, title), h("p", { class: "note" }, "Nothing has been noted yet."));
  const top = nice(max ?? Math.max(...known, least)), from = times[0], to = Math.max(times.at(-1), from + 1);
  const x = (t) => LEFT + ((t - from) / (to - from)) * (W - LEFT - RIGHT), y = (v) => TOP + (1 - Math.min(v, top) / top) * (H - TOP - BOTTOM);
  const last = lines.map((line) => `${line.name} ${unit(line.values.findLast((v) => v !== null) ?? 0)}`).join(", ");
  const read = h("p", { class: "keys", "aria-live": "off" });
  const tell = (i) => read.replaceChildren(...lines.map((line, n) => h("span", null, svg("svg", { class: `stroke s${n % 4}`, width: 22, height: 8, "aria-hidden": "true" }, svg("line", { x1: 0, y1: 4, x2: 22, y2: 4, "stroke-dasharray": DASHES[n % 4] })), ` ${line.name} ${line.values[i] === null ? "–" : unit(line.values[i])}`)), h("span", { class: "note" }, label(times[i], to - from)));
  tell(times.length - 1);
  const cursor = svg("line", { class: "cursor", y1: TOP, y2: H - BOTTOM, x1: -9, x2: -9 });
  const picture = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${title}: now ${last}` },
    [0, 0.5, 1].map((part) => [svg("line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: y(part * top), y2: y(part * top) }), svg("text", { x: LEFT - 6, y: y(part * top) + 4, "text-anchor": "end" }, unit(part * top))]),
    [0, 0.5, 1].map((part) => svg("text", { x: LEFT + part * (W - LEFT - RIGHT), y: H - 6, "text-anchor": ["start", "middle", "end"][part * 2] }, label(from + part * (to - from), to - from))),
    lines.map((line, n) => [line.high ? svg("path", { class: `band s${n % 4}`, d: band(times, line, x, y) }) : null, svg("path", { class: `stroke s${n % 4}`, d: path(times, line.values, x, y), "stroke-dasharray": DASHES[n % 4] })]),
    cursor);
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect(), at = from + (((event.clientX - box.left) / box.width) * W - LEFT) / (W - LEFT - RIGHT) * (to - from);
    let best = 0;
    times.forEach((t, i) => (best = Math.abs(t - at) < Math.abs(times[best] - at) ? i : best));
    tell(best);
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, x(times[best]));
  });
  return h("figure", { class: "chart" }, h("figcaption", null, title), picture, read);
}

function path(times, values, x, y) {
  let d = "", pen = false;
  values.forEach((v, i) => {
    if (v === null || v === undefined) return void (pen = false);
    d += `${pen ? "L" : "M"}${x(times[i]).toFixed(1)} ${y(v).toFixed(1)}`;
    pen = true;
  });
  return d;
}

function band(times, line, x, y) {
  const there = times.map((_, i) => i).filter((i) => line.high[i] !== null && line.low[i] !== null);
  if (there.length < 2) return "";
  const up = there.map((i) => `${x(times[i]).toFixed(1)} ${y(line.high[i]).toFixed(1)}`), down = there.reverse().map((i) => `${x(times[i]).toFixed(1)} ${y(line.low[i]).toFixed(1)}`);
  return `M${up.join("L")}L${down.join("L")}Z`;
}

function nice(value) {
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * size >= value) * size;
}

function label(t, width) {
  const at = new Date(t * 1000);
  if (width > 3 * 86400) return at.toLocaleDateString("en", { month: "short", day: "numeric" });
  return at.toLocaleTimeString("en", { hour12: false, hour: "2-digit", minute: "2-digit", second: width < 600 ? "2-digit" : undefined });
}
