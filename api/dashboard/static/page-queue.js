// Who waits, in words why, and from when they would start; and all jobs.

import { h, href, jobLink, name, refill, table } from "./dom.js";
import { get, live } from "./live.js";
import { pill } from "./page-overview.js";
import { ago, clockTime, count, plural, REASONS, span, until } from "./words.js";

const PAGE = 200;

/** Jobs of some states, a page of each, kept current. */
function listing(body, { title, states, row, heads, label, empty, sort, intro, keep }) {
  const list = h("div"), more = h("p", { class: "note", role: "status" });
  body.append(h("h1", null, title), intro ?? "", list, more);
  let closed = false, timer = 0, busy = false, again = false;
  const read = async () => {
    if (busy) return void (again = true);
    busy = true;
    try {
      const wanted = typeof states === "function" ? states() : states;
      const pages = await Promise.all(wanted.map((state) => get(`/v1/jobs?limit=${PAGE}` + (state ? `&state=${state}` : ""))));
      if (closed) return;
      const jobs = pages.flatMap((page) => page.items).filter(keep ?? (() => true)).sort(sort);
      refill(list, jobs.length ? table(heads, jobs.map(row), { label }) : h("p", { class: "calm" }, empty));
      refill(more, pages.some((page) => page.next) ? `The first ${count(PAGE)} of each state are shown; yardctl get jobs has all.` : plural(jobs.length, "job"));
    } catch (error) {
      refill(more, h("span", { class: "warn" }, error.message));
    } finally {
      busy = false;
      if (again && !closed) setTimeout(read, 2000);
      again = false;
    }
  };
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(read, 200);
  };
  live.addEventListener("overview", soon);
  read();
  return {
    read,
    close() {
      closed = true;
      clearTimeout(timer);
      live.removeEventListener("overview", soon);
    },
  };
}

export function queuePage(body) {
  const wanted = decodeURIComponent(location.hash.split("?")[1] ?? "");
  const reasonOf = (job) => (job.state === "pending" ? job.reason ?? "new" : job.state);
  return listing(body, {
    title: "Queue", label: "Gangs that wait, in the order of priority and age", empty: "✔ Nobody waits.",
    states: ["pending", "reserved", "recovering", "suspended"],
    keep: wanted ? (job) => reasonOf(job) === wanted : undefined,
    intro: wanted ? h("p", null, "Those that wait for this: ", h("b", null, REASONS[wanted] ?? wanted), ". ", h("a", { href: href("queue") }, "Show all")) : null,
    sort: (a, b) => b.priority - a.priority || (a.submitted_at < b.submitted_at ? -1 : a.submitted_at > b.submitted_at ? 1 : 0),
    heads: ["Job", "State", ">Priority", "Queue", ">GPUs", ">Waits for", "Why", "Expected start"],
    row: (job) => [
      jobLink(`${job.namespace}/${job.name}`), pill(job.state), String(job.priority), name(job.queue), count(job.gpus), ago(job.submitted_at),
      h("div", { class: "why" }, h("b", null, job.never ? "it can never fit, as the cluster is" : REASONS[reasonOf(job)] ?? reasonOf(job)), job.held ? " (held)" : "", job.message ? h("p", { class: "note" }, name(job.message, { class: "message" })) : null),
      job.expected_start ? h("time", { datetime: job.expected_start, title: clockTime(job.expected_start) }, "in " + until(job.expected_start)) : "not known",
    ],
  }).close;
}

export function jobsPage(body) {
  let state = "placed";
  const choices = { placed: ["running", "bound", "recovering", "evicting"], waiting: ["pending", "reserved", "suspended"], ended: ["succeeded", "failed", "cancelled"], all: [null] };
  const pick = h("select", { id: "jobs-state", onchange: () => {
    state = pick.value;
    shown.read();
  } }, Object.keys(choices).map((value) => h("option", { value }, value === "placed" ? "in their place" : value)));
  const shown = listing(body, {
    title: "Jobs", label: "Jobs", empty: "There are none.", states: () => choices[state],
    intro: h("p", null, h("label", { for: "jobs-state" }, "Show "), pick),
    sort: (a, b) => b.gpus - a.gpus || (a.name < b.name ? -1 : 1),
    heads: ["Job", "State", ">GPUs", ">Pods", "Queue", ">Priority", "Since", ">Restarts", "Checkpoint"],
    row: (job) => {
      const since = job.finished_at ?? job.started_at ?? job.bound_at ?? job.submitted_at;
      return [jobLink(`${job.namespace}/${job.name}`), pill(job.state), count(job.gpus), `${count(job.running)}/${count(job.members)}`, name(job.queue), String(job.priority), h("time", { datetime: since, title: clockTime(since) }, ago(since) + " ago"), String(Math.max(0, job.attempt - 1)), job.saved ? `step ${count(job.saved.step)}, ${span((Date.now() - Date.parse(job.saved.at)) / 1000)} ago` : "–"];
    },
  });
  return shown.close;
}
