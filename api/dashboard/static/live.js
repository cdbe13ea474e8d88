// What the page knows, and how it keeps up: it polls the overview, follows the watch, and asks for
// the map only while a map is shown.

import { WANTED } from "./login.js";
import { MapData } from "./map-data.js";

/** Between two looks at the overview; sooner after an event, but never sooner than PAUSE_S. */
const POLL_S = 10, PAUSE_S = 3, MAP_S = 2, EVENTS_KEPT = 500;

/** Kinds that the page is told of as they happen; heartbeats and reports of single pods are not. */
const WATCHED = "job,node,queue,policy,set,inventory,cluster,window,scheduler";

export class Problem extends Error {
  constructor(status, body) {
    const told = body?.errors?.map((e) => (e.path ? `${e.path}: ` : "") + e.message).join("; ");
    super(told || body?.title || `the service answered ${status}`);
    this.status = status;
  }
}

/** GET as JSON; with an ETag of before, null for 304. */
export async function get(path, kept) {
  const answer = await fetch(path, { headers: kept ? { "If-None-Match": kept.etag } : {}, cache: "no-store" });
  if (answer.status === 304) return null;
  const body = await answer.json().catch(() => null);
  if (answer.status === 401) document.dispatchEvent(new Event(WANTED));
  if (!answer.ok) throw new Problem(answer.status, body);
  if (kept) kept.etag = answer.headers.get("ETag") ?? "";
  return body;
}

class Live extends EventTarget {
  overview = null;
  events = [];
  map = null;
  state = "connecting";
  #overviewKept = { etag: "" };
  #mapKept = { etag: "" };
  #polledAt = 0;
  #timer = 0;
  #source = null;
  #mapUsers = 0;
  #mapAt = 0;
  #mapBusy = null;

  start() {
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.#closeWatch();
      else this.#poll();
    });
    return this.#poll();
  }

  /** Tell the page, by the name of what changed: `overview`, `map`, `events`, `state`. */
  #tell(what) {
    this.dispatchEvent(new Event(what));
  }

  #setState(state, why = "") {
    if (this.state === state && this.why === why) return;
    this.state = state;
    this.why = why;
    this.#tell("state");
  }

  async #poll() {
    clearTimeout(this.#timer);
    this.#polledAt = performance.now();
    try {
      const found = await get("/v1/overview", this.#overviewKept);
      this.#setState("live");
      if (found) {
        this.overview = found;
        this.#tell("overview");
        if (this.#mapUsers) this.#refreshMap();
      }
      if (!this.#source && this.overview) this.#watch(Math.max(0, this.overview.revision - 40));
    } catch (error) {
      this.#setState("away", error instanceof Problem ? error.message : "the service does not answer");
    }
    if (!document.hidden) this.#timer = setTimeout(() => this.#poll(), POLL_S * 1000);
  }

  #soon() {
    const wait = Math.max(0, PAUSE_S * 1000 - (performance.now() - this.#polledAt));
    clearTimeout(this.#timer);
    if (!document.hidden) this.#timer = setTimeout(() => this.#poll(), wait);
  }

  #watch(since) {
    const source = (this.#source = new EventSource(`/v1/watch?since=${since}&kind=${WATCHED}&pace_s=1`));
    source.onmessage = (message) => {
      const event = JSON.parse(message.data);
      if (this.events[0] && event.revision <= this.events[0].revision) return;
      this.events.unshift(event);
      if (this.events.length > EVENTS_KEPT) this.events.length = EVENTS_KEPT;
      if (!this.overview || event.revision > this.overview.revision) this.#soon();
      if (!this.#telling) this.#telling = setTimeout(() => {
        this.#telling = 0;
        this.#tell("events");
      }, 50);
    };
    source.onerror = () => {
      // 410 and 400 say that this start is of no use any more; then from now on.
      if (source.readyState !== EventSource.CLOSED) return;
      this.#closeWatch();
    };
  }
  #telling = 0;

  #closeWatch() {
    this.#source?.close();
    this.#source = null;
  }

  /** Keep the map current until the function that is returned is called. */
  useMap() {
    this.#mapUsers++;
    this.#refreshMap();
    return () => this.#mapUsers--;
  }

  async #refreshMap() {
    if (this.#mapBusy) return this.#mapBusy;
    const wait = this.map ? Math.max(0, MAP_S * 1000 - (performance.now() - this.#mapAt)) : 0;
    this.#mapBusy = new Promise((done) => setTimeout(done, wait)).then(() => this.#readMap());
    try {
      return await this.#mapBusy;
    } finally {
      this.#mapBusy = null;
    }
  }

  async #readMap() {
    this.#mapAt = performance.now();
    const since = this.map ? `?since=${this.map.revision}` : "";
    try {
      const found = await get("/v1/map" + since, this.#mapKept);
      if (!found) return;
      const isWhole = found.since === null;
      if (isWhole) this.map = new MapData(found);
      else if (found.use.length || found.jobs.length || changed(this.map, found)) this.map.apply(found);
      else {
        this.map.revision = found.revision;
        return;
      }
      this.#tell("map");
    } catch (error) {
      if (error instanceof Problem && this.map) this.map = null;
      else this.#setState("away", "the map could not be read");
    }
  }
}

function changed(map, found) {
  return JSON.stringify(map.claims) !== JSON.stringify(found.claims) || map.deadRails.size !== found.dead_rails.length;
}

export const live = new Live();
