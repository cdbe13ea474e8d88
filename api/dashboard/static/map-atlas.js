// The whole map as one picture of a pixel a unit, for looking from afar: panning it is one draw.

import { MARKS, palette } from "./map-colours.js";
import { CELL, columnsOf } from "./map-layout.js";

const RGB = new Map();
const probe = document.createElement("canvas").getContext("2d");

/** A CSS colour as the 32 bits of a pixel. */
function pixelOf(colour) {
  let pixel = RGB.get(colour);
  if (pixel === undefined) {
    probe.fillStyle = colour;
    const value = parseInt(probe.fillStyle.slice(1), 16);
    pixel = (0xff000000 | ((value & 0xff) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
    RGB.set(colour, pixel);
  }
  return pixel;
}

const points = Object.fromEntries(Object.entries(MARKS).map(([mark, ink]) => [
  mark, Array.from({ length: 9 }, (_, i) => i).filter((i) => ink & (1 << (8 - i))).map((i) => [i % 3, Math.floor(i / 3)]),
]));

/** The same in two by two, for the picture of half the size; from so far away colour says most. */
const FEW = {
  full: [[0, 0], [1, 0], [0, 1], [1, 1]], ring: [[0, 0], [1, 0], [0, 1], [1, 1]], cross: [[0, 0], [1, 0], [0, 1], [1, 1]],
  slash: [[1, 0], [0, 1]], dot: [[0, 0]], plus: [[0, 0], [1, 0], [0, 1]], bar: [[0, 0], [1, 0]], half: [[0, 0], [1, 0], [0, 1]], corners: [[0, 0], [1, 1]],
};

export class Atlas {
  constructor(layout) {
    this.layout = layout;
    this.full = document.createElement("canvas");
    this.full.width = Math.max(1, layout.width);
    this.full.height = Math.max(1, layout.height);
    this.half = document.createElement("canvas");
    this.half.width = Math.ceil(this.full.width / 2);
    this.half.height = Math.ceil(this.full.height / 2);
    this.pictures = [this.full, this.half].map((canvas) => {
      const image = new ImageData(canvas.width, canvas.height);
      return { canvas, image, pixels: new Uint32Array(image.data.buffer) };
    });
  }

  /** Draw everything anew: each picture when it is next asked for. */
  paint(data, look, dark) {
    this.task = { data, look, dark };
    for (const picture of this.pictures) picture.isStale = true;
  }

  /** The picture of the whole size, or of half of it. */
  picture(isHalf) {
    const picture = this.pictures[isHalf ? 1 : 0];
    if (picture.isStale) {
      picture.isStale = false;
      this.#paintOne(picture, isHalf ? 2 : 1, isHalf ? FEW : points);
    }
    return picture.canvas;
  }

  /** @param unit units to a pixel: 1 or 2 */
  #paintOne({ canvas, image, pixels }, unit, inks) {
    const { layout } = this, { data, look, dark } = this.task, p = palette(dark), { width, height } = canvas, cell = CELL / unit;
    const offsets = Object.fromEntries(Object.entries(inks).map(([mark, ink]) => [mark, Int32Array.from(ink, ([dx, dy]) => dy * width + dx)]));
    const rect = (x, y, w, h, pixel) => {
      const x0 = Math.floor(x / unit), x1 = Math.min(width, Math.ceil((x + w) / unit)), y1 = Math.min(height, Math.ceil((y + h) / unit));
      for (let row = Math.floor(y / unit); row < y1; row++) pixels.fill(pixel, row * width + x0, row * width + x1);
    };
    pixels.fill(pixelOf(p.ground));
    const boxes = p.boxes.map(pixelOf);
    const walk = (box) => {
      if (box.depth >= 0) rect(box.x, box.y, box.w, box.h, boxes[box.depth % boxes.length]);
      for (const child of box.children) if (child.children) walk(child);
    };
    walk(layout.root);
    const ground = pixelOf(p.node);
    for (const node of layout.order) {
      const x0 = layout.nodes.x[node], y0 = layout.nodes.y[node];
      if (unit === 1) rect(x0, y0, layout.nodes.w[node], layout.nodes.h[node], ground);
      const gpus = data.gpusOf(node), columns = columnsOf(gpus), first = data.gpu0[node];
      const corner = Math.floor((y0 + 1) / unit) * width + Math.floor((x0 + 1) / unit);
      for (let gpu = 0; gpu < gpus; gpu++) {
        // Equal looks are one object, as a rule, so that its pixel is worked out once.
        const seen = look(first + gpu, node), pixel = (seen.pixel ??= pixelOf(seen.colour)), ink = offsets[seen.mark];
        const column = gpu % columns, at = corner + ((gpu - column) / columns) * cell * width + column * cell;
        for (let i = 0; i < ink.length; i++) pixels[at + ink[i]] = pixel;
      }
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
  }
}

/** A mark as a small picture, for legends. */
export function swatch(colour, mark) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 30;
  canvas.className = "swatch";
  canvas.setAttribute("aria-hidden", "true");
  drawMark(canvas.getContext("2d"), 3, 3, 24, colour, mark);
  return canvas;
}

/** A mark in a square; the same as in the atlas, drawn with lines. */
export function drawMark(context, x, y, size, colour, mark) {
  const third = size / 3, ink = MARKS[mark];
  context.fillStyle = context.strokeStyle = colour;
  if (mark === "full") return context.fillRect(x, y, size, size);
  if (mark === "ring" || !mark) {
    const line = Math.max(1, size / 9);
    context.lineWidth = line;
    context.strokeRect(x + line / 2, y + line / 2, size - line, size - line);
    return undefined;
  }
  if (mark === "slash" || mark === "cross") {
    context.lineWidth = Math.max(1.5, size / 6);
    context.beginPath();
    context.moveTo(x, y + size);
    context.lineTo(x + size, y);
    if (mark === "cross") {
      context.moveTo(x, y);
      context.lineTo(x + size, y + size);
    }
    return context.stroke();
  }
  for (let i = 0; i < 9; i++) {
    if (ink & (1 << (8 - i))) context.fillRect(x + (i % 3) * third, y + Math.floor(i / 3) * third, third + 0.5, third + 0.5);
  }
  return undefined;
}
