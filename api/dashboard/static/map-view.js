// The map on a canvas: pan, zoom, hover, click, keys; from afar one picture, close by each GPU.

import { Atlas, drawMark } from "./map-atlas.js";
import { lookOf, palette } from "./map-colours.js";
import { FREE } from "./map-data.js";
import { at, CELL, columnsOf, gpuAt, layOut } from "./map-layout.js";
import { h, shown } from "./dom.js";

/** Screen pixels of a unit from which on each GPU is drawn by itself. */
const CLOSE = 3;
const ZOOM_MAX = 24;

export class MapView {
  /**
   * @param options only: nodes to show; mode; extra: what the mode needs; onpick(thing), onhover(thing, event):
   *   thing = {node, gpu, box} or null; label
   */
  constructor(options) {
    this.options = options;
    this.mode = options.mode ?? "job";
    this.canvas = h("canvas", {
      tabindex: "0", role: "application", "aria-roledescription": "map", "aria-label": options.label ?? "Map of the cluster",
      "aria-describedby": "map-help",
    });
    this.told = h("div", { class: "unseen", "aria-live": "polite" });
    this.element = h("div", { class: "map" }, this.canvas, this.told,
      h("div", { class: "map-buttons" },
        h("button", { type: "button", class: "quiet", "aria-label": "Zoom in", onclick: () => this.zoom(1.6) }, "+"),
        h("button", { type: "button", class: "quiet", "aria-label": "Zoom out", onclick: () => this.zoom(1 / 1.6) }, "−"),
        h("button", { type: "button", class: "quiet", "aria-label": "Show all", onclick: () => this.fit() }, "⤢")),
      h("p", { id: "map-help", class: "unseen" }, "Arrow keys go from node to node, plus and minus zoom, 0 shows all, Enter opens the node, J its job."));
    this.scale = 0;
    this.x = this.y = 0;
    this.cursor = this.hovered = null;
    this.dark = document.documentElement.dataset.theme === "dark";
    this.frames = [];
    this.#listen();
    this.sizes = new ResizeObserver(() => this.#resize());
    this.sizes.observe(this.element);
  }

  close() {
    this.sizes.disconnect();
    this.closed = true;
  }

  setData(data) {
    const isNew = this.data !== data;
    this.data = data;
    if (isNew || this.options.only) this.#layOut();
    this.repaint();
  }

  setOnly(only) {
    this.options.only = only;
    if (this.data) this.#layOut();
    this.repaint();
  }

  setMode(mode, extra) {
    this.mode = mode;
    this.options.extra = extra;
    this.repaint();
  }

  setDark(dark) {
    this.dark = dark;
    this.repaint();
  }

  /** Draw the picture anew: what is on the map, or how to look at it, has changed. */
  repaint() {
    if (!this.data || !this.layout) return;
    this.looks = lookOf(this.mode, this.data, this.dark, this.options.extra);
    this.atlas.paint(this.data, this.looks.look, this.dark);
    this.draw();
  }

  legend() {
    return this.looks?.legend() ?? [];
  }

  /** The whole map in the window. */
  fit() {
    if (!this.layout || !this.width) return;
    const scale = Math.min(this.width / (this.layout.width + 8), this.height / (this.layout.height + 8));
    this.scale = Math.min(scale, ZOOM_MAX / 2);
    this.x = (this.width / this.scale - this.layout.width) / 2;
    this.y = (this.height / this.scale - this.layout.height) / 2;
    this.fitted = true;
    this.draw();
  }

  zoom(factor, px = this.width / 2, py = this.height / 2) {
    const least = Math.min(this.width / this.layout.width, this.height / this.layout.height) / 2;
    const scale = Math.min(ZOOM_MAX, Math.max(least, this.scale * factor));
    this.x += px / scale - px / this.scale;
    this.y += py / scale - py / this.scale;
    this.scale = scale;
    this.fitted = false;
    this.draw();
  }

  pan(dx, dy) {
    this.x += dx / this.scale;
    this.y += dy / this.scale;
    // Part of the map stays in the window.
    const keep = 40 / this.scale;
    this.x = Math.min(this.width / this.scale - keep, Math.max(keep - this.layout.width, this.x));
    this.y = Math.min(this.height / this.scale - keep, Math.max(keep - this.layout.height, this.y));
    this.fitted = false;
    this.draw();
  }

  /** Bring nodes into the window, and mark them. */
  show(nodes) {
    const there = nodes.filter((node) => this.layout.nodes.x[node] >= 0);
    if (!there.length) return;
    const { x, y, w, h: tall } = this.layout.nodes;
    const lo = [Math.min(...there.map((n) => x[n])), Math.min(...there.map((n) => y[n]))];
    const hi = [Math.max(...there.map((n) => x[n] + w[n])), Math.max(...there.map((n) => y[n] + tall[n]))];
    const scale = Math.min(this.width / (hi[0] - lo[0] + 60), this.height / (hi[1] - lo[1] + 60), 10);
    this.scale = scale;
    this.x = this.width / scale / 2 - (lo[0] + hi[0]) / 2;
    this.y = this.height / scale / 2 - (lo[1] + hi[1]) / 2;
    this.fitted = false;
    this.marked = new Set(there);
    this.draw();
  }

  mark(nodes) {
    this.marked = nodes ? new Set(nodes) : null;
    this.draw();
  }

  draw() {
    if (this.pending || this.closed) return;
    this.pending = requestAnimationFrame((time) => {
      this.pending = 0;
      this.frames.push(time);
      if (this.frames.length > 600) this.frames.shift();
      this.#draw();
    });
  }

  // -- drawing ------------------------------------------------------------------------------------

  #layOut() {
    const aspect = this.width && this.height ? this.width / this.height : 1.6;
    this.layout = layOut(this.data, aspect, this.options.only);
    this.atlas = new Atlas(this.layout);
    this.cursor = this.hovered = this.marked = null;
    this.fit();
  }

