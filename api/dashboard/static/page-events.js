// What happened, newest first, and as it happens.

import { h, href, jobLink, name, nodeLink, refill, table } from "./dom.js";
import { get, live } from "./live.js";
import { clockTime } from "./words.js";

export function subject(s) {
  if (s.kind === "job") return jobLink(`${s.namespace}/${s.name}`);
  if (s.kind === "node") return nodeLink(s.name);
  return h("span", null, `${s.kind} `, name(s.namespace ? `${s.namespace}/${s.name}` : s.name));
}

/** A short list for a card. */
export function eventList(events) {
  if (!events.length) return h("p", { class: "note" }, "Nothing has happened yet.");
  return h("ol", { class: "plain events", reversed: true }, events.map((e) => h("li", null, h("time", { datetime: e.at }, clockTime(e.at)), " ", h("b", null, e.kind.split(".")[1] ?? e.kind), " ", subject(e.subject), e.message ? [" ", name(e.message, { class: "message" })] : null)));
}

/** A table for a page. */
export function eventTable(events, label) {
  return table(["When", ">Revision", "What", "Of", "Message"], events.map((e) => [
    h("time", { datetime: e.at }, clockTime(e.at)), String(e.revision), h("code", null, e.kind), subject(e.subject), name(e.message, { class: "message" }),
  ]), { label });
}

export function eventsPage(body) {
  let only = "";
  const list = h("div"), older = h("button", { type: "button" }, "Older events");
  const kinds = h("select", { id: "event-kind", onchange: () => {
    only = kinds.value;
    show();
  } }, [["", "everything"], ["job", "jobs"], ["node", "nodes"], ["queue", "queues"]].map(([value, text]) => h("option", { value }, text)));
  let past = [], start = null;
  const show = () => {
    const newest = live.events, known = new Set(newest.map((e) => e.revision));
    const all = [...newest, ...past.filter((e) => !known.has(e.revision))].filter((e) => !only || e.subject.kind === only);
    refill(list, all.length ? eventTable(all.slice(0, 1000), "Events, newest first") : h("p", { class: "note" }, "Nothing has happened yet."));
  };
  const readOlder = async () => {
    const from = start ?? live.events.at(-1)?.revision ?? live.overview?.revision ?? 0;
    start = Math.max(0, from - 200);
    older.disabled = true;
    try {
      const found = await get(`/v1/events?since=${start}&limit=200`);
      past = [...past, ...found.items.reverse()].filter((e, i, all) => all.findIndex((o) => o.revision === e.revision) === i).sort((a, b) => b.revision - a.revision);
      older.disabled = start === 0;
    } catch (error) {
      list.append(h("p", { class: "warn", role: "alert" }, error.message));
    }
    show();
  };
  older.addEventListener("click", readOlder);
  body.append(h("h1", null, "Events"), h("p", { class: "note" }, "Every change has a revision of its own. ", h("a", { href: href("curves") }, "Curves"), " show the same over time."), h("p", null, h("label", { for: "event-kind" }, "Show "), kinds), list, older);
  live.addEventListener("events", show);
  show();
  if (live.overview) readOlder();
  else live.addEventListener("overview", readOlder, { once: true });
  return () => {
    live.removeEventListener("events", show);
    live.removeEventListener("overview", readOlder);
  };
}
