// Use, fragmentation, waits and faults over time.

import { chart } from "./chart.js";
import { h, refill, shown } from "./dom.js";
import { get } from "./live.js";
import { brief, count, percent, span } from "./words.js";

const SPANS = [["1 hour", 3600], ["6 hours", 6 * 3600], ["1 day", 86400], ["1 week", 7 * 86400], ["1 month", 30 * 86400], ["1 year", 365 * 86400]];

const FIGURES = [
  ["GPUs", count, [["gpus_used", "in use"], ["gpus_free", "free"], ["gpus_aside", "aside"]]],
  ["Share of usable GPUs in use", percent, [["utilisation", "in use"]], 1],
  ["Gangs", count, [["gangs_placed", "in their place"], ["gangs_waiting", "waiting"]]],
  ["Wait of those placed", span, [["wait_s", "mean"]]],
  ["Longest wait of those that wait", span, [["oldest_wait_s", "longest"]]],
  ["Free GPUs scattered over domains partly in use", percent, null, 1],
  ["Nodes aside", count, [["nodes_aside", "aside"]]],
  ["Faults and restarts", count, [["faults", "faults"], ["restarts", "gangs that went back"]]],
  ["Time to decide a cycle", brief, [["decide_s", "mean"]]],
];

export function curvesPage(body) {
  let width = 3600, closed = false;
  const charts = h("div", { class: "charts" }), note = h("p", { class: "note", role: "status" });
  const pick = h("select", { id: "curve-span", onchange: () => {
    width = Number(pick.value);
    read();
  } }, SPANS.map(([text, s]) => h("option", { value: s }, text)));
  const read = async () => {
    try {
      const found = await get(`/v1/series?span_s=${width}`);
      if (closed) return;
      const scattered = Object.keys(found.series).filter((one) => one.startsWith("fragmentation.")).slice(0, 4).map((one) => [one, shown(one.slice("fragmentation.".length))]);
      refill(charts, FIGURES.map(([title, unit, lines, max]) => chart(found.times, (lines ?? scattered).filter(([one]) => found.series[one]).map(([one, text]) => ({ name: text, values: found.series[one].mean, low: found.step_s > 60 ? found.series[one].low : null, high: found.step_s > 60 ? found.series[one].high : null })), { title, unit, max, least: unit === count ? 1 : undefined })));
      refill(note, found.times.length ? `A point is ${span(found.step_s)}; the bands show the lowest and highest of each.` : "Nothing has been noted yet; the first point comes within half a minute.");
    } catch (error) {
      refill(note, h("span", { class: "warn" }, error.message));
    }
  };
  body.append(h("h1", null, "Curves"), h("p", null, h("label", { for: "curve-span" }, "The last "), pick), charts, note);
  read();
  const timer = setInterval(() => !document.hidden && read(), 15000);
  return () => {
    closed = true;
    clearInterval(timer);
  };
}