  #resize() {
    const { clientWidth, clientHeight } = this.element;
    if (!clientWidth || !clientHeight) return;
    const first = !this.width, turned = this.width && clientWidth > clientHeight !== this.width > this.height;
    this.width = clientWidth;
    this.height = clientHeight;
    this.ratio = Math.min(2, window.devicePixelRatio || 1);
    this.canvas.width = clientWidth * this.ratio;
    this.canvas.height = clientHeight * this.ratio;
    if (this.data && (first || turned)) {
      this.#layOut();
      this.repaint();
    } else if (this.layout && this.fitted) this.fit();
    else this.draw();
  }

  #draw() {
    if (!this.layout || !this.width) return;
    const c = this.canvas.getContext("2d", { alpha: false }), p = palette(this.dark), s = this.scale;
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    c.fillStyle = p.ground;
    c.fillRect(0, 0, this.width, this.height);
    if (s < CLOSE) this.#drawAtlas(c);
    else this.#drawClose(c, p);
    this.#outline(c, p);
    this.#labels(c, p);
    // For whoever measures how soon the map is there.
    if (!this.painted) this.painted = performance.mark("map-painted");
  }

  #drawAtlas(c) {
    const small = this.scale * this.ratio <= 0.8, picture = this.atlas.picture(small), unit = small ? 2 : 1;
    c.imageSmoothingEnabled = this.scale * this.ratio < 1.5;
    // Only the part in the window: the rest would be scaled for nothing.
    const x0 = Math.max(0, Math.floor(-this.x / unit)), y0 = Math.max(0, Math.floor(-this.y / unit));
    const w = Math.min(picture.width - x0, Math.ceil(this.width / this.scale / unit) + 1);
    const tall = Math.min(picture.height - y0, Math.ceil(this.height / this.scale / unit) + 1);
    if (w <= 0 || tall <= 0) return;
    const s = this.scale;
    c.drawImage(picture, x0, y0, w, tall, (x0 * unit + this.x) * s, (y0 * unit + this.y) * s, w * unit * s, tall * unit * s);
  }

  #drawClose(c, p) {
    const s = this.scale;
    const walk = (box) => {
      if (!this.#inWindow(box.x, box.y, box.w, box.h)) return;
      if (box.depth >= 0) {
        c.fillStyle = p.boxes[box.depth % p.boxes.length];
        c.fillRect((box.x + this.x) * s, (box.y + this.y) * s, box.w * s, box.h * s);
      }
      for (const child of box.children) {
        if (child.children) walk(child);
        else this.#drawNode(c, p, child.node);
      }
    };
    walk(this.layout.root);
  }

  #drawNode(c, p, node) {
    const { layout, data, scale: s } = this, nx = layout.nodes.x[node], ny = layout.nodes.y[node];
    if (!this.#inWindow(nx, ny, layout.nodes.w[node], layout.nodes.h[node])) return;
    c.fillStyle = p.node;
    c.fillRect((nx + this.x) * s, (ny + this.y) * s, layout.nodes.w[node] * s, layout.nodes.h[node] * s);
    const gpus = data.gpusOf(node), columns = columnsOf(gpus), first = data.gpu0[node], size = 3 * s;
    for (let gpu = 0; gpu < gpus; gpu++) {
      const { colour, mark } = this.looks.look(first + gpu, node);
      const x = (nx + 1 + (gpu % columns) * CELL + this.x) * s, y = (ny + 1 + Math.floor(gpu / columns) * CELL + this.y) * s;
      drawMark(c, x, y, size, colour, mark);
      if (size > 26 && data.rank[first + gpu] >= 0) {
        c.font = `600 ${Math.min(14, size / 3.2)}px system-ui, sans-serif`;
        c.textAlign = "center";
        c.textBaseline = "middle";
        const text = String(data.rank[first + gpu]), wide = c.measureText(text).width + 6;
        c.fillStyle = p.node;
        c.fillRect(x + size / 2 - wide / 2, y + size / 2 - size / 5, wide, size / 2.5);
        c.fillStyle = p.text;
        c.fillText(text, x + size / 2, y + size / 2);
      }
    }
  }

  #outline(c, p) {
    const { layout, scale: s } = this;
    const frame = (x, y, w, tall, colour, line) => {
      c.strokeStyle = colour;
      c.lineWidth = line;
      c.strokeRect((x + this.x) * s, (y + this.y) * s, w * s, tall * s);
    };
    const onNode = (node, colour, line) => frame(layout.nodes.x[node], layout.nodes.y[node], layout.nodes.w[node], layout.nodes.h[node], colour, line);
    if (s * CELL > 5) {
      const walk = (box) => {
        if (!this.#inWindow(box.x, box.y, box.w, box.h)) return;
        if (box.depth >= 0) frame(box.x, box.y, box.w, box.h, p.line, box.depth === 0 ? 1.5 : 0.75);
        for (const child of box.children) if (child.children) walk(child);
      };
      walk(layout.root);
    }
    if (this.hovered?.node !== undefined && this.hovered.node !== null) {
      const job = this.hovered.gpu >= 0 ? this.data.job[this.data.gpu0[this.hovered.node] + this.hovered.gpu] : FREE;
      if (job >= 0) for (const node of this.data.nodesOf.get(job) ?? []) if (layout.nodes.x[node] >= 0) onNode(node, p.text, 1.5);
      onNode(this.hovered.node, p.text, 2.5);
    } else if (this.hovered?.box?.depth >= 0) frame(this.hovered.box.x, this.hovered.box.y, this.hovered.box.w, this.hovered.box.h, p.text, 2);
    for (const node of this.marked ?? []) onNode(node, p.text, 2);
    if (this.cursor !== null && document.activeElement === this.canvas) onNode(this.cursor, p.bad, 3);
  }

  #labels(c, p) {
    const { data, scale: s } = this;
    c.textAlign = "left";
    c.textBaseline = "top";
    const walk = (box) => {
      if (!this.#inWindow(box.x, box.y, box.w, box.h)) return;
      if (box.depth >= 0 && box.head) {
        const room = box.head * s, size = Math.min(15, Math.max(10, room * 0.8));
        // The outermost boxes are named also where that covers a little of what is in them.
        const over = room < 9 && box.depth === 0 && box.h * s > 40;
        if ((room >= 9 || over) && box.w * s > 34) {
          c.font = `600 ${size}px system-ui, sans-serif`;
          const x = Math.max((box.x + this.x) * s, 0) + 4, y = (box.y + this.y) * s + 2;
          const level = data.levels[box.depth], text = clipped(c, shown(level.names[box.domain]) || `no ${level.name}`, box.w * s - 8);
          if (over) {
            c.fillStyle = p.node;
            c.globalAlpha = 0.85;
            c.fillRect(x - 3, y - 1, c.measureText(text).width + 6, size + 3);
            c.globalAlpha = 1;
          }
          c.fillStyle = over ? p.text : p.soft;
          c.fillText(text, x, y);
        }
      }
      for (const child of box.children) if (child.children) walk(child);
    };
    walk(this.layout.root);
  }

  #inWindow(x, y, w, tall) {
    return x + w + this.x >= 0 && y + tall + this.y >= 0 && (x + this.x) * this.scale <= this.width && (y + this.y) * this.scale <= this.height;
  }

  // -- hands and keys -----------------------------------------------------------------------------

  thingAt(px, py) {
    if (!this.layout) return null;
    const x = px / this.scale - this.x, y = py / this.scale - this.y, found = at(this.layout, x, y);
    if (!found) return null;
    return found.node === undefined ? found : { ...found, gpu: gpuAt(this.layout, this.data, found.node, x, y) };
  }

  #listen() {
    const { canvas } = this, pointers = new Map();
    let moved = 0, pinch = 0;
    const point = (event) => [event.offsetX, event.offsetY];
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, point(event));
      moved = pinch = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId), now = point(event);
      if (!before) {
        this.#hover(this.thingAt(...now), event);
        return;
      }
      pointers.set(event.pointerId, now);
      if (pointers.size === 1) {
        moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
        if (moved > 4) this.pan(now[0] - before[0], now[1] - before[1]);
      } else {
        const [a, b] = [...pointers.values()], wide = Math.hypot(a[0] - b[0], a[1] - b[1]);
        if (pinch) this.zoom(wide / pinch, (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
        pinch = wide;
        moved = 99;
      }
    });
    const up = (event) => {
      const was = pointers.delete(event.pointerId);
      if (was && event.type === "pointerup" && moved <= 4) this.options.onpick?.(this.thingAt(...point(event)));
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", (event) => this.#hover(null, event));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), ...point(event));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.#key(event));
    for (const kind of ["focus", "blur"]) canvas.addEventListener(kind, () => this.draw());
  }

  #hover(thing, event) {
    const same = this.hovered?.node === thing?.node && this.hovered?.gpu === thing?.gpu && this.hovered?.box === thing?.box;
    this.hovered = thing;
    if (!same) this.draw();
    this.options.onhover?.(thing, event);
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.layout) return;
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const step = steps[event.key];
    if (step && event.shiftKey) this.pan(-60 * step[0], -60 * step[1]);
    else if (step) this.#go(...step);
    else if (event.key === "+" || event.key === "=") this.zoom(1.5);
    else if (event.key === "-") this.zoom(1 / 1.5);
    else if (event.key === "0") this.fit();
    else if (event.key === "Escape") {
      this.cursor = null;
      this.mark(null);
      this.options.onpick?.(null);
    } else if (this.cursor !== null && (event.key === "Enter" || event.key === "j" || event.key === "J")) {
      this.options.onopen?.({ node: this.cursor, gpu: 0 }, event.key === "Enter" ? "node" : "job");
    } else return;
    event.preventDefault();
  }

  /** To the nearest node in a direction. */
  #go(dx, dy) {
    const { nodes, order } = this.layout;
    const middle = (node) => [nodes.x[node] + nodes.w[node] / 2, nodes.y[node] + nodes.h[node] / 2];
    let best = this.cursor === null ? order[0] : null, least = Infinity;
    if (best === null) {
      const [cx, cy] = middle(this.cursor);
      for (const node of order) {
        const [x, y] = middle(node), along = (x - cx) * dx + (y - cy) * dy, across = Math.abs((x - cx) * dy) + Math.abs((y - cy) * dx);
        if (along > 0 && along + 3 * across < least) [best, least] = [node, along + 3 * across];
      }
    }
    if (best === null || best === undefined) return;
    this.cursor = best;
    const [x, y] = middle(best), px = (x + this.x) * this.scale, py = (y + this.y) * this.scale;
    if (px < 20 || py < 20 || px > this.width - 20 || py > this.height - 20) this.pan(this.width / 2 - px, this.height / 2 - py);
    const thing = { node: best, gpu: 0 };
    this.told.textContent = this.options.tell?.(thing) ?? this.data.names[best];
    this.options.onpick?.(thing, "key");
    this.draw();
  }
}

function clipped(c, text, room) {
  if (c.measureText(text).width <= room) return text;
  let keep = Math.max(1, Math.floor((text.length * room) / c.measureText(text).width) - 1);
  while (keep > 1 && c.measureText(text.slice(0, keep) + "…").width > room) keep--;
  return text.slice(0, keep) + "…";
}
